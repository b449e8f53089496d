import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { copyJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { customResources } from "./customResource.ts";
import { setCrdDefaults } from "./validateCrd.ts";

/** The kinds that KAI's users write, as they are served: names, fields, what is refused, and what is filled in. */

const crds = new Map(
  schedulingDefinitions.map((each) => {
    const crd = partly<CustomResourceDefinition>(copyJson(each));
    setCrdDefaults(crd);
    return [crd.spec.names.kind, crd] as const;
  }),
);

function crdOf(kind: string): CustomResourceDefinition {
  return crds.get(kind) ?? expect.fail(`no definition of ${kind}`);
}

/** The object as the server would keep it, and what it says against it. */
function served(kind: string, written: JsonObject): { object: JsonObject; errors: string[] } {
  const [resource = expect.fail(`${kind} is not served`)] = customResources(crdOf(kind));
  const { object } = resource.decode({ metadata: { name: "x", namespace: "n" }, ...copyJson(written) });
  resource.setDefaults(object);
  return { object, errors: resource.validate(object, undefined).map(describeFieldError) };
}

/** `spec.a[].b` names a field of every item of a list. */
function nest(path: string, value: Json): JsonObject {
  const [head = "", ...rest] = path.split(".");
  const isList = head.endsWith("[]");
  const inner = rest.length === 0 ? value : nest(rest.join("."), value);
  return { [isList ? head.slice(0, -2) : head]: isList ? [inner] : inner };
}

function at(object: Json | undefined, path: string): Json | undefined {
  let value: Json | undefined = object;
  for (const part of path.split(".")) {
    const key = part.replace("[]", "");
    value = isObject(value) ? (value as JsonObject)[key] : undefined;
    if (part.endsWith("[]")) value = Array.isArray(value) ? value[0] : undefined;
  }
  return value;
}

/** What a path needs beside it to be valid at all. */
const company: Readonly<Record<string, JsonObject>> = {
  "spec.subGroups[]": { name: "s" },
  "status.schedulingConditions[]": { type: "UnschedulableOnNodePool", nodePool: "default" },
  "status.schedulingConditions[].reasons[]": { reason: "OverLimit" },
  "status.conditions[]": { type: "T", status: "True" },
  "spec.levels[]": { nodeLabel: "zone" },
};

function withCompany(path: string, written: JsonObject): JsonObject {
  for (const [where, more] of Object.entries(company)) {
    if (!path.startsWith(`${where}.`)) continue;
    const target = at(written, where);
    if (isObject(target)) for (const [key, value] of Object.entries(more)) target[key] ??= value;
  }
  return written;
}

describe("kinds", () => {
  test.each([
    ["BindRequest", "scheduling.run.ai", "v1alpha2", "bindrequests", "Namespaced", [], true],
    ["PodGroup", "scheduling.run.ai", "v2alpha2", "podgroups", "Namespaced", ["pg"], true],
    ["Queue", "scheduling.run.ai", "v2", "queues", "Cluster", [], true],
    ["Topology", "kai.scheduler", "v1alpha1", "topologies", "Cluster", [], false],
    ["Config", "kai.scheduler", "v1", "configs", "Cluster", [], true],
    ["SchedulingShard", "kai.scheduler", "v1", "schedulingshards", "Cluster", [], true],
  ] as const)("%s is %s/%s, %s, %s, for short %j", (kind, group, version, plural, scope, shortNames, hasStatus) => {
    const { spec } = crdOf(kind);
    expect([spec.group, spec.scope, spec.names.plural]).toEqual([group, scope, plural]);
    expect(spec.names.shortNames ?? []).toEqual(shortNames);
    expect(spec.versions.map(({ name, served: isServed, storage }) => [name, isServed, storage])).toEqual([
      [version, true, true],
    ]);
    expect(spec.versions[0]?.subresources?.status !== undefined).toBe(hasStatus);
    expect(spec.conversion?.strategy).toBe("None");
  });

  test("a queue shows priority, parent, children and name in tables, and the others show nothing of their own", () => {
    const columns = Object.fromEntries(
      [...crds].map(([kind, { spec }]) => [
        kind,
        (spec.versions[0]?.additionalPrinterColumns ?? []).map(
          ({ name, type, jsonPath }) => `${name} ${type} ${jsonPath}`,
        ),
      ]),
    );
    expect(columns["Queue"]).toEqual([
      "Priority string .spec.priority",
      "Parent string .spec.parentQueue",
      "Children string .status.childQueues",
      "DisplayName string .spec.displayName",
    ]);
    for (const kind of ["BindRequest", "PodGroup", "Topology", "Config", "SchedulingShard"]) {
      expect(columns[kind]?.filter((each) => !each.startsWith("Age "))).toEqual([]);
    }
  });

  test.each(["BindRequest", "PodGroup", "Queue", "Topology", "SchedulingShard"])(
    "fields that %s does not have are left out",
    (kind) => {
      const { object } = served(kind, { spec: { nobodyKnows: 1, levels: [{ nodeLabel: "zone" }] } });
      expect(at(object, "spec.nobodyKnows")).toBeUndefined();
    },
  );
});

const amounts = { "nvidia.com/gpu": "1", cpu: "500m" };
const text = { good: "x", bad: 7 };
const flag = { good: true, bad: "yes" };
const duration = { good: "5m", bad: 7 };
const count = { good: 0, bad: -1 };
const whole = { good: 7, bad: "7" };
const list = { good: ["x"], bad: "x" };
const map = { good: amounts, bad: "x" };

describe.each<[string, Record<string, { good: Json; bad?: Json; nullable?: boolean }>]>([
  [
    "BindRequest",
    {
      "spec.podName": text,
      "spec.selectedNode": text,
      "spec.receivedResourceType": text,
      "spec.receivedGPU.count": whole,
      "spec.receivedGPU.portion": text,
      "spec.selectedGPUGroups": list,
      "spec.resourceClaimAllocations[].name": text,
      "spec.resourceClaimAllocations[].allocation": { good: { devices: { results: [] } }, bad: "x" },
      "spec.extendedResourceClaimAllocation": { good: { allocation: { devices: {} } }, bad: "x", nullable: true },
      "spec.extendedResourceClaimAllocation.deviceRequests": { good: [{ name: "r" }], bad: "x" },
      "spec.extendedResourceClaimAllocation.containerMappings": { good: [{ containerName: "c" }], bad: "x" },
      "spec.predictedNUMAZones[].zone": text,
      "spec.predictedNUMAZones[].amount": map,
      "spec.backoffLimit": { ...whole, nullable: true },
      "status.phase": text,
      "status.reason": text,
      "status.failedAttempts": whole,
    },
  ],
  [
    "PodGroup",
    {
      "spec.minMember": { ...count, nullable: true },
      "spec.minSubGroup": { ...count, nullable: true },
      "spec.queue": text,
      "spec.priorityClassName": text,
      "spec.preemptibility": { good: "non-preemptible", bad: "perhaps" },
      "spec.topologyConstraint.topology": text,
      "spec.topologyConstraint.requiredTopologyLevel": text,
      "spec.topologyConstraint.preferredTopologyLevel": text,
      "spec.subGroups[].name": { good: "worker-0", bad: "Worker" },
      "spec.subGroups[].parent": { good: "worker", bad: "Worker" },
      "spec.subGroups[].minMember": { ...count, nullable: true },
      "spec.subGroups[].minSubGroup": { ...count, nullable: true },
      "spec.subGroups[].topologyConstraint.requiredTopologyLevel": text,
      "spec.markUnschedulable": { ...flag, nullable: true },
      "spec.schedulingBackoff": { good: -1, bad: "x", nullable: true },
      "spec.preemptionDelay": { ...duration, nullable: true },
      "spec.stalenessGracePeriod": { good: "-1s", bad: 7, nullable: true },
      "status.conditions[].reason": text,
      "status.schedulingConditions[].reason": text,
      "status.schedulingConditions[].message": text,
      "status.schedulingConditions[].lastTransitionTime": { good: "2026-01-01T00:00:00Z", bad: "yesterday" },
      "status.schedulingConditions[].status": text,
      "status.schedulingConditions[].transitionID": text,
      "status.schedulingConditions[].reasons[].message": text,
      ...Object.fromEntries(
        [
          "queueRequestedResources",
          "queueDeservedResources",
          "queueAllocatedResources",
          "queueAllocatedNonPreemptibleResources",
          "queueResourceLimits",
          "podGroupRequestedResources",
          "podGroupRequestedNonPreemptibleResources",
        ].map((field) => [`status.schedulingConditions[].reasons[].details.queueDetails.${field}`, map]),
      ),
      "status.schedulingConditions[].reasons[].details.queueDetails.name": text,
      "status.resourcesStatus.allocated": map,
      "status.resourcesStatus.allocatedNonPreemptible": map,
      "status.resourcesStatus.requested": map,
    },
  ],
  [
    "Queue",
    {
      "spec.displayName": text,
      "spec.parentQueue": text,
      ...Object.fromEntries(
        ["gpu", "cpu", "memory"].flatMap((resource) =>
          ["quota", "overQuotaWeight", "limit"].map((field) => [
            `spec.resources.${resource}.${field}`,
            { good: field === "overQuotaWeight" ? 0.5 : -1, bad: "1" },
          ]),
        ),
      ),
      "spec.priority": { ...whole, nullable: true },
      "spec.preemptMinRuntime": { ...duration, nullable: true },
      "spec.reclaimMinRuntime": { ...duration, nullable: true },
      "status.childQueues": list,
      "status.allocated": map,
      "status.allocatedNonPreemptible": map,
      "status.requested": map,
      "status.conditions[].message": text,
    },
  ],
  [
    "Topology",
    {
      "spec.levels[].nodeLabel": { good: "example.com/rack", bad: "not a label" },
      "spec.levels[].alias": text,
    },
  ],
  [
    "SchedulingShard",
    {
      "spec.partitionLabelValue": text,
      "spec.placementStrategy.gpu": { good: "spread", bad: "scatter" },
      "spec.placementStrategy.cpu": { good: "spread", bad: "scatter" },
      "spec.queueDepthPerAction": { good: { reclaim: 5 }, bad: { reclaim: "5" } },
      "spec.minRuntime.preemptMinRuntime": duration,
      "spec.minRuntime.reclaimMinRuntime": duration,
      "spec.kValue": { good: 0.5, bad: "0.5" },
      "spec.usageDBConfig": { good: { clientType: "prometheus" }, bad: "x" },
      "spec.scenarioSearchBudgets.maxActionSearchDuration": { good: { default: "1m" }, bad: { default: 1 } },
      "spec.scenarioSearchBudgets.maxJobSearchDuration": duration,
      "spec.scenarioSearchBudgets.minJobSearchDuration": duration,
      "spec.scenarioSearchBudgets.maxGeneratorSearchDuration": { good: { NodeLocalGreedy: "1s" }, bad: "x" },
      "spec.plugins": { good: { proportion: { enabled: true, priority: 3, arguments: { kValue: "1" } } }, bad: "x" },
      "spec.actions": { good: { reclaim: { enabled: false, priority: 3 } }, bad: { reclaim: { enabled: "no" } } },
      "spec.args": { good: { "detailed-fit-errors": "true" }, bad: { "detailed-fit-errors": true } },
      "spec.goMemLimitRatio": { good: 0.9, bad: "0.9" },
      "spec.goMemLimit": text,
    },
  ],
  [
    "Config",
    {
      "spec.namespace": text,
      "spec.global.schedulerName": text,
      "spec.global.queueLabelKey": text,
      "spec.global.nodePoolLabelKey": text,
      "spec.global.namespaceLabelSelector": { good: { team: "a" }, bad: "x" },
      "spec.global.podLabelSelector": { good: { team: "a" }, bad: "x" },
      "spec.binder.replicas": { good: 2 },
      "spec.binder.resourceReservation": { good: { allocationTimeout: 40, podResources: {} } },
      "spec.admission.gpuSharing": flag,
      "spec.admission.blockNvidiaVisibleDevices": flag,
      "spec.admission.gpuFractionRuntimeClassName": text,
      "spec.admission.queueLabelSelector": flag,
      "spec.queueController.queueLabelToMetricLabel": { good: "team=queue_team", bad: 7 },
      "spec.queueController.queueLabelToDefaultMetricValue": { good: "team=none", bad: 7 },
      "spec.podGrouper.args": { good: { gangScheduleKnative: true }, bad: "x" },
      "spec.prometheus": { good: { enabled: true } },
    },
  ],
])("a %s has", (kind, fields) => {
  test.each(Object.entries(fields))("%s", (path, { good, bad, nullable }) => {
    const write = (value: Json) => served(kind, withCompany(path, nest(path, value)));
    const kept = write(good);
    expect(kept.errors).toEqual([]);
    expect(at(kept.object, path)).toEqual(good);
    if (bad !== undefined) expect(write(bad).errors.join()).not.toBe("");
    if (nullable === true) expect(write(null).errors).toEqual([]);
  });
});

describe("what is not written is", () => {
  test.each([
    ["SchedulingShard", { placementStrategy: {} }, "spec.placementStrategy.gpu", "binpack"],
    ["SchedulingShard", { placementStrategy: {} }, "spec.placementStrategy.cpu", "binpack"],
    ["Config", {}, "spec.namespace", "kai-scheduler"],
    ["Config", { global: {} }, "spec.global.schedulerName", "kai-scheduler"],
    ["Config", { global: {} }, "spec.global.queueLabelKey", "kai.scheduler/queue"],
    ["Config", { global: {} }, "spec.global.nodePoolLabelKey", "kai.scheduler/node-pool"],
    ["Config", { admission: {} }, "spec.admission.gpuSharing", false],
    ["Config", { admission: {} }, "spec.admission.blockNvidiaVisibleDevices", false],
    ["Config", { admission: {} }, "spec.admission.gpuFractionRuntimeClassName", "nvidia"],
    ["Config", { admission: {} }, "spec.admission.queueLabelSelector", false],
    ["BindRequest", {}, "spec.backoffLimit", undefined],
    ["PodGroup", {}, "spec.minMember", undefined],
    ["Queue", { resources: {} }, "spec.priority", undefined],
  ])("in a %s with %o: %s is %s", (kind, spec, path, value) => {
    expect(at(served(kind, { spec: spec as JsonObject }).object, path)).toEqual(value);
  });
});

describe("levels of a topology", () => {
  const levels = (count: number) => Array.from({ length: count }, (_, index) => ({ nodeLabel: `level-${index}` }));
  test.each([
    ["none are refused", levels(0), false],
    ["sixteen are allowed", levels(16), true],
    ["seventeen are refused", levels(17), false],
    ["a label of 316 characters is allowed", [{ nodeLabel: `${"a".repeat(252)}/${"b".repeat(63)}` }], true],
    ["a longer one is refused", [{ nodeLabel: "b".repeat(317) }], false],
    ["one without a label is refused", [{ alias: "rack" }], false],
  ])("%s", (_, given, isAllowed) => {
    expect(served("Topology", { spec: { levels: given } }).errors.length === 0).toBe(isAllowed);
  });
});

test("names of subgroups are unique by the list type", () => {
  const twice = [{ name: "a" }, { name: "a" }];
  expect(served("PodGroup", { spec: { subGroups: twice } }).errors.join()).toContain("subGroups[1]");
});
