import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "./servedApi.ts";

/** Namespaces with Pod Security labels: pods that violate the standard are rejected. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
  const standard = (name: string, labels: Record<string, string>): Promise<unknown> => {
    const own = Object.entries(labels).map(([key, value]) => [`pod-security.kubernetes.io/${key}`, value]);
    return served.api.post("/api/v1/namespaces", { metadata: { name, labels: Object.fromEntries(own) } });
  };
  await standard("open", {});
  await standard("baseline", { enforce: "baseline" });
  await standard("restricted", { enforce: "restricted" });
  await standard("old", { enforce: "restricted", "enforce-version": "v1.21" });
  await standard("warned", { warn: "restricted" });
});
afterAll(() => served.stop());

const good = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] }, runAsNonRoot: true };
const seccomp = { seccompProfile: { type: "RuntimeDefault" } };

function pod(spec: object, securityContext: object = {}): object {
  return { metadata: { name: "p" }, spec: { containers: [{ name: "main", image: "app", securityContext }], ...spec } };
}

async function create(namespace: string, body: object) {
  const { code, json, headers } = await served.api.post(`/api/v1/namespaces/${namespace}/pods?dryRun=All`, body);
  return { code, message: json.message, warning: headers["warning"] };
}

describe("a pod in a namespace that enforces the baseline", () => {
  test.each<[string, object]>([
    ["host namespaces (hostNetwork=true)", pod({ hostNetwork: true })],
    ["host namespaces (hostPID=true, hostIPC=true)", pod({ hostPID: true, hostIPC: true })],
    ['privileged (container "main" must not set securityContext.privileged=true)', pod({}, { privileged: true })],
    ['hostPath volumes (volume "h")', pod({ volumes: [{ name: "h", hostPath: { path: "/" } }] })],
    [
      'non-default capabilities (container "main" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
      pod({}, { capabilities: { add: ["SYS_ADMIN", "CHOWN"] } }),
    ],
    [
      'hostPort (container "main" uses hostPort 80)',
      pod({ containers: [{ name: "main", image: "app", ports: [{ containerPort: 80, hostPort: 80 }] }] }),
    ],
    [
      "forbidden sysctls (kernel.msgmax)",
      pod({ securityContext: { sysctls: [{ name: "kernel.msgmax", value: "1" }] } }),
    ],
    [
      'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
      pod({ securityContext: { seccompProfile: { type: "Unconfined" } } }),
    ],
  ])("is refused: %s", async (why, body) => {
    const { code, message } = await create("baseline", body);
    expect([code, message]).toEqual([403, `pods "p" is forbidden: violates PodSecurity "baseline:latest": ${why}`]);
    expect((await create("open", body)).code).toBe(201);
  });

  test("is admitted when it uses no privileges", async () => {
    expect(await create("baseline", pod({}))).toMatchObject({ code: 201, warning: undefined });
  });
});

describe("a pod in a namespace that enforces the restricted standard", () => {
  test("is rejected with every violation", async () => {
    const { message } = await create("restricted", pod({}));
    expect(message).toBe(
      'pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    );
  });

  test("is admitted without violations", async () => {
    expect((await create("restricted", pod({ securityContext: seccomp }, good))).code).toBe(201);
  });

  test("is checked by the rules of the version that the namespace names", async () => {
    const { capabilities: _, ...withoutCapabilities } = good;
    expect((await create("old", pod({ securityContext: seccomp }, withoutCapabilities))).code).toBe(201);
  });
});

describe("warnings", () => {
  test("are returned for a pod where the namespace has a warn label", async () => {
    const { code, warning } = await create("warned", pod({ hostNetwork: true }));
    expect(code).toBe(201);
    expect(warning).toContain('would violate PodSecurity \\"restricted:latest\\": host namespaces (hostNetwork=true)');
  });

  test("are returned for a Deployment whose pods would be rejected", async () => {
    const template = {
      metadata: { labels: { a: "b" } },
      spec: { hostNetwork: true, containers: [{ name: "a", image: "b" }] },
    };
    const body = { metadata: { name: "d" }, spec: { selector: { matchLabels: { a: "b" } }, template } };
    const answer = await served.api.post("/apis/apps/v1/namespaces/baseline/deployments?dryRun=All", body);
    expect(answer.code).toBe(201);
    expect(answer.headers["warning"]).toContain('would violate PodSecurity \\"baseline:latest\\"');
  });

  test("are returned for a label that existing pods of the namespace violate", async () => {
    await served.api.post("/api/v1/namespaces/open/pods", pod({ hostNetwork: true }));
    const labels = { "pod-security.kubernetes.io/enforce": "baseline" };
    const answer = await served.api.patch("/api/v1/namespaces/open?dryRun=All", "merge", { metadata: { labels } });
    expect(answer.code).toBe(200);
    const warning = String(answer.headers["warning"]);
    expect(warning).toContain('existing pods in namespace \\"open\\" violate the new PodSecurity enforce level');
    expect(warning).toContain("p: host namespaces");
  });
});

test("a label with an unknown standard is rejected", async () => {
  const labels = { "pod-security.kubernetes.io/enforce": "zz" };
  const answer = await served.api.post("/api/v1/namespaces", { metadata: { name: "odd", labels } });
  expect(answer.code).toBe(422);
  expect(answer.json.message).toContain("must be one of privileged, baseline, restricted");
});

test("a pod is checked again when an image changes, and not when a label does", async () => {
  const { api } = served;
  const path = "/api/v1/namespaces/open/pods/kept";
  await api.post("/api/v1/namespaces/open/pods", { ...pod({ hostPID: true }), metadata: { name: "kept" } });
  await api.patch("/api/v1/namespaces/open", "merge", {
    metadata: { labels: { "pod-security.kubernetes.io/enforce": "baseline" } },
  });
  expect((await api.patch(path, "merge", { metadata: { labels: { a: "b" } } })).code).toBe(200);
  const spec = { containers: [{ name: "main", image: "other" }] };
  expect((await api.patch(path, "strategic", { spec })).code).toBe(403);
});
