/** The CustomResourceDefinitions that configure the scheduler. */
import {
  decimal,
  described,
  fields,
  flag,
  integer,
  map,
  oneOf,
  open,
  type Schema,
  text,
  withDefault,
} from "../objects/crdSchema.ts";
import { definition } from "./definition.ts";
import { kaiGroup } from "./keys.ts";

const strategy: Schema = withDefault(oneOf("binpack", "spread"), "binpack");
const enabled = described(flag, "Whether it runs.");
const priority = described(integer, "Its place in the order; the higher number runs first.");
const plugin = fields({ enabled, priority, arguments: described(map(text), "Arguments by name.") });

export const schedulingShardDefinition = definition({
  group: kaiGroup,
  version: "v1",
  kind: "SchedulingShard",
  plural: "schedulingshards",
  description: "A node pool with a scheduler of its own, and the settings of that scheduler.",
  isNamespaced: false,
  hasStatus: true,
  spec: described(
    fields({
      partitionLabelValue: described(
        text,
        "The node pool: the value of the label kai.scheduler/node-pool. Empty: nodes without the label.",
      ),
      placementStrategy: described(
        fields({
          gpu: described(strategy, "For pods that request GPUs: fill nodes (binpack) or spread over them."),
          cpu: described(strategy, "For other pods: fill nodes (binpack) or spread over them."),
        }),
        "How nodes are scored.",
      ),
      queueDepthPerAction: described(
        map(integer),
        "How many jobs of each queue an action tries in one cycle, by action; -1 is unlimited.",
      ),
      minRuntime: described(
        fields({
          preemptMinRuntime: described(text, "For queues without preemptMinRuntime."),
          reclaimMinRuntime: described(text, "For queues without reclaimMinRuntime."),
        }),
        "How long a gang runs before its pods may become victims, as durations.",
      ),
      kValue: described(decimal, "How much historical usage reduces the weight of a queue over its quota."),
      usageDBConfig: described(open, "Where historical usage is read."),
      scenarioSearchBudgets: described(
        {
          ...fields({
            maxActionSearchDuration: described(map(text), "The maximum of a cycle, by action."),
            maxJobSearchDuration: described(text, "The maximum for one job."),
            minJobSearchDuration: described(text, "The minimum for one job."),
            maxGeneratorSearchDuration: described(map(text), "The maximum for one job, by generator of scenarios."),
          }),
          "x-kubernetes-preserve-unknown-fields": true,
        },
        "Bounds of the search for victims, as durations; 0 is unlimited.",
      ),
      plugins: described(map(plugin), "Settings of plugins, by name."),
      actions: described(map(fields({ enabled, priority })), "Settings of actions, by name."),
      args: described(map(text), "Options of the command line of KAI's scheduler, by name."),
      goMemLimitRatio: described(decimal, "Accepted for KAI's manifests and not read."),
      goMemLimit: described(text, "Accepted for KAI's manifests and not read."),
    }),
    "The node pool and the settings of its scheduler.",
  ),
  status: described(open, "The observed state."),
});

export const kaiConfigDefinition = definition({
  group: kaiGroup,
  version: "v1",
  kind: "Config",
  plural: "configs",
  description: "The settings of the installation, in the object kai-config. Fields that Muster does not read are kept.",
  isNamespaced: false,
  hasStatus: true,
  spec: {
    ...fields({
      namespace: described(withDefault(text, "kai-scheduler"), "The namespace of KAI's installation."),
      global: {
        ...fields({
          schedulerName: described(
            withDefault(text, "kai-scheduler"),
            "The schedulerName of the pods that are scheduled. Another value is logged and ignored.",
          ),
          queueLabelKey: described(
            withDefault(text, "kai.scheduler/queue"),
            "The label that names a workload's queue. Another value is logged and ignored.",
          ),
          nodePoolLabelKey: described(
            withDefault(text, "kai.scheduler/node-pool"),
            "The label that names a node pool. Another value is logged and ignored.",
          ),
          namespaceLabelSelector: described(map(text), "Pods in namespaces with these labels are grouped."),
          podLabelSelector: described(map(text), "Pods with these labels are grouped."),
        }),
        description: "Settings of all components.",
        "x-kubernetes-preserve-unknown-fields": true,
      },
      binder: described(open, "Settings of the binder."),
      podGrouper: {
        ...fields({
          args: {
            ...fields({
              gangScheduleKnative: described(flag, "Whether pods of a Knative revision are one gang."),
              defaultPrioritiesConfigMapName: described(
                text,
                "A ConfigMap with the default PriorityClass of each kind.",
              ),
              defaultPrioritiesConfigMapNamespace: described(text, "The namespace of that ConfigMap."),
            }),
            description: "Options of the pod grouper.",
            "x-kubernetes-preserve-unknown-fields": true,
          },
        }),
        description: "Settings of the pod grouper, which creates PodGroups.",
        "x-kubernetes-preserve-unknown-fields": true,
      },
      queueController: {
        ...fields({
          queueLabelToMetricLabel: described(
            text,
            "Labels of queues that their metrics have too: label=metric label, separated by commas.",
          ),
          queueLabelToDefaultMetricValue: described(text, "The value for queues without the label: label=value."),
        }),
        description: "Settings of the metrics of queues.",
        "x-kubernetes-preserve-unknown-fields": true,
      },
      admission: {
        ...fields({
          gpuSharing: described(
            withDefault(flag, false),
            "Not read: GPU shares are on unless --no-gpu-sharing is set.",
          ),
          blockNvidiaVisibleDevices: described(withDefault(flag, false), "Accepted for KAI's manifests and not read."),
          gpuFractionRuntimeClassName: described(
            withDefault(text, "nvidia"),
            "Accepted for KAI's manifests and not read.",
          ),
          queueLabelSelector: described(withDefault(flag, false), "Accepted for KAI's manifests and not read."),
        }),
        description: "Settings of the admission of pods.",
        "x-kubernetes-preserve-unknown-fields": true,
      },
    }),
    description: "The settings.",
    "x-kubernetes-preserve-unknown-fields": true,
  },
  status: described(open, "The observed state."),
});
