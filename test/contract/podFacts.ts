import { expect, test } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { at, budgets, type ContractCluster, expectRefused, fresh, pod, pods, value } from "./contractCluster.ts";
import { ownNamespace } from "./ownNamespace.ts";

export function podFacts(cluster: () => ContractCluster): void {
  const own = ownNamespace("pods", cluster);
  const named = (name: string) => at(pods, own(), name);
  const make = async (name: string, metadata: object = {}, spec: object = {}): Promise<KubeObject> =>
    value(await cluster().api.create(pods, pod(own(), name, metadata, spec)));
  const read = async (name: string): Promise<KubeObject> => value(await cluster().api.get(named(name)));

  test("a bind gives the pod its node, and labels and annotations in the same write", async () => {
    const { metadata } = await make("a", { labels: { app: "x" } });
    const { uid, resourceVersion } = metadata;
    const labels = { placed: "yes" };
    const annotations = { "example.com/devices": "0,1" };
    const target = { node: "n1", uid, resourceVersion, labels, annotations };
    expect(value(await cluster().api.bind(named("a"), target))).toBeUndefined();
    expect(await read("a")).toMatchObject({
      metadata: { uid, labels: { app: "x", placed: "yes" }, annotations },
      spec: { nodeName: "n1" },
    });
  });

  test("a write that may not leave is Fenced, and nothing happens", async () => {
    const { uid } = (await make("a")).metadata;
    const maySend = () => false;
    expectRefused(await cluster().api.bind(named("a"), { node: "n1", uid }, { maySend }), "Fenced");
    expectRefused(await cluster().api.delete(named("a"), { maySend }), "Fenced");
    const patch = { type: "merge", body: { metadata: { labels: { moved: "on" } } } } as const;
    expectRefused(await cluster().api.patch(named("a"), patch, { maySend }), "Fenced");
    expectRefused(await cluster().api.evict(named("a"), { maySend }), "Fenced");
    expectRefused(await cluster().api.create(pods, pod(own(), "b"), { maySend }), "Fenced");
    const now = await read("a");
    expect(now["spec"]).not.toHaveProperty("nodeName");
    expect(now.metadata).not.toHaveProperty("labels");
    expectRefused(await cluster().api.get(named("b")), "NotFound");
  });

  test("a pod is bound once", async () => {
    const { uid } = (await make("a")).metadata;
    value(await cluster().api.bind(named("a"), { node: "n1", uid }));
    expectRefused(await cluster().api.bind(named("a"), { node: "n2", uid }), "Conflict");
    expect(await read("a")).toMatchObject({ spec: { nodeName: "n1" } });
  });

  test("of many binds of one pod exactly one takes effect", async () => {
    const { uid } = (await make("a")).metadata;
    const binds = Array.from({ length: 6 }, (_, at) => cluster().api.bind(named("a"), { node: `n${at}`, uid }));
    const winners = (await Promise.all(binds)).flatMap((outcome, at) => (outcome.ok ? [`n${at}`] : []));
    expect(winners).toHaveLength(1);
    expect(await read("a")).toMatchObject({ spec: { nodeName: winners[0] } });
  });

  test("a bind decided for another pod of that name is a Conflict", async () => {
    const { uid } = (await make("a")).metadata;
    value(await cluster().api.delete(named("a"), { gracePeriodSeconds: 0 }));
    await make("a");
    expectRefused(await cluster().api.bind(named("a"), { node: "n1", uid }), "Conflict");
    expect((await read("a"))["spec"]).not.toHaveProperty("nodeName");
  });

  test("a bind with an old resourceVersion of the pod is a Conflict", async () => {
    const { uid, resourceVersion } = (await make("a")).metadata;
    value(await cluster().api.patch(named("a"), { type: "merge", body: { metadata: { labels: { moved: "on" } } } }));
    expectRefused(await cluster().api.bind(named("a"), { node: "n1", uid, resourceVersion }), "Conflict");
    value(await cluster().api.bind(named("a"), { node: "n1", uid }));
  });

  test("a bind of a gated pod is a Conflict, and of a missing pod NotFound", async () => {
    const { uid } = (await make("a", {}, { schedulingGates: [{ name: "example.com/wait" }] })).metadata;
    expectRefused(await cluster().api.bind(named("a"), { node: "n1", uid }), "Conflict");
    expectRefused(await cluster().api.bind(named("none"), { node: "n1", uid }), "NotFound");
  });

  test("a bind to no node is refused, and binds nothing", async () => {
    const { uid } = (await make("a")).metadata;
    const outcome = await cluster().api.bind(named("a"), { node: "", uid });
    // kube-apiserver answers with an error of its own, without a reason.
    expect(outcome.ok ? "accepted" : outcome.reason).toMatch(/^(Invalid|Unknown)$/);
    expect(((await read("a"))["spec"] as { nodeName?: string }).nodeName).toBeUndefined();
  });

  test("a dry-run bind binds nothing", async () => {
    const { uid } = (await make("a")).metadata;
    value(await cluster().api.bind(named("a"), { node: "n1", uid }, { dryRun: true }));
    expect((await read("a"))["spec"]).not.toHaveProperty("nodeName");
  });

  test("a pod on a node terminates with a grace period: the delete answers with the terminating pod", async () => {
    const { uid } = (await make("a")).metadata;
    value(await cluster().api.bind(named("a"), { node: "n1", uid }));
    const marked = value(await cluster().api.delete(named("a"), { gracePeriodSeconds: 5 }));
    expect(marked?.metadata).toMatchObject({ uid, deletionGracePeriodSeconds: 5 });
    value(await cluster().api.delete(named("a"), { gracePeriodSeconds: 0, preconditions: { uid } }));
    expectRefused(await cluster().api.get(named("a")), "NotFound");
  });

  test("an eviction deletes a pod that no budget protects", async () => {
    await make("a");
    expect(value(await cluster().api.evict(named("a")))).toBeUndefined();
    expectRefused(await cluster().api.get(named("a")), "NotFound");
    expectRefused(await cluster().api.evict(named("a")), "NotFound");
  });

  test("an eviction that a budget refuses is TooManyRequests, and the pod stays", async () => {
    const labels = { app: "guarded" };
    const budget = fresh({
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { namespace: own(), name: "b" },
      spec: { minAvailable: 1, selector: { matchLabels: labels } },
    });
    value(await cluster().api.create(budgets, budget));
    const made = await make("a", { labels });
    // Only running pods count against a budget; others may always be evicted.
    const status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    value(await cluster().api.update({ ...named("a"), subresource: "status" }, { ...made, status }));
    expectRefused(await cluster().api.evict(named("a")), "TooManyRequests");
    expect((await read("a")).metadata.deletionTimestamp).toBeUndefined();
  });

  test("an eviction meant for another pod of that name is a Conflict", async () => {
    await make("a");
    const uid = "00000000-0000-4000-8000-000000000000";
    expectRefused(await cluster().api.evict(named("a"), { preconditions: { uid } }), "Conflict");
    expect((await read("a")).metadata.deletionTimestamp).toBeUndefined();
  });

  test("a dry-run eviction evicts no pod", async () => {
    const made = await make("a");
    value(await cluster().api.evict(named("a"), { dryRun: true }));
    expect(await read("a")).toEqual(made);
  });
}
