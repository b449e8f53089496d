import type { NewObject } from "../intent.ts";
import type { CustomResourceDefinition, JSONSchemaProps } from "../kubernetes.generated.ts";
import { kaiGroup, schedulingGroup } from "./keys.ts";

/**
 * The definitions of the kinds that queues and gangs are written in: the same groups, versions, fields and defaults as
 * KAI's, so that manifests move between the two. What only we understand is optional and marked.
 */

type Schema = JSONSchemaProps;

const text: Schema = { type: "string" };
const flag: Schema = { type: "boolean" };
const whole: Schema = { type: "integer" };
const decimal: Schema = { type: "number" };
const time: Schema = { type: "string", format: "date-time" };
const open: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const int32: Schema = { type: "integer", format: "int32" };
const count: Schema = { ...int32, minimum: 0 };
const maybe = (schema: Schema): Schema => ({ ...schema, nullable: true });
const fields = (properties: Record<string, Schema>, required: string[] = []): Schema =>
  required.length > 0 ? { type: "object", properties, required } : { type: "object", properties };
const list = (items: Schema): Schema => ({ type: "array", items });
const map = (additionalProperties: Schema): Schema => ({ type: "object", additionalProperties });
const amount: Schema = {
  anyOf: [{ type: "integer" }, { type: "string" }],
  "x-kubernetes-int-or-string": true,
  pattern:
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
};
const amounts = map(amount);
const described = (schema: Schema, description: string): Schema => ({ ...schema, description });

interface Shape {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly isNamespaced: boolean;
  readonly shortNames?: string[];
  readonly hasStatus: boolean;
  readonly spec: Schema;
  readonly status?: Schema;
  readonly columns?: { name: string; type: string; jsonPath: string }[];
}

export type Definition = NewObject<CustomResourceDefinition>;

export function definition(shape: Shape): Definition {
  const { group, version, kind, plural, isNamespaced, shortNames, hasStatus, spec, status, columns } = shape;
  const properties = { apiVersion: text, kind: text, metadata: { type: "object" }, spec, ...(status && { status }) };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: isNamespaced ? "Namespaced" : "Cluster",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        ...(shortNames && { shortNames }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties } },
          ...(hasStatus && { subresources: { status: {} } }),
          ...(columns && { additionalPrinterColumns: columns }),
        },
      ],
    },
  };
}

const queueResource = fields({
  quota: described(decimal, "What is guaranteed; -1 is without bound."),
  overQuotaWeight: described(decimal, "The share of what others leave over."),
  limit: described(decimal, "Never beyond; -1 is without bound, 0 allows nothing."),
});
const condition = fields({ type: text, status: text, lastTransitionTime: time, reason: text, message: text }, [
  "type",
  "status",
]);

const queueDefinition = definition({
  group: schedulingGroup,
  version: "v2",
  kind: "Queue",
  plural: "queues",
  isNamespaced: false,
  hasStatus: true,
  spec: fields({
    displayName: text,
    parentQueue: described(text, "The name of the queue above; none is the top level."),
    priority: maybe(whole),
    preemptMinRuntime: maybe(text),
    reclaimMinRuntime: maybe(text),
    resources: fields({
      gpu: described(queueResource, "In devices."),
      cpu: described(queueResource, "In thousandths of a core."),
      memory: described(queueResource, "In millions of bytes."),
      gpuTypes: described(
        map(fields({ quota: { ...decimal, default: -1 }, limit: { ...decimal, default: -1 } })),
        "In devices, by the product that nodes have in the label nvidia.com/gpu.product.",
      ),
    }),
  }),
  status: fields({
    conditions: list(condition),
    childQueues: list(text),
    allocated: amounts,
    allocatedNonPreemptible: amounts,
    requested: amounts,
  }),
  columns: [
    { name: "Priority", type: "string", jsonPath: ".spec.priority" },
    { name: "Parent", type: "string", jsonPath: ".spec.parentQueue" },
    { name: "Children", type: "string", jsonPath: ".status.childQueues" },
    { name: "DisplayName", type: "string", jsonPath: ".spec.displayName" },
  ],
});

const dnsLabel: Schema = { type: "string", pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" };
const topologyConstraint = fields({
  topology: text,
  requiredTopologyLevel: text,
  preferredTopologyLevel: text,
});
const queueDetails = fields({
  name: text,
  queueRequestedResources: amounts,
  queueDeservedResources: amounts,
  queueAllocatedResources: amounts,
  queueAllocatedNonPreemptibleResources: amounts,
  queueResourceLimits: amounts,
  podGroupRequestedResources: amounts,
  podGroupRequestedNonPreemptibleResources: amounts,
});

export const podGroupDefinition = definition({
  group: schedulingGroup,
  version: "v2alpha2",
  kind: "PodGroup",
  plural: "podgroups",
  isNamespaced: true,
  shortNames: ["pg"],
  hasStatus: true,
  spec: fields({
    minMember: maybe(count),
    minSubGroup: maybe(count),
    queue: text,
    priorityClassName: text,
    preemptibility: { type: "string", enum: ["preemptible", "non-preemptible", ""] },
    topologyConstraint,
    subGroups: {
      type: "array",
      items: fields(
        {
          name: { ...dnsLabel, minLength: 1 },
          parent: maybe(dnsLabel),
          minMember: maybe(count),
          minSubGroup: maybe(count),
          topologyConstraint: maybe(topologyConstraint),
        },
        ["name"],
      ),
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    },
    markUnschedulable: maybe(flag),
    schedulingBackoff: maybe(int32),
    preemptionDelay: maybe(text),
    stalenessGracePeriod: maybe(text),
  }),
  status: {
    ...fields({
      phase: text,
      conditions: list(condition),
      schedulingConditions: list(
        fields(
          {
            type: text,
            nodePool: text,
            reason: text,
            message: text,
            reasons: list(
              fields({ reason: text, message: text, details: maybe(fields({ queueDetails: maybe(queueDetails) })) }, [
                "reason",
              ]),
            ),
            lastTransitionTime: time,
            status: text,
            transitionID: text,
          },
          ["type", "nodePool"],
        ),
      ),
      resourcesStatus: fields({ allocated: amounts, allocatedNonPreemptible: amounts, requested: amounts }),
    }),
    "x-kubernetes-preserve-unknown-fields": true,
  },
});

export const bindRequestDefinition = definition({
  group: schedulingGroup,
  version: "v1alpha2",
  kind: "BindRequest",
  plural: "bindrequests",
  isNamespaced: true,
  hasStatus: true,
  spec: fields({
    podName: text,
    selectedNode: text,
    receivedResourceType: text,
    receivedGPU: fields({ count: whole, portion: text }),
    selectedGPUGroups: list(text),
    resourceClaimAllocations: list(fields({ name: text, allocation: maybe(open) })),
    extendedResourceClaimAllocation: maybe(
      fields({ allocation: maybe(open), deviceRequests: list(open), containerMappings: list(open) }),
    ),
    predictedNUMAZones: list(fields({ zone: text, amount: amounts })),
    backoffLimit: maybe(int32),
  }),
  status: fields({ phase: text, reason: text, failedAttempts: int32 }),
});

export const topologyDefinition = definition({
  group: kaiGroup,
  version: "v1alpha1",
  kind: "Topology",
  plural: "topologies",
  isNamespaced: false,
  hasStatus: false,
  spec: fields(
    {
      levels: {
        type: "array",
        minItems: 1,
        maxItems: 16,
        "x-kubernetes-list-type": "atomic",
        items: fields(
          {
            nodeLabel: {
              type: "string",
              minLength: 1,
              maxLength: 316,
              pattern:
                "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
            },
            alias: { type: "string", maxLength: 316 },
          },
          ["nodeLabel"],
        ),
        "x-kubernetes-validations": [
          {
            rule: "self.all(x, self.exists_one(y, x.nodeLabel == y.nodeLabel))",
            message: "every level has a node label of its own",
          },
          {
            rule: "self.size() == oldSelf.size() && self.map(x, x.nodeLabel) == oldSelf.map(x, x.nodeLabel)",
            message: "the node labels and their order cannot change; make another Topology",
          },
          {
            // Not by index: Kubernetes has no bound for the cost of a search in a computed list, and refuses the
            // definition.
            rule: "self.all(x, x.nodeLabel != 'kubernetes.io/hostname') || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
            message: "kubernetes.io/hostname can only be the last level",
          },
        ],
      },
    },
    ["levels"],
  ),
});

const strategy: Schema = { type: "string", enum: ["binpack", "spread"] };
const plugin = fields({ enabled: flag, priority: whole, arguments: map(text) });

const schedulingShardDefinition = definition({
  group: kaiGroup,
  version: "v1",
  kind: "SchedulingShard",
  plural: "schedulingshards",
  isNamespaced: false,
  hasStatus: true,
  spec: fields({
    partitionLabelValue: text,
    placementStrategy: fields({ gpu: { ...strategy, default: "binpack" }, cpu: { ...strategy, default: "binpack" } }),
    queueDepthPerAction: map(whole),
    minRuntime: fields({ preemptMinRuntime: text, reclaimMinRuntime: text }),
    kValue: decimal,
    usageDBConfig: open,
    scenarioSearchBudgets: {
      ...fields({
        maxActionSearchDuration: map(text),
        maxJobSearchDuration: text,
        minJobSearchDuration: text,
        maxGeneratorSearchDuration: map(text),
      }),
      "x-kubernetes-preserve-unknown-fields": true,
    },
    plugins: map(plugin),
    actions: map(fields({ enabled: flag, priority: whole })),
    args: map(text),
    goMemLimitRatio: decimal,
    goMemLimit: text,
  }),
  status: open,
});

const kaiConfigDefinition = definition({
  group: kaiGroup,
  version: "v1",
  kind: "Config",
  plural: "configs",
  isNamespaced: false,
  hasStatus: true,
  spec: {
    ...fields({
      namespace: { ...text, default: "kai-scheduler" },
      global: {
        ...fields({
          schedulerName: { ...text, default: "kai-scheduler" },
          queueLabelKey: { ...text, default: "kai.scheduler/queue" },
          nodePoolLabelKey: { ...text, default: "kai.scheduler/node-pool" },
          namespaceLabelSelector: map(text),
          podLabelSelector: map(text),
        }),
        "x-kubernetes-preserve-unknown-fields": true,
      },
      binder: open,
      podGrouper: {
        ...fields({
          args: {
            ...fields({
              gangScheduleKnative: flag,
              defaultPrioritiesConfigMapName: text,
              defaultPrioritiesConfigMapNamespace: text,
            }),
            "x-kubernetes-preserve-unknown-fields": true,
          },
        }),
        "x-kubernetes-preserve-unknown-fields": true,
      },
      queueController: {
        ...fields({ queueLabelToMetricLabel: text, queueLabelToDefaultMetricValue: text }),
        "x-kubernetes-preserve-unknown-fields": true,
      },
      admission: {
        ...fields({
          gpuSharing: { ...flag, default: false },
          blockNvidiaVisibleDevices: { ...flag, default: false },
          gpuFractionRuntimeClassName: { ...text, default: "nvidia" },
          queueLabelSelector: { ...flag, default: false },
        }),
        "x-kubernetes-preserve-unknown-fields": true,
      },
    }),
    "x-kubernetes-preserve-unknown-fields": true,
  },
  status: open,
});

/** All of them, in order of name. */
export const schedulingDefinitions: readonly Definition[] = [
  bindRequestDefinition,
  kaiConfigDefinition,
  podGroupDefinition,
  queueDefinition,
  schedulingShardDefinition,
  topologyDefinition,
];
