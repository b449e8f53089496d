import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { batch, namespaced, podTemplate, type ServedApi, serveApi } from "./servedApi.ts";

/** Deletions as on a kube-apiserver: which objects are deleted, and which events watches deliver. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

const job = (name: string): object => ({
  metadata: { name },
  spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "app" }] } } },
});
const pod = (name: string): object => ({
  metadata: { name },
  spec: { containers: [{ name: "main", image: "app" }] },
});

describe("a deletion without a propagation policy", () => {
  test("orphans the pods of a Job, with a warning", async () => {
    const { api } = served;
    await api.post(`${batch}/jobs`, job("plain"));
    const answer = await api.delete(`${batch}/jobs/plain`);
    expect(answer.code).toBe(200);
    expect(answer.json.metadata["finalizers"]).toEqual(["orphan"]);
    expect(answer.json.metadata["deletionTimestamp"]).toBeDefined();
    expect(answer.headers["warning"]).toContain("child pods are preserved by default when jobs are deleted");
  });

  test("orphans the pods of a ReplicationController, without one", async () => {
    const { api } = served;
    const spec = { replicas: 0, selector: { a: "b" }, template: podTemplate({ a: "b" }) };
    await api.post(`${namespaced}/replicationcontrollers`, { metadata: { name: "rc" }, spec });
    const answer = await api.delete(`${namespaced}/replicationcontrollers/rc`);
    expect(answer.json.metadata["finalizers"]).toEqual(["orphan"]);
    expect(answer.headers["warning"]).toBeUndefined();
  });

  test("removes a Job at once when the caller says Background", async () => {
    const { api } = served;
    await api.post(`${batch}/jobs`, job("background"));
    const answer = await api.delete(`${batch}/jobs/background`, { propagationPolicy: "Background" });
    expect(answer.json).toMatchObject({ kind: "Status", status: "Success" });
    expect(answer.headers["warning"]).toBeUndefined();
    expect((await api.get(`${batch}/jobs/background`)).code).toBe(404);
  });
});

describe("a DELETE with a body", () => {
  test("ignores dryRun in the query", async () => {
    const { api } = served;
    await api.post(`${namespaced}/configmaps`, { metadata: { name: "said" } });
    const body = { kind: "DeleteOptions", apiVersion: "v1" };
    expect((await api.delete(`${namespaced}/configmaps/said?dryRun=All`, body)).code).toBe(200);
    expect((await api.get(`${namespaced}/configmaps/said`)).code).toBe(404);
  });

  test("uses dryRun of the body", async () => {
    const { api } = served;
    await api.post(`${namespaced}/configmaps`, { metadata: { name: "kept" } });
    await api.delete(`${namespaced}/configmaps/kept`, { dryRun: ["All"] });
    expect((await api.get(`${namespaced}/configmaps/kept`)).code).toBe(200);
  });
});

test("a dry run of an immediate deletion answers with an object without deletionTimestamp", async () => {
  const { api } = served;
  const ports = [{ port: 80 }];
  await api.post(`${namespaced}/services`, { metadata: { name: "s" }, spec: { ports } });
  const { metadata } = (await api.delete(`${namespaced}/services/s?dryRun=All`)).json;
  expect([metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]]).toEqual([undefined, undefined]);
});

test("a namespace that is deleted has no grace period", async () => {
  const { api } = served;
  await api.post("/api/v1/namespaces", { metadata: { name: "going" } });
  const { metadata } = (await api.delete("/api/v1/namespaces/going")).json;
  expect(metadata["deletionTimestamp"]).toBeDefined();
  expect(metadata["deletionGracePeriodSeconds"]).toBeUndefined();
});

describe("watches of a pod that is deleted at once", () => {
  test("deliver MODIFIED and then DELETED, both with deletionTimestamp", async () => {
    const { api } = served;
    const made = await api.post(`${namespaced}/pods`, pod("p"));
    const from = made.json.metadata.resourceVersion;
    const watch = await api.watch(`${namespaced}/pods?watch=1&resourceVersion=${from}`);
    const answer = await api.delete(`${namespaced}/pods/p`, { gracePeriodSeconds: 0 });
    expect(answer.json.metadata).toMatchObject({ generation: 2, deletionGracePeriodSeconds: 0 });
    const marked = await watch.next();
    const gone = await watch.next();
    watch.destroy();
    expect([marked?.type, gone?.type]).toEqual(["MODIFIED", "DELETED"]);
    for (const line of [marked, gone]) {
      expect(line?.object.metadata).toMatchObject({ generation: 2, deletionGracePeriodSeconds: 0 });
      expect(line?.object.metadata["deletionTimestamp"]).toBeDefined();
    }
  });

  test("deliver one DELETED event of a ConfigMap, with its last state", async () => {
    const { api } = served;
    const made = await api.post(`${namespaced}/configmaps`, { metadata: { name: "once" } });
    const from = made.json.metadata.resourceVersion;
    const watch = await api.watch(`${namespaced}/configmaps?watch=1&resourceVersion=${from}`);
    await api.delete(`${namespaced}/configmaps/once`);
    const gone = await watch.next();
    watch.destroy();
    expect(gone?.type).toBe("DELETED");
    expect(gone?.object.metadata["deletionTimestamp"]).toBeUndefined();
  });
});

test("when the last finalizer is removed, watches deliver the object with it and the writer gets the object without it", async () => {
  const { api } = served;
  const path = `${namespaced}/configmaps/held`;
  await api.post(`${namespaced}/configmaps`, { metadata: { name: "held", finalizers: ["example.com/hold"] } });
  const held = await api.delete(path);
  const from = held.json.metadata.resourceVersion;
  const watch = await api.watch(`${namespaced}/configmaps?watch=1&resourceVersion=${from}`);
  const freed = await api.patch(path, "merge", { metadata: { finalizers: null } });
  expect(freed.json.metadata["finalizers"]).toBeUndefined();
  const gone = await watch.next();
  watch.destroy();
  expect(gone?.type).toBe("DELETED");
  expect(gone?.object.metadata["finalizers"]).toEqual(["example.com/hold"]);
  expect(Number(gone?.object.metadata.resourceVersion)).toBeGreaterThan(Number(from));
});

describe("deletion of a collection", () => {
  test("respects the limit and returns a continue token", async () => {
    const { api } = served;
    for (const name of ["c1", "c2", "c3"]) {
      await api.post(`${namespaced}/configmaps`, { metadata: { name, labels: { group: "c" } } });
    }
    const answer = await api.delete(`${namespaced}/configmaps?labelSelector=group%3Dc&limit=1`);
    expect(answer.json.items.map(({ metadata }) => metadata.name)).toEqual(["c1"]);
    expect(answer.json.metadata["continue"]).toBeTruthy();
    const left = await api.get(`${namespaced}/configmaps?labelSelector=group%3Dc`);
    expect(left.json.items.map(({ metadata }) => metadata.name)).toEqual(["c2", "c3"]);
  });

  test("rejects invalid options even where nothing matches", async () => {
    const { api } = served;
    const path = `${namespaced}/configmaps?labelSelector=none%3Dnone`;
    expect((await api.delete(path, { propagationPolicy: "Sometimes" })).code).toBe(422);
  });
});
