import { expect, test } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { at, budgets, type ContractWorld, expectRefused, fresh, pod, pods, value } from "./contractWorld.ts";
import { ownNamespace } from "./ownNamespace.ts";

export function podFacts(world: () => ContractWorld): void {
  const own = ownNamespace("pods", world);
  const named = (name: string) => at(pods, own(), name);
  const make = async (name: string, metadata: object = {}, spec: object = {}): Promise<KubeObject> =>
    value(await world().api.create(pods, pod(own(), name, metadata, spec)));
  const read = async (name: string): Promise<KubeObject> => value(await world().api.get(named(name)));

  test("a bind gives the pod its node, and labels and annotations in the same write", async () => {
    const { metadata } = await make("a", { labels: { app: "x" } });
    const { uid, resourceVersion } = metadata;
    const labels = { placed: "yes" };
    const annotations = { "example.com/devices": "0,1" };
    const target = { node: "n1", uid, resourceVersion, labels, annotations };
    expect(value(await world().api.bind(named("a"), target))).toBeUndefined();
    expect(await read("a")).toMatchObject({
      metadata: { uid, labels: { app: "x", placed: "yes" }, annotations },
      spec: { nodeName: "n1" },
    });
  });

  test("a write that may not leave is Fenced, and nothing happens", async () => {
    const { uid } = (await make("a")).metadata;
    const mayLeave = () => false;
    expectRefused(await world().api.bind(named("a"), { node: "n1", uid }, { mayLeave }), "Fenced");
    expectRefused(await world().api.delete(named("a"), { mayLeave }), "Fenced");
    const patch = { type: "merge", body: { metadata: { labels: { moved: "on" } } } } as const;
    expectRefused(await world().api.patch(named("a"), patch, { mayLeave }), "Fenced");
    expectRefused(await world().api.evict(named("a"), { mayLeave }), "Fenced");
    expectRefused(await world().api.create(pods, pod(own(), "b"), { mayLeave }), "Fenced");
    const now = await read("a");
    expect(now["spec"]).not.toHaveProperty("nodeName");
    expect(now.metadata).not.toHaveProperty("labels");
    expectRefused(await world().api.get(named("b")), "NotFound");
  });

  test("a pod is bound once", async () => {
    const { uid } = (await make("a")).metadata;
    value(await world().api.bind(named("a"), { node: "n1", uid }));
    expectRefused(await world().api.bind(named("a"), { node: "n2", uid }), "Conflict");
    expect(await read("a")).toMatchObject({ spec: { nodeName: "n1" } });
  });

  test("of many binds of one pod exactly one takes effect", async () => {
    const { uid } = (await make("a")).metadata;
    const binds = Array.from({ length: 6 }, (_, at) => world().api.bind(named("a"), { node: `n${at}`, uid }));
    const winners = (await Promise.all(binds)).flatMap((outcome, at) => (outcome.ok ? [`n${at}`] : []));
    expect(winners).toHaveLength(1);
    expect(await read("a")).toMatchObject({ spec: { nodeName: winners[0] } });
  });

  test("a bind decided for another pod of that name is a Conflict", async () => {
    const { uid } = (await make("a")).metadata;
    value(await world().api.delete(named("a"), { gracePeriodSeconds: 0 }));
    await make("a");
    expectRefused(await world().api.bind(named("a"), { node: "n1", uid }), "Conflict");
    expect((await read("a"))["spec"]).not.toHaveProperty("nodeName");
  });

  test("a bind decided on an old state of the pod is a Conflict if it says so", async () => {
    const { uid, resourceVersion } = (await make("a")).metadata;
    value(await world().api.patch(named("a"), { type: "merge", body: { metadata: { labels: { moved: "on" } } } }));
    expectRefused(await world().api.bind(named("a"), { node: "n1", uid, resourceVersion }), "Conflict");
    value(await world().api.bind(named("a"), { node: "n1", uid }));
  });

  test("a bind of a gated pod is a Conflict, and of none NotFound", async () => {
    const { uid } = (await make("a", {}, { schedulingGates: [{ name: "example.com/wait" }] })).metadata;
    expectRefused(await world().api.bind(named("a"), { node: "n1", uid }), "Conflict");
    expectRefused(await world().api.bind(named("none"), { node: "n1", uid }), "NotFound");
  });

  test("a bind to no node is refused, and binds nothing", async () => {
    const { uid } = (await make("a")).metadata;
    const outcome = await world().api.bind(named("a"), { node: "", uid });
    // kube-apiserver answers with an error of its own, without a reason.
    expect(outcome.ok ? "accepted" : outcome.reason).toMatch(/^(Invalid|Unknown)$/);
    expect(((await read("a"))["spec"] as { nodeName?: string }).nodeName).toBeUndefined();
  });

  test("a dry bind binds nothing", async () => {
    const { uid } = (await make("a")).metadata;
    value(await world().api.bind(named("a"), { node: "n1", uid }, { dryRun: true }));
    expect((await read("a"))["spec"]).not.toHaveProperty("nodeName");
  });

  test("a pod on a node ends with grace: the delete answers with the pod that is about to go", async () => {
    const { uid } = (await make("a")).metadata;
    value(await world().api.bind(named("a"), { node: "n1", uid }));
    const marked = value(await world().api.delete(named("a"), { gracePeriodSeconds: 5 }));
    expect(marked?.metadata).toMatchObject({ uid, deletionGracePeriodSeconds: 5 });
    value(await world().api.delete(named("a"), { gracePeriodSeconds: 0, preconditions: { uid } }));
    expectRefused(await world().api.get(named("a")), "NotFound");
  });

  test("an eviction deletes a pod that no budget protects", async () => {
    await make("a");
    expect(value(await world().api.evict(named("a")))).toBeUndefined();
    expectRefused(await world().api.get(named("a")), "NotFound");
    expectRefused(await world().api.evict(named("a")), "NotFound");
  });

  test("an eviction that a budget refuses is TooManyRequests, and the pod stays", async () => {
    const labels = { app: "guarded" };
    const budget = fresh({
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { namespace: own(), name: "b" },
      spec: { minAvailable: 1, selector: { matchLabels: labels } },
    });
    value(await world().api.create(budgets, budget));
    const made = await make("a", { labels });
    // Only running pods count against a budget; others may always go.
    const status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    value(await world().api.update({ ...named("a"), subresource: "status" }, { ...made, status }));
    expectRefused(await world().api.evict(named("a")), "TooManyRequests");
    expect((await read("a")).metadata.deletionTimestamp).toBeUndefined();
  });

  test("an eviction meant for another pod of that name is a Conflict", async () => {
    await make("a");
    const uid = "00000000-0000-4000-8000-000000000000";
    expectRefused(await world().api.evict(named("a"), { preconditions: { uid } }), "Conflict");
    expect((await read("a")).metadata.deletionTimestamp).toBeUndefined();
  });

  test("a dry eviction evicts nobody", async () => {
    const made = await make("a");
    value(await world().api.evict(named("a"), { dryRun: true }));
    expect(await read("a")).toEqual(made);
  });
}
