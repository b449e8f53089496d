import { describe, expect, test } from "vitest";
import { configMapNamed, namespaceNamed, podNamed, refusal, TestApi } from "../../../testing/apiserver/testApi.ts";
import type { Namespace } from "../../model/kubernetes.generated.ts";

async function filled(): Promise<TestApi> {
  const api = await TestApi.start();
  await api.create("/namespaces", namespaceNamed("team"));
  await api.create("/pods", podNamed("team/pod"));
  await api.create("/configmaps", configMapNamed("team/settings"));
  await api.settle();
  return api;
}

function condition(api: TestApi, type: string): { status: string; message?: string } | undefined {
  const namespace = api.get("/namespaces", "team") as Namespace | undefined;
  return namespace?.status?.conditions?.find((each) => each.type === type);
}

test("a new namespace gets its service account and the authority's certificate", async () => {
  const api = await filled();
  expect(api.get("/serviceaccounts", "team/default")).toBeDefined();
  expect(api.get("/configmaps", "team/kube-root-ca.crt")?.["data"]).toEqual({ "ca.crt": "PEM" });
});

test("the certificate is restored when it is deleted or changed", async () => {
  const api = await filled();
  await api.edit("/configmaps", "team/kube-root-ca.crt", (map) => {
    map["data"] = { "ca.crt": "forged" };
  });
  await api.delete("/serviceaccounts", "team/default");
  await api.settle();
  expect(api.get("/configmaps", "team/kube-root-ca.crt")?.["data"]).toEqual({ "ca.crt": "PEM" });
  expect(api.get("/serviceaccounts", "team/default")).toBeDefined();
});

describe("a namespace that is deleted", () => {
  test("is deleted with its content, and other namespaces are unchanged", async () => {
    const api = await filled();
    await api.create("/configmaps", configMapNamed("default/other"));
    await api.delete("/namespaces", "team");
    await api.settle();
    expect(api.get("/namespaces", "team")).toBeUndefined();
    expect(api.names("/configmaps").filter((key) => key.startsWith("team/"))).toEqual([]);
    expect(api.names("/pods")).toEqual([]);
    expect(api.get("/configmaps", "default/other")).toBeDefined();
  });

  test("loses its pods before anything else", async () => {
    const api = await filled();
    await api.edit("/pods", "team/pod", ({ metadata }) => {
      metadata.finalizers = ["example.com/hold"];
    });
    await api.delete("/namespaces", "team");
    await api.settle();
    expect(api.get("/configmaps", "team/settings")).toBeDefined();
    expect(condition(api, "NamespaceContentRemaining")?.message).toContain("pods has 1 resource instances");
    expect(condition(api, "NamespaceFinalizersRemaining")).toMatchObject({
      status: "True",
      message: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    });
    await api.edit("/pods", "team/pod", ({ metadata }) => {
      delete metadata.finalizers;
    });
    await api.clock.advance(2000);
    expect(api.get("/namespaces", "team")).toBeUndefined();
  });

  test("admits nothing new", async () => {
    const api = await filled();
    await api.edit("/configmaps", "team/settings", ({ metadata }) => {
      metadata.finalizers = ["example.com/hold"];
    });
    await api.delete("/namespaces", "team");
    const answer = await refusal(api.create("/configmaps", configMapNamed("team/late")));
    expect(answer.code).toBe(403);
    expect(answer.message).toContain("because it is being terminated");
  });

  test("waits for its own finalizers after its content is deleted", async () => {
    const api = await filled();
    await api.edit("/namespaces", "team", ({ metadata }) => {
      metadata.finalizers = ["example.com/hold"];
    });
    await api.delete("/namespaces", "team");
    await api.settle();
    expect(api.names("/configmaps").filter((key) => key.startsWith("team/"))).toEqual([]);
    expect(api.get("/namespaces", "team")?.["spec"]).toEqual({});
    await api.edit("/namespaces", "team", ({ metadata }) => {
      delete metadata.finalizers;
    });
    expect(api.get("/namespaces", "team")).toBeUndefined();
  });

  test("is finished after a restart", async () => {
    const api = await TestApi.start({ controllers: "none" });
    await api.create("/namespaces", namespaceNamed("team"));
    await api.create("/configmaps", configMapNamed("team/settings"));
    await api.delete("/namespaces", "team");
    const { startControllers } = await import("./controllers.ts");
    startControllers(api.core, { authority: "PEM" });
    await api.settle();
    expect(api.get("/namespaces", "team")).toBeUndefined();
  });

  test("has a condition for content that refuses to go, and tries again", async () => {
    let refuses = true;
    const api = await TestApi.start({
      admission: () => ({
        mutate: () => undefined,
        validate: () => undefined,
        commit: ({ operation, name }) => {
          if (operation === "DELETE" && name === "settings" && refuses) throw new Error("not today");
        },
      }),
    });
    await api.create("/namespaces", namespaceNamed("team"));
    await api.create("/configmaps", configMapNamed("team/settings"));
    await api.delete("/namespaces", "team");
    await api.settle();
    expect(condition(api, "NamespaceDeletionContentFailure")).toMatchObject({ status: "True" });
    expect(condition(api, "NamespaceDeletionContentFailure")?.message).toContain("not today");
    refuses = false;
    await api.clock.advance(3000);
    expect(api.get("/namespaces", "team")).toBeUndefined();
  });
});
