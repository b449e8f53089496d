/**
 * The definitions of the gang kinds: Grove's groups, fields, defaults, rules, columns and short names. A pod spec is
 * kept as it is written; the API server checks it where it becomes a pod.
 */
import type { NewObject } from "../intent.ts";
import type { CustomResourceDefinition } from "../kubernetes.generated.ts";
import {
  described,
  fields,
  flag,
  int32,
  int64,
  list,
  oneOf,
  type Schema,
  text,
  withDefault,
} from "../objects/crdSchema.ts";
import { groveGroup, groveVersion, schedulerGroveGroup } from "./keys.ts";
import { cliqueSpec, domain, setSpec } from "./specSchemas.ts";
import { cliqueStatus, conditions, groupStatus, observedGeneration, setStatus } from "./statusSchemas.ts";

type Column = { name: string; type: string; jsonPath: string; priority?: number };

const packConstraint = described(
  fields({
    packConstraint: described(
      fields({
        required: described(text, "The node label whose value all pods share, or none is placed."),
        preferred: described(text, "The node label whose value all pods share if they fit."),
      }),
      "The domain that the pods are packed into.",
    ),
  }),
  "How close to each other the pods are placed.",
);
const namespace = described(text, "The namespace.");
const name = described(text, "The name.");
const podReference = fields({ namespace, name, uid: described(text, "The UID of the pod. Not in Grove.") }, [
  "name",
  "namespace",
]);

export type GangDefinition = NewObject<CustomResourceDefinition>;

interface Shape {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly short: string;
  readonly description: string;
  readonly scope: "Namespaced" | "Cluster";
  readonly spec: Schema;
  readonly status: Schema;
  readonly columns: readonly Column[];
  readonly selector?: string;
}

function definition(shape: Shape): GangDefinition {
  const { group, kind, plural, short, description, scope, columns, selector } = shape;
  const spec = described(shape.spec, "The desired state.");
  const status = described(shape.status, "The observed state.");
  const properties = { apiVersion: text, kind: text, metadata: { type: "object" }, spec, status };
  const scale = {
    specReplicasPath: ".spec.replicas",
    statusReplicasPath: ".status.replicas",
    ...(selector !== undefined && { labelSelectorPath: selector }),
  };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames: [short] },
      versions: [
        {
          name: groveVersion,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { description, type: "object", properties, required: ["spec"] } },
          subresources: { status: {}, ...(selector !== undefined && { scale }) },
          additionalPrinterColumns: columns,
        },
      ],
    },
  };
}

const number = (name: string, jsonPath: string): Column => ({ name, type: "integer", jsonPath });
const age: Column = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };
const breached: Column = {
  name: "MinBreached",
  type: "string",
  jsonPath: '.status.conditions[?(@.type=="MinAvailableBreached")].status',
  priority: 1,
};

export const podCliqueSetDefinition = definition({
  group: groveGroup,
  kind: "PodCliqueSet",
  plural: "podcliquesets",
  short: "pcs",
  description: "Replicas of a workload: cliques of pods that are scheduled, updated and terminated as gangs.",
  scope: "Namespaced",
  selector: ".status.hpaPodSelector",
  spec: setSpec,
  status: setStatus,
  columns: [
    number("Replicas", ".spec.replicas"),
    number("Available", ".status.availableReplicas"),
    number("Updated", ".status.updatedReplicas"),
    number("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
    number("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
    number("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount"),
    number("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount"),
    age,
  ],
});

export const podCliqueDefinition = definition({
  group: groveGroup,
  kind: "PodClique",
  plural: "podcliques",
  short: "pclq",
  description: "The pods of one role in a replica of a PodCliqueSet.",
  scope: "Namespaced",
  selector: ".status.hpaPodSelector",
  spec: cliqueSpec,
  status: cliqueStatus,
  columns: [
    number("MinAvail", ".spec.minAvailable"),
    number("Replicas", ".spec.replicas"),
    number("Ready", ".status.readyReplicas"),
    number("Scheduled", ".status.scheduledReplicas"),
    number("Updated", ".status.updatedReplicas"),
    { ...number("Gated", ".status.scheduleGatedReplicas"), priority: 1 },
    breached,
    age,
  ],
});

export const podCliqueScalingGroupDefinition = definition({
  group: groveGroup,
  kind: "PodCliqueScalingGroup",
  plural: "podcliquescalinggroups",
  short: "pcsg",
  description: "Cliques of a PodCliqueSet replica that scale together.",
  scope: "Namespaced",
  selector: ".status.selector",
  spec: fields(
    {
      replicas: described(withDefault(int32, 1), "The number of replicas; each has a PodClique for each clique."),
      minAvailable: described(withDefault(int32, 1), "The number of replicas that are part of the base gang."),
      cliqueNames: described(list(text), "The names of the cliques in the PodCliqueSet."),
    },
    ["cliqueNames"],
  ),
  status: groupStatus,
  columns: [
    number("MinAvail", ".spec.minAvailable"),
    number("Replicas", ".spec.replicas"),
    number("Available", ".status.availableReplicas"),
    number("Scheduled", ".status.scheduledReplicas"),
    number("Updated", ".status.updatedReplicas"),
    number("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
    number("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
    breached,
    age,
  ],
});

export const podGangDefinition = definition({
  group: schedulerGroveGroup,
  kind: "PodGang",
  plural: "podgangs",
  short: "pg",
  description: "A gang: pods that the scheduler places all together or not at all.",
  scope: "Namespaced",
  spec: fields(
    {
      podgroups: described(
        list(
          fields(
            {
              name: described(text, "The name of a PodClique."),
              podReferences: described(list(podReference), "Its pods."),
              minReplicas: described(int32, "How many of them are placed together."),
              topologyConstraint: packConstraint,
            },
            ["name", "podReferences", "minReplicas"],
          ),
        ),
        "The cliques of the gang.",
      ),
      topologyConstraint: packConstraint,
      topologyConstraintGroupConfigs: described(
        list(
          fields(
            {
              name: described(text, "The name of the group, a replica of a scaling group."),
              podGroupNames: described(list(text), "Its cliques, entries of podgroups."),
              topologyConstraint: packConstraint,
            },
            ["name", "podGroupNames"],
          ),
        ),
        "Constraints of several cliques together.",
      ),
      priorityClassName: described(text, "The PriorityClass of the gang."),
      reuseReservationRef: described(
        fields({ namespace, name }, ["name", "namespace"]),
        "Accepted for Grove's manifests and not read.",
      ),
    },
    ["podgroups"],
  ),
  status: fields({
    phase: described(oneOf("Pending", "Starting", "Running"), "The phase of the gang."),
    conditions,
    placementScore: described(
      { type: "number", format: "double" },
      "The score of the placement, written by schedulers.",
    ),
  }),
  columns: [{ name: "Phase", type: "string", jsonPath: ".status.phase" }, age],
});

export const clusterTopologyBindingDefinition = definition({
  group: groveGroup,
  kind: "ClusterTopologyBinding",
  plural: "clustertopologybindings",
  short: "ct",
  description: "Names for the topology domains of the cluster, and the node labels behind them.",
  scope: "Cluster",
  spec: fields(
    {
      levels: {
        ...list(
          fields(
            {
              domain: described(domain, "The name of the domain, such as rack or zone."),
              key: {
                description: "The node label whose value is the domain of a node.",
                ...text,
                minLength: 1,
                maxLength: 63,
                pattern:
                  "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
              },
            },
            ["domain", "key"],
          ),
        ),
        description: "The domains, from the widest to the narrowest.",
        minItems: 1,
      },
      schedulerTopologyBindings: described(
        list(
          fields(
            {
              schedulerName: described(text, "The name of the scheduler."),
              topologyReference: described(text, "The name of its topology object."),
            },
            ["schedulerName", "topologyReference"],
          ),
        ),
        "Topology objects of schedulers that exist already; for the others the operator creates one.",
      ),
    },
    ["levels"],
  ),
  status: fields({
    observedGeneration,
    conditions,
    schedulerTopologyStatuses: described(
      list(
        fields({
          schedulerName: described(text, "The name of the scheduler."),
          topologyReference: described(text, "The name of its topology object."),
          inSync: described(flag, "Whether the topology object has these levels."),
          schedulerBackendTopologyObservedGeneration: described(int64, "The generation of the topology object."),
          message: described(text, "Why it is not in sync."),
        }),
      ),
      "The topology object of each scheduler.",
    ),
  }),
  columns: [{ name: "Domains", type: "string", jsonPath: ".spec.levels[*].domain" }, age],
});

export const gangDefinitions: readonly GangDefinition[] = [
  clusterTopologyBindingDefinition,
  podCliqueScalingGroupDefinition,
  podCliqueSetDefinition,
  podCliqueDefinition,
  podGangDefinition,
];
