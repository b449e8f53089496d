import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { copyJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { NodeWrite } from "../node/nodeWrite.ts";
import { parseStages, type Stage } from "./stage.ts";
import { afterRefusal, chooseStage, nextForObject, playStage, pluralOf, type StageJob } from "./stageEngine.ts";
import type { TemplateContext } from "./templateFunctions.ts";

const startMs = 1_800_000_000_000;
const shipped = (...names: string[]): Stage[] =>
  names.flatMap((name) =>
    parseStages(readFileSync(new URL(`../../../examples/stages/${name}.yaml`, import.meta.url), "utf8"), name),
  );

function contextAt(nowMs: number): TemplateContext {
  return {
    nowMs,
    startMs,
    nodeName: "n",
    nodePort: 10250,
    version: "v0",
    nodeIps: () => ["192.0.2.1"],
    podIps: ({ hostNetwork }) => (hostNetwork ? ["192.0.2.1"] : ["10.0.0.7"]),
  };
}

function stage(spec: JsonObject, name = "s"): Stage {
  const whole = {
    resourceRef: { apiGroup: "v1", kind: "Pod" },
    selector: {},
    steps: [{ event: { reason: name, message: name } }],
    ...spec,
  };
  return parseStages(JSON.stringify({ kind: "Stage", metadata: { name }, spec: whole }), "test")[0]!;
}

function object(kind: string, change: JsonObject = {}): KubeObject {
  const { metadata, ...rest } = change;
  const base = {
    name: "o",
    ...(kind === "Pod" ? { namespace: "d" } : {}),
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: formatTime(startMs),
  };
  return {
    apiVersion: "v1",
    kind,
    ...rest,
    metadata: { ...base, ...(isObject(metadata) ? metadata : {}) },
  } as KubeObject;
}

const boundPod = (change: JsonObject = {}) =>
  object("Pod", {
    spec: { nodeName: "n", containers: [{ name: "c", image: "i" }] },
    status: { phase: "Pending" },
    ...change,
  });

const mergeKeys: Record<string, string> = { conditions: "type", addresses: "type", podIPs: "ip" };

function merged(current: Json | undefined, patch: Json, field = ""): Json {
  const key = mergeKeys[field];
  if (Array.isArray(patch) && key !== undefined) {
    const result = Array.isArray(current) ? [...current] : [];
    for (const item of patch) {
      const at = result.findIndex((each) => isObject(each) && isObject(item) && each[key] === item[key]);
      if (at < 0) result.push(item);
      else result[at] = merged(result[at], item);
    }
    return result;
  }
  if (!isObject(patch)) return patch;
  const result: JsonObject = isObject(current) ? { ...current } : {};
  for (const [name, value] of Object.entries(patch)) result[name] = merged(result[name], value, name);
  return result;
}

/** Plays stages on one object for a time and returns what was observed. */
function play(stages: Stage[], first: KubeObject, forMs: number, onWrite?: (write: NodeWrite, nowMs: number) => void) {
  let now: KubeObject | undefined = first;
  let job: StageJob | undefined;
  let nowMs = startMs;
  let revision = 1;
  const seen: string[] = [];
  const events: string[] = [];
  for (let turns = 0; now !== undefined && turns < 10_000; turns++) {
    const next = nextForObject({ object: now, stages, job, clusterSeed: "seed", context: contextAt(nowMs) });
    job = next.job;
    if (next.playing !== undefined) seen.push(next.playing.stage?.name ?? "");
    let changed = false;
    for (const { write } of next.writes) {
      onWrite?.(write, nowMs);
      if (write.kind === "event") events.push(`${write.reason}: ${write.message}`);
      if (write.kind === "delete") now = ((now as KubeObject).metadata.finalizers ?? []).length > 0 ? now : undefined;
      if (write.kind === "patch" && write.patch.type !== "json" && now !== undefined) {
        now = merged(now as JsonObject, write.patch.body as JsonObject) as KubeObject;
        changed = true;
      }
    }
    if (changed && now !== undefined)
      now = { ...now, metadata: { ...now.metadata, resourceVersion: String(++revision) } };
    if (changed) continue;
    if (next.wakeAtMs === undefined || next.wakeAtMs > startMs + forMs) break;
    nowMs = next.wakeAtMs;
  }
  return { object: now, seen, events, nowMs: nowMs - startMs };
}

const chosen = (stages: Stage[], revision: number) =>
  chooseStage({
    object: boundPod({ metadata: { resourceVersion: String(revision) } }),
    stages,
    job: undefined,
    clusterSeed: "s",
    context: contextAt(startMs),
  });

describe("which stage", () => {
  const share = (stages: Stage[], name: string) =>
    Array.from({ length: 400 }, (_, i) => chosen(stages, i).stage?.name).filter((each) => each === name).length / 400;

  test("a stage of weight zero beside one with a greater weight is never chosen", () => {
    expect(share([stage({ weight: 0 }, "a"), stage({ weight: 5 }, "b")], "b")).toBe(1);
  });

  test("without weights each has an equal share, the same for the same seed", () => {
    const stages = [stage({ weight: 0 }, "a"), stage({ weight: 0 }, "b")];
    expect(share(stages, "a")).toBeGreaterThan(0.4);
    expect(share(stages, "a")).toBeLessThan(0.6);
    expect(share(stages, "a")).toBe(share(stages, "a"));
  });

  test("weights are proportions", () => {
    const stages = [stage({ weight: 1 }, "a"), stage({ weight: 3 }, "b")];
    expect(share(stages, "b")).toBeGreaterThan(0.68);
    expect(share(stages, "b")).toBeLessThan(0.82);
  });

  test("an empty weight does not count: the stage with a weight of zero is chosen", () => {
    const stages = [stage({ weightFrom: { jq: { expression: '""' } } }, "a"), stage({ weight: 0 }, "b")];
    expect(share(stages, "b")).toBe(1);
  });

  test("the only stage that matches is chosen whatever its weight", () => {
    expect(share([stage({ weight: 0 }, "a")], "a")).toBe(1);
  });
});

describe("when", () => {
  const delays = (delay: JsonObject, change: JsonObject = {}) =>
    Array.from({ length: 200 }, (_, i) => {
      const given = boundPod({
        ...change,
        metadata: { ...(change["metadata"] as JsonObject | undefined), resourceVersion: String(i) },
      });
      return (
        chooseStage({
          object: given,
          stages: [stage({ delay })],
          job: undefined,
          clusterSeed: "s",
          context: contextAt(startMs),
        }).delayMs ?? -1
      );
    });

  test("jitter is an upper bound", () => {
    const found = delays({ durationMilliseconds: 1000, jitterDurationMilliseconds: 5000 });
    expect(Math.min(...found)).toBeGreaterThanOrEqual(1000);
    expect(Math.max(...found)).toBeLessThan(5000);
    expect(new Set(found).size).toBeGreaterThan(100);
  });

  test.each<[string, JsonObject, JsonObject, number]>([
    ["a bound below the base is the delay", { durationMilliseconds: 5000, jitterDurationMilliseconds: 1000 }, {}, 1000],
    [
      "a time in the future is waited for",
      { durationFrom: { expressionFrom: ".metadata.deletionTimestamp" } },
      { metadata: { deletionTimestamp: formatTime(startMs + 30_000) } },
      30_000,
    ],
    [
      "a time in the past means now",
      { durationFrom: { jq: { expression: ".metadata.deletionTimestamp" } } },
      { metadata: { deletionTimestamp: formatTime(startMs - 30_000) } },
      0,
    ],
    [
      "a duration in Go's spelling",
      { durationMilliseconds: 9, durationFrom: { jq: { expression: '"1m30s"' } } },
      {},
      90_000,
    ],
    [
      "an empty text is the constant",
      { durationMilliseconds: 700, durationFrom: { jq: { expression: '""' } } },
      {},
      700,
    ],
    [
      "nothing is the constant",
      { durationMilliseconds: 700, durationFrom: { jq: { expression: ".nothing" } } },
      {},
      700,
    ],
    [
      "an invalid duration means the constant",
      { durationMilliseconds: 700, durationFrom: { jq: { expression: '"1000"' } } },
      {},
      700,
    ],
    ["CEL counts for the delay", { durationFrom: { cel: { expression: "duration('2s')" } } }, {}, 2000],
    [
      "and for the jitter",
      { durationMilliseconds: 5000, jitterDurationFrom: { cel: { expression: "duration('2s')" } } },
      {},
      2000,
    ],
    ["our own spelling", { minMilliseconds: 300, maxMilliseconds: 300 }, {}, 300],
  ])("%s", (_name, delay, change, expected) => {
    expect(new Set(delays(delay, change))).toEqual(new Set([expected]));
  });
});

describe("the writes of a stage", () => {
  test("a patch that changes nothing is not sent, and nothing loops", () => {
    const stages = [
      stage({
        steps: [{ patch: { root: "status", subresource: "status", template: "phase: Pending" } }],
        immediateNextStage: true,
      }),
    ];
    const writes: NodeWrite[] = [];
    const { seen } = play(stages, boundPod(), 60_000, (write) => writes.push(write));
    expect([writes, seen]).toEqual([[], ["s"]]);
  });

  test("after a delete only events are sent", () => {
    const steps = [
      { delete: true },
      { event: { reason: "Bye", message: "{{ .metadata.name }} is gone" } },
      { patch: { template: "a: 1" } },
    ];
    const writes = playStage(stage({ steps }), boundPod(), contextAt(startMs)).map(({ write }) =>
      write.kind === "event" ? write.message : write.kind,
    );
    expect(writes).toEqual(["delete", "o is gone"]);
  });

  test.each<[string, string[] | undefined, JsonObject, Json]>([
    [
      "empty and add",
      ["a", "b"],
      { empty: true, add: [{ value: "c" }] },
      [
        { op: "remove", path: "/metadata/finalizers" },
        { op: "add", path: "/metadata/finalizers", value: ["c"] },
      ],
    ],
    [
      "add to some",
      ["a"],
      { add: [{ value: "c" }, { value: "a" }] },
      [{ op: "add", path: "/metadata/finalizers/-", value: "c" }],
    ],
    ["add to none", undefined, { add: [{ value: "c" }] }, [{ op: "add", path: "/metadata/finalizers", value: ["c"] }]],
    ["remove one", ["a", "b"], { remove: [{ value: "a" }] }, [{ op: "remove", path: "/metadata/finalizers/0" }]],
    [
      "remove all and add one",
      ["a", "b"],
      { remove: [{ value: "a" }, { value: "b" }], add: [{ value: "c" }] },
      [
        { op: "remove", path: "/metadata/finalizers/0" },
        { op: "remove", path: "/metadata/finalizers" },
        { op: "add", path: "/metadata/finalizers", value: ["c"] },
      ],
    ],
  ])("finalizers in one patch: %s", (_name, current, wish, expected) => {
    const given = boundPod(current === undefined ? {} : { metadata: { finalizers: current } });
    const [first, ...rest] = playStage(stage({ steps: [{ finalizers: wish }] }), given, contextAt(startMs));
    expect(first?.write).toMatchObject({ kind: "patch", patch: { type: "json", body: expected } });
    expect(rest).toEqual([]);
  });

  test("finalizers that are there already need no patch", () => {
    const steps = [{ finalizers: { add: [{ value: "a" }], remove: [{ value: "z" }] } }];
    expect(playStage(stage({ steps }), boundPod({ metadata: { finalizers: ["a"] } }), contextAt(startMs))).toEqual([]);
  });

  test("another object is applied in the namespace of this one", () => {
    const steps = [
      { apply: { template: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .metadata.name }}-x}" } },
    ];
    const [first] = playStage(stage({ steps }), boundPod(), contextAt(startMs));
    expect(first?.write).toMatchObject({
      ref: { ...builtin.Deployment, namespace: "d", name: "o-x" },
      patch: { type: "apply", force: true },
    });
  });

  test("an object of the cluster gets no namespace", () => {
    const steps = [{ apply: { template: "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: x}" } }];
    const [first] = playStage(stage({ steps }), boundPod(), contextAt(startMs));
    expect(first?.write).toMatchObject({ ref: { plural: "persistentvolumes", namespace: "" } });
  });

  test("the older form is one step each, in a fixed order", () => {
    const next = {
      delete: true,
      statusTemplate: "phase: Failed",
      event: { reason: "E", message: "m" },
      finalizers: { add: [{ value: "f" }] },
    };
    const writes = playStage(stage({ steps: [], next }), boundPod(), contextAt(startMs));
    expect(writes.map(({ write }) => (write.kind === "patch" ? write.patch.type : write.kind))).toEqual([
      "event",
      "json",
      "strategic",
      "delete",
    ]);
  });

  test.each([
    ["Pod", "pods"],
    ["Ingress", "ingresses"],
    ["NetworkPolicy", "networkpolicies"],
    ["Endpoints", "endpoints"],
    ["Gateway", "gateways"],
  ])("%s is %s", (kind, plural) => {
    expect(pluralOf(kind)).toBe(plural);
  });
});

describe("refusals", () => {
  const steps = [
    { event: { reason: "A", message: "" } },
    { patch: { root: "status", template: "a: 1" } },
    { patch: { root: "status", template: "b: 2" } },
  ];
  const given = boundPod();
  const run = (job: StageJob | undefined, nowMs: number) =>
    nextForObject({ object: given, stages: [stage({ steps })], job, clusterSeed: "s", context: contextAt(nowMs) });

  test("a busy server is called again from the same step, with back-off", () => {
    const first = run(undefined, startMs);
    expect(first.writes.map(({ step }) => step)).toEqual([0, 1, 2]);
    const about = { clusterSeed: "s", uid: "u", nowMs: startMs };
    const retry = afterRefusal(first.playing!, { step: 1, reason: "TooManyRequests" }, about);
    expect(run(retry, startMs + 900).writes).toEqual([]);
    const second = run(retry, startMs + 1200);
    expect(second.writes.map(({ step }) => step)).toEqual([1, 2]);
    const third = afterRefusal(second.playing!, { step: 1, reason: "Unavailable" }, about);
    expect((third?.dueMs ?? 0) - startMs).toBeGreaterThanOrEqual(2000);
    let job = third!;
    for (let i = 0; i < 30; i++) job = afterRefusal(job, { step: 1, reason: "Unknown" }, about)!;
    expect(job.dueMs - startMs).toBeLessThanOrEqual(32 * 60_000 * 1.2);
  });

  test("after a conflict the stage starts again with the fresh object; a permanent refusal drops it", () => {
    const { playing } = run(undefined, startMs);
    const about = { clusterSeed: "s", uid: "u", nowMs: startMs };
    expect(afterRefusal(playing!, { step: 1, reason: "Conflict" }, about)).toBeUndefined();
    expect(afterRefusal(playing!, { step: 1, reason: "Forbidden" }, about)?.stage).toBeUndefined();
  });
});

describe("an object that changes while its stage waits", () => {
  const stages = [
    stage({ selector: { matchLabels: { go: "a" } }, delay: { durationMilliseconds: 10_000 } }, "a"),
    stage({ selector: { matchLabels: { go: "b" } }, delay: { durationMilliseconds: 1000 } }, "b"),
  ];
  const at = (go: string, resourceVersion: string) => boundPod({ metadata: { labels: { go }, resourceVersion } });
  const run = (given: KubeObject, job: StageJob | undefined, nowMs: number) =>
    nextForObject({ object: given, stages, job, clusterSeed: "s", context: contextAt(nowMs) });

  test("another stage replaces it, no stage cancels it, and the same version keeps it", () => {
    const waiting = run(at("a", "1"), undefined, startMs).job;
    expect(run(at("a", "1"), waiting, startMs + 5000).wakeAtMs).toBe(startMs + 10_000);
    expect(run(at("b", "2"), waiting, startMs + 5000).wakeAtMs).toBe(startMs + 6000);
    const cancelled = run(at("c", "2"), waiting, startMs + 5000);
    expect(cancelled.wakeAtMs).toBeUndefined();
    expect(run(at("c", "2"), cancelled.job, startMs + 20_000).writes).toEqual([]);
  });
});

describe("selectors", () => {
  const matches = (expression: JsonObject) =>
    chooseStage({
      object: boundPod({ status: { phase: "Pending", count: 3, ratio: 0.5, on: true } }),
      stages: [stage({ selector: { matchExpressions: [expression] } })],
      job: undefined,
      clusterSeed: "s",
      context: contextAt(startMs),
    }).stage !== undefined;

  test.each<[JsonObject, boolean]>([
    [{ key: ".status.phase", operator: "In", values: ["Pending"] }, true],
    [{ jq: { key: ".status.phase", operator: "NotIn", values: ["Pending"] } }, false],
    [{ key: ".status.count", operator: "In", values: ["3"] }, true],
    [{ key: ".status.on", operator: "In", values: ["true"] }, true],
    [{ key: ".status.ratio", operator: "In", values: ["0.5"] }, false],
    [{ key: ".status", operator: "In", values: ["{}"] }, false],
    [{ key: ".status.none", operator: "Exists" }, false],
    [{ key: ".status.none", operator: "DoesNotExist" }, true],
    [{ key: ".status.list.[]", operator: "In", values: ["x"] }, false],
    [{ key: ".status.list.[]", operator: "NotIn", values: ["x"] }, true],
    [{ key: ".status.list.[]", operator: "DoesNotExist" }, true],
    [{ cel: { expression: "self.status.phase == 'Pending'" } }, true],
    [{ cel: { expression: "has(self.status.none)" } }, false],
  ])("%j: %s", (expression, expected) => {
    expect(matches(expression)).toBe(expected);
  });

  test("an expression that fails skips its stage and is reported", () => {
    const bad = stage({ selector: { matchExpressions: [{ cel: { expression: "self.status.none.at == 1" } }] } }, "bad");
    const { stage: picked, problems } = chosen([bad, stage({}, "good")], 1);
    expect([picked?.name, problems.map(({ reason }) => reason)]).toEqual(["good", ["StageExpressionFailed"]]);
  });
});

describe("a stage that is refused when it is loaded", () => {
  test.each<[JsonObject, string]>([
    [{ selector: null }, "spec.selector: is required"],
    [{ selector: { matchExpressions: [{ key: ".a |", operator: "Exists" }] } }, "matchExpressions[0].key"],
    [{ selector: { matchExpressions: [{ key: ".a", operator: "Gt", values: ["1"] }] } }, "operator: must be one of In"],
    [{ selector: { matchExpressions: [{ key: ".a", operator: "In" }] } }, "values: are required for In"],
    [{ selector: { matchExpressions: [{ key: ".a", operator: "Exists", values: ["x"] }] } }, "values: must be empty"],
    [{ selector: { matchExpressions: [{ cel: { expression: "self." } }] } }, "cel.expression"],
    [{ selector: { matchExpressions: [{ cel: { expression: "'text'" } }] } }, "must evaluate to bool"],
    [{ weight: -1 }, "spec.weight"],
    [{ delay: { minMilliseconds: 5, maxMilliseconds: 3 } }, "is below minMilliseconds"],
    [{ steps: [{ patch: { template: "{{ nosuch }}" } }] }, "no function is named nosuch"],
    [{ steps: [{ patch: { template: "a: 1", type: "magic" } }] }, "patch.type"],
    [{ steps: [{}] }, "does nothing"],
    [{ resourceRef: {} }, "spec.resourceRef.kind: is required"],
  ])("%j", (spec, message) => {
    expect(() => stage(spec)).toThrow(message);
  });
});

describe("the shipped sets", () => {
  test("fast: a pod runs at once, with everything set", () => {
    const { object: pod, seen } = play(
      shipped("pod-fast"),
      boundPod({
        spec: {
          nodeName: "n",
          containers: [{ name: "c", image: "i" }],
          initContainers: [
            { name: "i", image: "i" },
            { name: "s", image: "i", restartPolicy: "Always" },
          ],
          readinessGates: [{ conditionType: "x.y/z" }],
        },
      }),
      60_000,
    );
    expect(seen).toEqual(["pod-ready"]);
    expect(pod).toMatchObject({
      status: {
        phase: "Running",
        podIP: "10.0.0.7",
        podIPs: [{ ip: "10.0.0.7" }],
        hostIP: "192.0.2.1",
        conditions: [
          { type: "Initialized", status: "True" },
          { type: "Ready", status: "True" },
          { type: "ContainersReady" },
          { type: "x.y/z", status: "True" },
        ],
        initContainerStatuses: [{ state: { terminated: { exitCode: 0 } } }, { state: { running: {} } }],
        containerStatuses: [{ name: "c", ready: true, state: { running: {} } }],
      },
    });
  });

  test("fast: a Job's pod succeeds, a ReplicaSet's stays Running", () => {
    const owned = (kind: string) =>
      boundPod({ metadata: { ownerReferences: [{ kind, apiVersion: "x", name: "o", uid: "o" }] } });
    expect(play(shipped("pod-fast"), owned("Job"), 60_000).object).toMatchObject({
      status: { phase: "Succeeded", containerStatuses: [{ state: { terminated: { reason: "Completed" } } }] },
    });
    expect(play(shipped("pod-fast"), owned("ReplicaSet"), 60_000).object).toMatchObject({
      status: { phase: "Running" },
    });
  });

  test("general: every state is passed, one to five seconds each", () => {
    const pod = boundPod({
      metadata: { ownerReferences: [{ kind: "Job", apiVersion: "x", name: "o", uid: "o" }] },
      spec: { nodeName: "n", containers: [{ name: "c", image: "i" }], initContainers: [{ name: "i", image: "i" }] },
    });
    const result = play(shipped("pod-general"), pod, 60_000);
    expect(result.seen).toEqual([
      "pod-create",
      "pod-init-container-running",
      "pod-init-container-completed",
      "pod-ready",
      "pod-complete",
    ]);
    expect(result.object).toMatchObject({ status: { phase: "Succeeded" } });
    expect(result.nowMs).toBeGreaterThanOrEqual(5000);
    expect(result.nowMs).toBeLessThan(25_000);
    expect(result.events).toEqual(["Created: Created container"]);
  });

  test("general: annotations set the delays", () => {
    const annotations = Object.fromEntries(
      ["pod-create", "pod-ready"].flatMap((name) => [
        [`${name}.stage.kwok.x-k8s.io/delay`, "10s"],
        [`${name}.stage.kwok.x-k8s.io/jitter-delay`, "10s"],
      ]),
    );
    const result = play(shipped("pod-general"), boundPod({ metadata: { annotations } }), 60_000);
    expect([result.seen, result.nowMs]).toEqual([["pod-create", "pod-ready"], 20_000]);
  });

  test("deletion with a finalizer: the general stages wait, the fast stages send the delete and the object stays", () => {
    const leaving = (finalizers: string[]) =>
      boundPod({
        metadata: { deletionTimestamp: formatTime(startMs + 30_000), finalizers },
        status: { phase: "Running", podIP: "10.0.0.7" },
      });
    const count = (set: string, finalizers: string[]) => {
      const writes: NodeWrite[] = [];
      const { object: left } = play(shipped(set), leaving(finalizers), 60_000, (write) => writes.push(write));
      return [writes.map(({ kind }) => kind), left !== undefined];
    };
    expect(count("pod-general", ["f"])).toEqual([[], true]);
    expect(count("pod-general", [])).toEqual([["delete"], false]);
    expect(count("pod-fast", ["f"])).toEqual([["delete"], true]);
    expect(count("pod-fast", [])).toEqual([["delete"], false]);
  });

  test("general: a pod is deleted between one second and its deletion time", () => {
    for (let i = 0; i < 20; i++) {
      const pod = boundPod({
        metadata: { uid: `u${i}`, deletionTimestamp: formatTime(startMs + 30_000) },
        status: { phase: "Running", podIP: "10.0.0.7" },
      });
      const { nowMs } = play(shipped("pod-general"), pod, 60_000);
      expect(nowMs).toBeGreaterThanOrEqual(1000);
      expect(nowMs).toBeLessThan(30_000);
    }
  });

  test("a new node becomes Ready with what it lacks, and keeps what it has", () => {
    const { object: node, seen } = play(
      shipped("node-fast", "node-heartbeat"),
      object("Node", { status: { capacity: { cpu: "4" }, nodeInfo: { osImage: "mine" } } }),
      1000,
    );
    expect(seen).toEqual(["node-initialize"]);
    expect(node).toMatchObject({
      status: {
        phase: "Running",
        capacity: { cpu: "4" },
        allocatable: { cpu: "4" },
        addresses: [
          { type: "InternalIP", address: "192.0.2.1" },
          { type: "Hostname", address: "o" },
        ],
        nodeInfo: { osImage: "mine", kubeletVersion: "kwok-v0", operatingSystem: "linux" },
        daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      },
    });
    expect(JSON.stringify(node)).toContain("KubeletReady");
    const bare = play(shipped("node-fast"), object("Node"), 1000).object;
    expect(bare).toMatchObject({ status: { capacity: { cpu: "1k", memory: "1Ti", pods: "1M" } } });
  });

  test.each([
    ["node-heartbeat", 60_000, 2, 3],
    ["node-heartbeat-with-lease", 3_600_000, 5, 6],
  ])("%s sends heartbeats at its interval", (set, forMs, min, max) => {
    const { seen } = play(shipped("node-fast", set), object("Node"), forMs);
    expect(seen.length - 1).toBeGreaterThanOrEqual(min);
    expect(seen.length - 1).toBeLessThanOrEqual(max);
  });

  test("a label makes a node not ready, in spite of its heartbeat", () => {
    const ready = play(shipped("node-fast"), object("Node"), 0).object as KubeObject;
    const labelled = copyJson(ready);
    labelled.metadata.labels = { "node-not-ready.stage.kwok.x-k8s.io": "true" };
    labelled.metadata.annotations = {
      "node-not-ready.stage.kwok.x-k8s.io/reason": "Broken",
      "node-not-ready.stage.kwok.x-k8s.io/delay": "7s",
    };
    const result = play(shipped("node-heartbeat", "node-chaos"), labelled, 8000);
    expect([result.seen[0], result.nowMs]).toEqual(["node-not-ready", 7000]);
    const { conditions } = result.object!["status"] as {
      conditions: { type: string; status: string; reason: string }[];
    };
    expect(conditions.find(({ type }) => type === "Ready")).toMatchObject({ status: "False", reason: "Broken" });
  });

  test("a label makes a container fail, and its pod with it", () => {
    const prefix = "pod-container-running-failed.stage.kwok.x-k8s.io";
    const metadata = {
      labels: { [prefix]: "true" },
      annotations: { [`${prefix}/reason`]: "Boom", [`${prefix}/exit-code`]: "9", [`${prefix}/container-name`]: "b" },
    };
    const spec = {
      nodeName: "n",
      containers: [
        { name: "a", image: "i" },
        { name: "b", image: "i" },
      ],
    };
    const result = play(shipped("pod-fast", "pod-chaos"), boundPod({ metadata, spec }), 60_000);
    expect(result.seen).toEqual(["pod-ready", "pod-container-running-failed"]);
    expect(result.object).toMatchObject({
      status: {
        phase: "Failed",
        containerStatuses: [
          { name: "a", state: { running: {} } },
          { name: "b", state: { terminated: { exitCode: 9, reason: "Boom" } } },
        ],
      },
    });
  });

  test("an init container can fail too", () => {
    const prefix = "pod-init-container-running-failed.stage.kwok.x-k8s.io";
    const spec = {
      nodeName: "n",
      containers: [{ name: "a", image: "i" }],
      initContainers: [{ name: "x", image: "i" }],
    };
    const result = play(
      shipped("pod-general", "pod-chaos"),
      boundPod({ metadata: { labels: { [prefix]: "true" } }, spec }),
      60_000,
    );
    expect(result.seen).toEqual(["pod-create", "pod-init-container-running", "pod-init-container-running-failed"]);
    expect(result.object).toMatchObject({
      status: { phase: "Failed", initContainerStatuses: [{ state: { terminated: { exitCode: 1 } } }] },
    });
  });
});
