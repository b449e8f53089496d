import {
  conditionFields,
  decimal,
  described,
  fields,
  flag,
  int32,
  integer,
  list,
  listByName,
  map,
  nullable,
  oneOf,
  open,
  quantities,
  type Schema,
  text,
  withDefault,
} from "../objects/crdSchema.ts";
import { type Definition, definition } from "./definition.ts";
import { kaiGroup, schedulingGroup } from "./keys.ts";
import { kaiConfigDefinition, schedulingShardDefinition } from "./settingsDefinitions.ts";

/**
 * The CustomResourceDefinitions of the scheduler: KAI's groups, versions, fields and defaults, so that manifests move
 * between the two. Fields that KAI does not have are optional.
 */

const queueResource = fields({
  quota: described(decimal, "The guaranteed amount; -1 is unlimited. Defaults to 0."),
  overQuotaWeight: described(
    decimal,
    "The weight of this queue when the surplus, the capacity beyond all quotas, is divided among sibling queues.",
  ),
  limit: described(decimal, "The maximum amount; -1 is unlimited, 0 allows nothing. Defaults to 0."),
});
const { type, status, lastTransitionTime, reason, message } = conditionFields;
const condition = fields({ type, status, lastTransitionTime, reason, message }, ["type", "status"]);
const conditions = described(list(condition), "The latest observed conditions.");
const allocated = described(quantities, "Resources of its running and bound pods.");
const allocatedNonPreemptible = described(quantities, "The part of allocated that cannot be preempted.");
const requested = described(quantities, "Resources that its pods request, pending pods included.");

const queueDefinition = definition({
  group: schedulingGroup,
  version: "v2",
  kind: "Queue",
  plural: "queues",
  description:
    "A scheduling queue. Queues form a tree: workloads are submitted to the leaves, and inner queues divide their resources among their children.",
  isNamespaced: false,
  hasStatus: true,
  spec: described(
    fields({
      displayName: described(text, "A name for people; it does not have to be unique."),
      parentQueue: described(text, "The name of the parent queue; empty for a top-level queue."),
      priority: described(
        nullable(integer),
        "Queues of a higher priority get surplus resources first and are reclaimed from last. Defaults to 100.",
      ),
      preemptMinRuntime: described(
        nullable(text),
        "How long a gang of this queue runs before pods of the same queue may preempt it, as a duration such as 10m.",
      ),
      reclaimMinRuntime: described(
        nullable(text),
        "How long a gang of this queue runs before other queues may reclaim its resources, as a duration such as 10m.",
      ),
      resources: described(
        fields({
          gpu: described(queueResource, "GPUs, in devices; fractions are allowed."),
          cpu: described(queueResource, "CPU, in thousandths of a core."),
          memory: described(queueResource, "Memory, in millions of bytes."),
          gpuTypes: described(
            map(
              fields({
                quota: described(
                  withDefault(decimal, -1),
                  "The most GPUs of this type that non-preemptible pods may use; -1 is unlimited.",
                ),
                limit: described(withDefault(decimal, -1), "The maximum of GPUs of this type; -1 is unlimited."),
              }),
            ),
            "GPUs by type, in devices. The key is the node label nvidia.com/gpu.product. Not in KAI.",
          ),
        }),
        "Quota, limit and weight of each resource. Required; a resource that is not set has a quota and a limit of 0.",
      ),
    }),
    "The place of the queue in the tree and its resources.",
  ),
  status: described(
    fields({
      conditions,
      childQueues: described(list(text), "The names of its child queues."),
      allocated,
      allocatedNonPreemptible,
      requested,
    }),
    "The observed state, with the queues below included.",
  ),
  columns: [
    { name: "Priority", type: "string", jsonPath: ".spec.priority" },
    { name: "Parent", type: "string", jsonPath: ".spec.parentQueue" },
    { name: "Children", type: "string", jsonPath: ".status.childQueues" },
    { name: "DisplayName", type: "string", jsonPath: ".spec.displayName" },
  ],
});

const count: Schema = { ...int32, minimum: 0 };
const dnsLabel: Schema = { type: "string", pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" };
const topologyConstraint = fields({
  topology: described(text, "The name of a Topology."),
  requiredTopologyLevel: described(text, "All pods are placed in one domain of this level, or none is placed."),
  preferredTopologyLevel: described(text, "The pods are placed in one domain of this level if they fit."),
});
const queueDetails = fields({
  name: described(text, "The name of the queue."),
  queueRequestedResources: described(quantities, "What the pods of the queue request."),
  queueDeservedResources: described(quantities, "The quota of the queue."),
  queueAllocatedResources: described(quantities, "What is allocated to the queue."),
  queueAllocatedNonPreemptibleResources: described(quantities, "The non-preemptible part of it."),
  queueResourceLimits: described(quantities, "The limit of the queue."),
  podGroupRequestedResources: described(quantities, "What the pods of this group request."),
  podGroupRequestedNonPreemptibleResources: described(quantities, "The non-preemptible part of it."),
});

export const podGroupDefinition = definition({
  group: schedulingGroup,
  version: "v2alpha2",
  kind: "PodGroup",
  plural: "podgroups",
  description: "The pods of one workload: how many are placed together, from which queue, and how close to each other.",
  isNamespaced: true,
  shortNames: ["pg"],
  hasStatus: true,
  spec: described(
    fields({
      minMember: described(
        nullable(count),
        "The size of the gang: so many pods are placed together, or none. Defaults to 1.",
      ),
      minSubGroup: described(
        nullable(count),
        "How many of the direct subgroups must have their minimum. Defaults to all. Excludes minMember.",
      ),
      queue: described(text, "The name of the queue."),
      priorityClassName: described(text, "The PriorityClass of the gang in its queue."),
      preemptibility: described(
        oneOf("preemptible", "non-preemptible", ""),
        "Whether the pods may be evicted for other workloads. If empty, pods of a priority below 100 may.",
      ),
      topologyConstraint: described(topologyConstraint, "How close to each other the pods are placed."),
      subGroups: described(
        listByName(
          fields(
            {
              name: described({ ...dnsLabel, minLength: 1 }, "The name, unique in the PodGroup."),
              parent: described(nullable(dnsLabel), "The subgroup above; none is the PodGroup itself."),
              minMember: described(nullable(count), "The minimum of pods, for a subgroup without subgroups."),
              minSubGroup: described(
                nullable(count),
                "How many of its subgroups must have their minimum, for a subgroup that has subgroups.",
              ),
              topologyConstraint: described(
                nullable(topologyConstraint),
                "How close to each other the pods of the subgroup are placed.",
              ),
            },
            ["name"],
          ),
        ),
        "Parts of the gang with minimums of their own.",
      ),
      markUnschedulable: described(
        nullable(flag),
        "Whether pods that cannot be placed get the condition PodScheduled=False. Defaults to true.",
      ),
      schedulingBackoff: described(
        nullable(int32),
        "1: one scheduling attempt in each node pool. -1 or not set: unlimited attempts.",
      ),
      preemptionDelay: described(nullable(text), "How long the gang waits before it preempts other pods."),
      stalenessGracePeriod: described(
        nullable(text),
        "How long the gang may run with fewer pods than its minimum before it is evicted; negative is unlimited.",
      ),
    }),
    "The gang and its constraints.",
  ),
  status: described(
    {
      ...fields({
        phase: described(text, "Pending, Running and so on."),
        conditions,
        schedulingConditions: described(
          list(
            fields(
              {
                type,
                nodePool: described(text, "The node pool that the condition is about."),
                reason: described(text, "The reason, for clients that do not read reasons."),
                message: described(text, "The message, for clients that do not read reasons."),
                reasons: described(
                  list(
                    fields(
                      {
                        reason: described(text, "The reason, in CamelCase."),
                        message: described(text, "The reason in a sentence."),
                        details: described(
                          nullable(
                            fields({
                              queueDetails: described(nullable(queueDetails), "The amounts that the reason refers to."),
                            }),
                          ),
                          "Facts behind the reason.",
                        ),
                      },
                      ["reason"],
                    ),
                  ),
                  "Why the gang is not placed.",
                ),
                lastTransitionTime,
                status,
                transitionID: described(text, "A number that increases with each change."),
              },
              ["type", "nodePool"],
            ),
          ),
          "Whether the gang can be scheduled, by node pool.",
        ),
        resourcesStatus: described(
          fields({ allocated, allocatedNonPreemptible, requested }),
          "Resources of the pods of the group.",
        ),
      }),
      "x-kubernetes-preserve-unknown-fields": true,
    },
    "The observed state.",
  ),
});

export const bindRequestDefinition = definition({
  group: schedulingGroup,
  version: "v1alpha2",
  kind: "BindRequest",
  plural: "bindrequests",
  description: "A decision of the scheduler: this pod on that node, with these devices. The binder carries it out.",
  isNamespaced: true,
  hasStatus: true,
  spec: described(
    fields({
      podName: described(text, "A pod of the same namespace; the owner reference has its UID."),
      selectedNode: described(text, "The node that the pod is bound to."),
      receivedResourceType: described(text, "Regular (whole GPUs), Fraction (a GPU share) or MigInstance."),
      receivedGPU: described(
        fields({
          count: described(integer, "The number of GPUs."),
          portion: described(text, "The part of each GPU, such as 0.5."),
        }),
        "The GPUs of the pod.",
      ),
      selectedGPUGroups: described(list(text), "The GPU groups of the shared GPUs, one for each GPU."),
      resourceClaimAllocations: described(
        list(
          fields({
            name: described(text, "The name of the claim in the pod spec."),
            allocation: described(nullable(open), "The allocation to write to the status of the ResourceClaim."),
          }),
        ),
        "Devices for the ResourceClaims of the pod.",
      ),
      extendedResourceClaimAllocation: described(
        nullable(
          fields({
            allocation: described(nullable(open), "The allocation of the ResourceClaim."),
            deviceRequests: described(list(open), "The device requests of the ResourceClaim."),
            containerMappings: described(
              list(open),
              "Which device request serves which container and extended resource.",
            ),
          }),
        ),
        "The ResourceClaim to create for extended resources that devices serve.",
      ),
      predictedNUMAZones: described(
        list(
          fields({
            zone: described(text, "The name of the zone."),
            amount: described(quantities, "What the pod uses of it."),
          }),
        ),
        "The NUMA zones that the scheduler expects the pod to use.",
      ),
      backoffLimit: described(nullable(int32), "How many attempts follow one that failed. Not set: none."),
    }),
    "The decision.",
  ),
  status: described(
    fields({
      phase: described(text, "Pending, Succeeded or Failed; empty is Pending."),
      reason: described(text, "Why the last attempt failed."),
      failedAttempts: described(int32, "How many attempts failed."),
    }),
    "The result.",
  ),
});

export const topologyDefinition = definition({
  group: kaiGroup,
  version: "v1alpha1",
  kind: "Topology",
  plural: "topologies",
  description: "The topology of the cluster: node labels, from the widest domain to the narrowest.",
  isNamespaced: false,
  hasStatus: false,
  spec: described(
    fields(
      {
        levels: {
          description: "The levels, widest first. Their labels and their order cannot change.",
          type: "array",
          minItems: 1,
          maxItems: 16,
          "x-kubernetes-list-type": "atomic",
          items: fields(
            {
              nodeLabel: {
                description: "The node label whose value is the domain of a node.",
                type: "string",
                minLength: 1,
                maxLength: 316,
                pattern:
                  "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
              },
              alias: described(
                { type: "string", maxLength: 316 },
                "Another name for the level in topology constraints, unique in the Topology.",
              ),
            },
            ["nodeLabel"],
          ),
          "x-kubernetes-validations": [
            {
              rule: "self.all(x, self.exists_one(y, x.nodeLabel == y.nodeLabel))",
              message: "node labels must be unique: two levels have the same label",
            },
            {
              rule: "self.size() == oldSelf.size() && self.map(x, x.nodeLabel) == oldSelf.map(x, x.nodeLabel)",
              message: "the node labels and their order are immutable: create another Topology",
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
    "The levels of the topology.",
  ),
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
