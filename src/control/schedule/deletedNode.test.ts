import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { namespaceNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { defaultSettings } from "../../decide/schedule/settings.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused } from "../../model/outcome.ts";
import { kaiSchedulerName } from "../../model/scheduling/keys.ts";
import { ensureDefinitions, ensureStartObjects } from "../assembly/ensureObjects.ts";
import { Controllers } from "../runtime/controllers.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { addScheduler, schedulerComponent } from "./schedulerComponent.ts";

const pods = { group: "", version: "v1", plural: "pods" };
const nodes = { group: "", version: "v1", plural: "nodes" };
const admin = { user: { username: "admin", groups: ["system:masters"] }, fieldManager: "test" };
const away = refused("Unavailable", "connect ECONNREFUSED");

async function cluster() {
  const api = await TestApi.start();
  const { clock } = api;
  const direct = inProcessKube(api.core, admin);
  await direct.create({ group: "", version: "v1", plural: "namespaces" }, namespaceNamed("default") as KubeObject);
  const part = schedulerComponent();
  await ensureDefinitions({ kube: direct, clock }, [part]);
  await ensureStartObjects(direct, [part]);
  const kube = new FaultyKube(inProcessKube(api.core, admin));
  const ports = { kube, clock, random: seededRandom(2), log: new KeptLog(), metrics: new MemoryMetrics() };
  const controllers = new Controllers(ports, { fieldManager: "scheduler" });
  addScheduler(controllers, defaultSettings);
  const run = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 50) await clock.advance(50);
  };
  const addNode = async (name: string): Promise<void> => {
    const amounts = { cpu: "8", memory: "16Gi", pods: "20" };
    const status = { capacity: amounts, allocatable: amounts, conditions: [{ type: "Ready", status: "True" }] };
    const node = { apiVersion: "v1", kind: "Node", metadata: { name } };
    const made = await direct.create(nodes, node);
    if (!made.ok) throw new Error(made.message);
    await direct.update({ ...nodes, namespace: "", name, subresource: "status" }, { ...made.value, status });
  };
  const addPod = async (name: string): Promise<void> => {
    const spec = { schedulerName: kaiSchedulerName, containers: [{ name: "c", image: "i" }] };
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "default" }, spec };
    await direct.create(pods, pod);
  };
  const nodeOf = async (name: string): Promise<string | undefined> => {
    const found = await direct.get({ ...pods, namespace: "default", name });
    return found.ok ? (found.value as Pod).spec?.nodeName : "gone";
  };
  return { controllers, kube, direct, run, addNode, addPod, nodeOf };
}

describe("while the watch of nodes is broken and that of pods is not", () => {
  test("no pod is bound to a node that was deleted meanwhile, and all are bound when nodes are seen again", async () => {
    const { controllers, kube, direct, run, addNode, addPod, nodeOf } = await cluster();
    await addNode("old");
    const started = controllers.start();
    await run(200);
    expect(await started).toBe(true);
    await addPod("first");
    await run(1_000);
    expect(await nodeOf("first")).toBe("old");

    kube.faults.watch = (_, plural) => (plural === "nodes" ? away : undefined);
    kube.faults.before = (verb, what) => (verb === "list" && what === "nodes" ? away : undefined);
    kube.cut(away, "nodes");
    await direct.delete({ ...nodes, namespace: "", name: "old" });
    await addNode("new");
    for (const name of ["a", "b", "c"]) await addPod(name);
    await run(60_000);
    expect(await Promise.all(["a", "b", "c"].map(nodeOf))).toEqual([undefined, undefined, undefined]);

    kube.faults = {};
    await run(3_000);
    expect(await Promise.all(["a", "b", "c"].map(nodeOf))).toEqual(["new", "new", "new"]);
    await controllers.stop();
  });
});

test("after an outage of the server the first response ends the waits of all kinds", async () => {
  const { controllers, kube, run, addNode, addPod, nodeOf } = await cluster();
  await addNode("n");
  const started = controllers.start();
  await run(200);
  expect(await started).toBe(true);
  kube.faults.watch = () => away;
  kube.faults.before = () => away;
  kube.cut(away);
  await run(90_000);
  // A server that has just started has no storage for custom kinds yet.
  const isCustom = (plural: string): boolean => ["podgroups", "queues", "bindrequests"].includes(plural);
  const busy = refused("TooManyRequests", "storage is (re)initializing", { retryAfterMs: 1_000 });
  kube.faults = {
    watch: (_, plural) => (isCustom(plural) ? busy : undefined),
    before: (verb, what) => (verb === "list" && isCustom(what) ? busy : undefined),
  };
  await run(1_500);
  kube.faults = {};
  await addPod("p");
  await run(3_000);
  expect(await nodeOf("p")).toBe("n");
  await controllers.stop();
});

test("a pod whose bind was refused all through an outage is bound within 3 s of its end", async () => {
  const { controllers, kube, run, addNode, addPod, nodeOf } = await cluster();
  await addNode("n");
  const started = controllers.start();
  await run(200);
  expect(await started).toBe(true);
  kube.faults.watch = () => away;
  kube.faults.before = () => away;
  await addPod("p");
  await run(100_000);
  kube.cut(away);
  await run(20_000);
  expect(await nodeOf("p")).toBeUndefined();
  kube.faults = {};
  await run(3_000);
  expect(await nodeOf("p")).toBe("n");
  await controllers.stop();
});

test("a bind without an answer is withdrawn, and not sent again, when its node was deleted meanwhile", async () => {
  const { controllers, kube, direct, run, addNode, addPod, nodeOf } = await cluster();
  await addNode("old");
  const started = controllers.start();
  await run(200);
  expect(await started).toBe(true);
  const lost = refused("Unknown", "timed out");
  // The node goes before the scheduler can ask what became of the bind.
  kube.faults.before = (verb, what) => {
    if (verb === "bind") return lost;
    return verb === "list" && what === "pods p" ? away : undefined;
  };
  await addPod("p");
  await run(300);
  expect(kube.calls.filter((call) => call.startsWith("bind "))).toHaveLength(1);
  await direct.delete({ ...nodes, namespace: "", name: "old" });
  await addNode("new");
  kube.faults = {};
  await run(5_000);
  expect(await nodeOf("p")).toBe("new");
  expect(kube.calls.filter((call) => call.startsWith("bind "))).toHaveLength(2);
  const found = await direct.get({ ...pods, namespace: "default", name: "p" });
  const marks = found.ok ? found.value.metadata.annotations : {};
  expect(marks?.["muster.dev/withdrawn-request"]).toMatch(/^old \d+$/);
  await controllers.stop();
});

test("a pod that may not be written is decided again when its node was deleted, and holds up no other pod", async () => {
  const { controllers, kube, direct, run, addNode, addPod, nodeOf } = await cluster();
  await addNode("old");
  const started = controllers.start();
  await run(200);
  expect(await started).toBe(true);
  kube.faults.before = (verb, what) => {
    if (verb === "bind") return refused("Unknown", "timed out");
    return verb === "list" && what === "pods p" ? away : undefined;
  };
  await addPod("p");
  await run(300);
  kube.faults.before = (verb, what) =>
    verb === "patch" && what === "pods p" ? refused("Forbidden", "denied by a policy") : undefined;
  await direct.delete({ ...nodes, namespace: "", name: "old" });
  await addNode("new");
  await addPod("q");
  await run(5_000);
  expect([await nodeOf("p"), await nodeOf("q")]).toEqual(["new", "new"]);
  await controllers.stop();
});
