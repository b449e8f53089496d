import { describe, expect, test } from "vitest";
import type { AdmissionRequest } from "../objects/admissionHook.ts";
import type { KubeObject, ObjectMeta } from "../objects/object.ts";
import { schedulingHooks } from "./hooks.ts";

const nothing = { get: () => undefined, list: () => [] };

function review(plural: string, request: Partial<AdmissionRequest>, checksQuotas = false, others: KubeObject[] = []) {
  const hook = schedulingHooks({ checksQuotas }).find(({ resource }) => resource.plural === plural)!;
  return hook.review(
    {
      uid: "",
      operation: "CREATE",
      namespace: "",
      name: "x",
      object: undefined,
      oldObject: undefined,
      user: { username: "", groups: [] },
      dryRun: false,
      ...request,
    },
    { ...nothing, list: <T extends KubeObject>() => others as T[] },
  );
}

const named = (name: string, rest: object): KubeObject => ({
  apiVersion: "",
  kind: "",
  metadata: { name } as ObjectMeta,
  ...rest,
});
const object = (rest: object): KubeObject => named("x", rest);
const group = (spec: object, operation: "CREATE" | "UPDATE" = "CREATE") =>
  review("podgroups", { operation, object: object({ spec }) });

describe("a queue", () => {
  test("says what it may hold", () => {
    expect(review("queues", { object: object({ spec: {} }) })).toMatchObject({
      allowed: false,
      message: expect.stringContaining("spec.resources: Required"),
    });
    expect(review("queues", { operation: "UPDATE", object: object({ spec: {} }) }).allowed).toBe(false);
    expect(review("queues", { object: object({ spec: { resources: {} } }) }).allowed).toBe(true);
  });

  test("stays while it has children", () => {
    const parent = object({ spec: {}, status: { childQueues: ["a"] } });
    expect(review("queues", { operation: "DELETE", oldObject: parent })).toMatchObject({
      allowed: false,
      message: expect.stringContaining("child queues a"),
    });
    expect(review("queues", { operation: "DELETE", oldObject: object({ spec: {} }) }).allowed).toBe(true);
  });

  test("stays while it has a child that its status does not list yet", () => {
    const child = named("new", { spec: { parentQueue: "x" } });
    const removed = { operation: "DELETE", oldObject: object({ spec: {} }) } as const;
    expect(review("queues", removed, false, [child])).toMatchObject({
      allowed: false,
      message: expect.stringContaining("child queues new"),
    });
  });
});

describe("values of a queue that mean nothing", () => {
  const gpu = (amounts: object) => ({ resources: { gpu: amounts } });
  const bound = "must be 0 or more, or -1 for unlimited";
  const duration = "must be a duration such as 90s, 5m or 1h30m";
  test.each<[string, object, string]>([
    ["a quota below -1", gpu({ quota: -5 }), `spec.resources.gpu.quota: Invalid value: -5: ${bound}`],
    ["a limit below -1", gpu({ limit: -0.5 }), `spec.resources.gpu.limit: Invalid value: -0.5: ${bound}`],
    [
      "a weight below 0",
      gpu({ overQuotaWeight: -1 }),
      "spec.resources.gpu.overQuotaWeight: Invalid value: -1: must be 0 or more",
    ],
    [
      "a limit of a type below -1",
      { resources: { gpuTypes: { H100: { limit: -2 } } } },
      `spec.resources.gpuTypes[H100].limit: Invalid value: -2: ${bound}`,
    ],
    [
      "a duration that cannot be parsed",
      { resources: {}, preemptMinRuntime: "banana" },
      `spec.preemptMinRuntime: Invalid value: "banana": ${duration}`,
    ],
    [
      "a time without its unit",
      { resources: {}, reclaimMinRuntime: "5" },
      `spec.reclaimMinRuntime: Invalid value: "5": ${duration}`,
    ],
  ])("are refused: %s", (_, spec, message) => {
    expect(review("queues", { object: object({ spec }) })).toMatchObject({ allowed: false, message });
    const before = object({ spec: { resources: {} } });
    expect(review("queues", { operation: "UPDATE", object: object({ spec }), oldObject: before }).allowed).toBe(false);
    // The rest of a queue that has had them since before they were refused may change.
    expect(review("queues", { operation: "UPDATE", object: object({ spec }), oldObject: object({ spec }) })).toEqual({
      allowed: true,
      warnings: [message],
    });
  });

  test.each([
    gpu({ quota: -1, limit: -1, overQuotaWeight: 0 }),
    gpu({ quota: 0.5, limit: 0, overQuotaWeight: 2.5 }),
    { resources: {}, preemptMinRuntime: "1h30m", reclaimMinRuntime: null },
  ])("and these mean something: %j", (spec) => {
    expect(review("queues", { object: object({ spec }) })).toEqual({ allowed: true, warnings: [] });
  });

  test("are refused: a queue that is its own ancestor", () => {
    const queue = (name: string, parentQueue: string) =>
      object({ metadata: { name }, spec: { parentQueue, resources: {} } });
    const self = { allowed: false, message: expect.stringContaining("the queue would be its own ancestor") };
    expect(review("queues", { name: "a", object: queue("a", "a") })).toMatchObject(self);
    const others = [queue("b", "c"), queue("c", "a")];
    expect(review("queues", { name: "a", object: queue("a", "b") }, false, others)).toMatchObject(self);
    expect(review("queues", { name: "a", object: queue("a", "") }, false, others).allowed).toBe(true);
    // Those above form a cycle without it, and it is not to blame.
    expect(review("queues", { name: "x", object: queue("x", "b") }, false, [...others, queue("a", "b")]).allowed).toBe(
      true,
    );
  });
});

describe("where quotas are held against each other, a queue", () => {
  type Quotas = Partial<Record<"gpu" | "cpu" | "memory", number>>;
  const queue = (name: string, parentQueue: string, quotas: Quotas) =>
    named(name, {
      spec: {
        ...(parentQueue !== "" && { parentQueue }),
        resources: Object.fromEntries(Object.entries(quotas).map(([key, quota]) => [key, { quota }])),
      },
    });
  const written = (changed: KubeObject, others: KubeObject[], checksQuotas = true) =>
    review("queues", { operation: "UPDATE", name: changed.metadata.name, object: changed }, checksQuotas, others);
  const top = queue("top", "", { gpu: 8, cpu: 1000, memory: 500 });

  test("names a parent that exists", () => {
    const orphan = queue("a", "nobody", {});
    expect(written(orphan, [top])).toMatchObject({
      allowed: false,
      message: expect.stringContaining('spec.parentQueue: Not found: "nobody"'),
    });
    expect(written(orphan, [top], false).allowed).toBe(true);
  });

  test.each<[string, Quotas, string[]]>([
    ["in GPUs", { gpu: 9 }, ["queue a has a gpu quota of 9 GPUs, more than the 8 GPUs of queue top"]],
    [
      "in cores",
      { cpu: 1001 },
      ["queue a has a cpu quota of 1001 millicores, more than the 1000 millicores of queue top"],
    ],
    ["in memory", { memory: 501 }, ["queue a has a memory quota of 501 MB, more than the 500 MB of queue top"]],
    ["without bound", { gpu: -1 }, ["queue a has a gpu quota of unlimited, more than the 8 GPUs of queue top"]],
    ["not where it has as much", { gpu: 8, cpu: 1000, memory: 500 }, []],
  ])("is warned of that has more than its parent: %s", (_, quotas, warnings) => {
    expect(written(queue("a", "top", quotas), [top])).toEqual({ allowed: true, warnings });
    expect(written(queue("a", "top", quotas), [top], false)).toEqual({ allowed: true, warnings: [] });
  });

  test("is warned of that has with its siblings more than their parent, and counts as it will be", () => {
    const others = [top, queue("a", "top", { gpu: 1 }), queue("b", "top", { gpu: 5 }), queue("c", "other", { gpu: 9 })];
    expect(written(queue("a", "top", { gpu: 3 }), others)).toEqual({ allowed: true, warnings: [] });
    expect(written(queue("a", "top", { gpu: 4 }), others)).toEqual({
      allowed: true,
      warnings: ["the children of queue top have gpu quotas of 9 GPUs together, more than its 8 GPUs"],
    });
  });

  test("is warned of that leaves its children less than they have", () => {
    const others = [top, queue("a", "top", { gpu: 5 }), queue("b", "top", { gpu: 2 })];
    expect(written(queue("top", "", { gpu: 7 }), others)).toEqual({ allowed: true, warnings: [] });
    expect(written(queue("top", "", { gpu: 4 }), others)).toEqual({
      allowed: true,
      warnings: [
        "queue a has a gpu quota of 5 GPUs, more than the 4 GPUs of queue top",
        "the children of queue top have gpu quotas of 7 GPUs together, more than its 4 GPUs",
      ],
    });
  });

  test("whose name is still to be made has no children", () => {
    const top = named("a", { spec: { parentQueue: "", resources: { gpu: { quota: 2 } } } });
    expect(written(queue("", "", { gpu: 1 }), [top])).toEqual({ allowed: true, warnings: [] });
  });

  test("without bound holds anything", () => {
    const open = queue("top", "", { gpu: -1 });
    expect(written(queue("a", "top", { gpu: 100 }), [open])).toEqual({ allowed: true, warnings: [] });
  });
});

describe("a group", () => {
  test.each([
    ["counts its pods or its subgroups, not both", { minMember: 1, minSubGroup: 1 }, "spec.minSubGroup"],
    [
      "has subgroups of different names",
      {
        subGroups: [
          { name: "a", minMember: 1 },
          { name: "a", minMember: 1 },
        ],
      },
      "Duplicate",
    ],
    [
      "knows the parents of its subgroups",
      { subGroups: [{ name: "a", parent: "b", minMember: 1 }] },
      "no subgroup has this name",
    ],
    [
      "has no cycle of subgroups",
      {
        subGroups: [
          { name: "a", parent: "b" },
          { name: "b", parent: "a" },
        ],
      },
      "cycle",
    ],
    [
      "has a minimum for every subgroup of pods",
      { subGroups: [{ name: "a" }] },
      "spec.subGroups[0].minMember: Required",
    ],
    [
      "has no minimum of subgroups where there are none",
      { subGroups: [{ name: "a", minMember: 1, minSubGroup: 1 }] },
      "minSubGroup",
    ],
    [
      "has no pods beside subgroups",
      {
        subGroups: [
          { name: "a", minMember: 1 },
          { name: "b", parent: "a", minMember: 1 },
        ],
      },
      "spec.subGroups[0].minMember: Forbidden",
    ],
  ])("%s", (_, spec, says) => {
    expect(group(spec)).toMatchObject({ allowed: false, message: expect.stringContaining(says) });
  });

  test("that has pods beside subgroups already may still change", () => {
    const spec = {
      subGroups: [
        { name: "a", minMember: 1 },
        { name: "b", parent: "a", minMember: 1 },
      ],
    };
    expect(group(spec, "UPDATE")).toMatchObject({ allowed: true, warnings: [expect.stringContaining("minMember")] });
  });

  test.each(["preemptionDelay", "stalenessGracePeriod"])("has a duration for %s", (field) => {
    expect(group({ [field]: "5x" })).toMatchObject({
      allowed: false,
      message: `spec.${field}: Invalid value: "5x": must be a duration such as 90s, 5m or 1h30m`,
    });
    expect(group({ [field]: "-1s" })).toEqual({ allowed: true, warnings: [] });
    const same = object({ spec: { [field]: "5x" } });
    expect(review("podgroups", { operation: "UPDATE", object: same, oldObject: same })).toMatchObject({
      allowed: true,
      warnings: [expect.stringContaining("must be a duration")],
    });
  });

  test.each([
    [7, ["spec.schedulingBackoff: 7 is treated as -1, unlimited attempts; use 1 for a single attempt"]],
    [1, []],
    [-1, []],
    [null, []],
  ])("with a schedulingBackoff of %s is warned of: %j", (schedulingBackoff, warnings) => {
    expect(group({ schedulingBackoff })).toEqual({ allowed: true, warnings });
  });

  test("that waits for more subgroups than it has is warned of", () => {
    expect(group({ minSubGroup: 2, subGroups: [{ name: "a", minMember: 1 }] })).toMatchObject({
      allowed: true,
      warnings: [expect.stringContaining("only 1 exist")],
    });
  });
});

test.each([
  [
    "twice",
    [
      { nodeLabel: "a", alias: "x" },
      { nodeLabel: "b", alias: "x" },
    ],
  ],
  ["for a label of another level", [{ nodeLabel: "a", alias: "b" }, { nodeLabel: "b" }]],
])("an alias of a topology may not stand %s", (_, levels) => {
  expect(review("topologies", { object: object({ spec: { levels } }) }).allowed).toBe(false);
});
