/**
 * The definitions of the gang kinds: Grove's groups, fields, defaults, rules, columns and short names. A pod spec is
 * kept as it is written; the API server checks it where it becomes a pod.
 */
import type { NewObject } from "../intent.ts";
import type { CustomResourceDefinition, JSONSchemaProps } from "../kubernetes.generated.ts";
import { groveGroup, groveVersion, schedulerGroveGroup } from "./keys.ts";

type Schema = JSONSchemaProps;
type Column = { name: string; type: string; jsonPath: string; priority?: number };

const text: Schema = { type: "string" };
const flag: Schema = { type: "boolean" };
const int32: Schema = { type: "integer", format: "int32" };
const int64: Schema = { type: "integer", format: "int64" };
const time: Schema = { type: "string", format: "date-time" };
const fields = (properties: Record<string, Schema>, required: string[] = []): Schema =>
  required.length > 0 ? { type: "object", properties, required } : { type: "object", properties };
const list = (items: Schema): Schema => ({ type: "array", items });
const map = (additionalProperties: Schema): Schema => ({ type: "object", additionalProperties });
const orElse = (schema: Schema, fallback: unknown): Schema => ({ ...schema, default: fallback as never });
const open: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const named = (items: Schema): Schema => ({
  ...list(items),
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["name"],
});

/** At least the list of containers; everything else is passed through to the pods. */
const podSpec: Schema = {
  type: "object",
  required: ["containers"],
  "x-kubernetes-preserve-unknown-fields": true,
  properties: {
    containers: { ...list({ ...open, required: ["name"], properties: { name: text } }) },
  },
};

const domain: Schema = { ...text, minLength: 1, maxLength: 63, pattern: "^[a-z][a-z0-9-]*$" };
const topologyConstraint: Schema = {
  ...fields({
    topologyName: text,
    pack: {
      ...fields({ required: domain, preferred: domain }),
      "x-kubernetes-validations": [
        { rule: "has(self.required) || has(self.preferred)", message: "pack needs required or preferred" },
      ],
    },
    packDomain: { ...domain, description: "Older name of pack.required." },
  }),
  "x-kubernetes-validations": [
    { rule: "has(self.pack) || has(self.packDomain)", message: "a topology constraint needs pack" },
    {
      rule: "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
      message: "packDomain and pack.required exclude each other",
    },
  ],
};

const scope: Schema = { ...text, enum: ["AllReplicas", "PerReplica"] as never };
const sharing = (filter: Record<string, Schema> | undefined): Schema =>
  fields({ name: text, namespace: text, scope, ...(filter && { filter: fields(filter) }) }, ["name", "scope"]);
const cliqueSharing = list(sharing(undefined));
const groupSharing = list(sharing({ childCliqueNames: list(text) }));
const setSharing = list(sharing({ childCliqueNames: list(text), childScalingGroupNames: list(text) }));

const autoScaling = fields(
  { minReplicas: int32, maxReplicas: int32, metrics: { ...list(open), "x-kubernetes-list-type": "atomic" } },
  ["maxReplicas"],
);

const cliqueSpec = fields(
  {
    roleName: text,
    podSpec,
    replicas: int32,
    minAvailable: int32,
    startsAfter: list(text),
    autoScalingConfig: autoScaling,
  },
  ["podSpec", "replicas", "roleName"],
);

const withoutPackDomain = "(!has(x.topologyConstraint) || !has(x.topologyConstraint.packDomain))";
const template: Schema = {
  ...fields(
    {
      cliques: {
        ...named(
          fields(
            {
              name: text,
              labels: map(text),
              annotations: map(text),
              topologyConstraint,
              resourceSharing: cliqueSharing,
              spec: cliqueSpec,
            },
            ["name", "spec"],
          ),
        ),
      },
      cliqueStartupType: orElse(
        {
          ...text,
          enum: ["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"] as never,
        },
        "CliqueStartupTypeAnyOrder",
      ),
      priorityClassName: text,
      headlessServiceConfig: fields({ publishNotReadyAddresses: orElse(flag, true) }),
      topologyConstraint,
      terminationDelay: text,
      resourceClaimTemplates: list(fields({ name: text, templateSpec: open }, ["name", "templateSpec"])),
      resourceSharing: setSharing,
      podCliqueScalingGroups: list(
        fields(
          {
            name: text,
            cliqueNames: list(text),
            annotations: map(text),
            replicas: orElse(int32, 1),
            minAvailable: orElse(int32, 1),
            scaleConfig: autoScaling,
            resourceSharing: groupSharing,
            topologyConstraint,
          },
          ["cliqueNames", "name"],
        ),
      ),
    },
    ["cliques"],
  ),
  "x-kubernetes-validations": [
    {
      rule: "oldSelf.hasValue() || !has(self.topologyConstraint) || !has(self.topologyConstraint.packDomain)",
      message: "packDomain is no longer accepted: use pack.required",
      optionalOldSelf: true,
    },
    {
      rule: `oldSelf.hasValue() || self.cliques.all(x, ${withoutPackDomain})`,
      message: "packDomain is no longer accepted in a clique: use pack.required",
      optionalOldSelf: true,
    },
    {
      rule: `oldSelf.hasValue() || !has(self.podCliqueScalingGroups) || self.podCliqueScalingGroups.all(x, ${withoutPackDomain})`,
      message: "packDomain is no longer accepted in a scaling group: use pack.required",
      optionalOldSelf: true,
    },
  ],
};

const condition = fields(
  { type: text, status: text, reason: text, message: text, lastTransitionTime: time, observedGeneration: int64 },
  ["type", "status"],
);
const lastErrors = list(fields({ code: text, description: text, observedAt: time }, ["code", "description"]));
const termination = list(
  fields({
    replicaIndex: int32,
    startedAt: time,
    because: text,
    podCliques: list(fields({ name: text, uid: text })),
  }),
);
const loss = fields({ count: int64, replicas: int32, at: time, announced: int64 });

const setStatus = fields({
  observedGeneration: int64,
  conditions: list(condition),
  lastErrors,
  replicas: int32,
  updatedReplicas: orElse(int32, 0),
  availableReplicas: orElse(int32, 0),
  hpaPodSelector: text,
  podGangStatuses: list(
    fields({
      name: text,
      phase: { ...text, enum: ["Pending", "Starting", "Running", "Failed", "Succeeded"] as never },
      conditions: list(condition),
    }),
  ),
  currentGenerationHash: text,
  updateProgress: fields({
    updateStartedAt: time,
    updateEndedAt: time,
    updatedPodCliquesCount: int32,
    totalPodCliquesCount: int32,
    updatedPodCliqueScalingGroupsCount: int32,
    totalPodCliqueScalingGroupsCount: int32,
    currentlyUpdating: list(fields({ replicaIndex: int32, updateStartedAt: time, updateEndedAt: time })),
  }),
  fullLossPolicy: text,
  gangTerminations: termination,
});

const cliqueStatus = fields({
  observedGeneration: int64,
  lastErrors,
  replicas: int32,
  readyReplicas: orElse(int32, 0),
  scheduledReplicas: orElse(int32, 0),
  scheduleGatedReplicas: orElse(int32, 0),
  updatedReplicas: orElse(int32, 0),
  hpaPodSelector: text,
  conditions: list(condition),
  currentPodCliqueSetGenerationHash: text,
  currentPodTemplateHash: text,
  updateProgress: fields({
    updateStartedAt: time,
    updateEndedAt: time,
    podCliqueSetGenerationHash: text,
    podTemplateHash: text,
    readyPodsSelectedToUpdate: fields({ current: text, completed: list(text) }),
  }),
  everScheduled: flag,
  scheduleLoss: loss,
});

const groupStatus = fields({
  observedGeneration: int64,
  lastErrors,
  replicas: int32,
  scheduledReplicas: orElse(int32, 0),
  availableReplicas: orElse(int32, 0),
  updatedReplicas: orElse(int32, 0),
  selector: text,
  conditions: list(condition),
  currentPodCliqueSetGenerationHash: text,
  updateProgress: fields({
    updateStartedAt: time,
    updateEndedAt: time,
    podCliqueSetGenerationHash: text,
    updatedPodCliquesCount: int32,
    totalPodCliquesCount: int32,
    readyReplicaIndicesSelectedToUpdate: fields({ current: int32, completed: list(int32) }),
  }),
  everHealthy: flag,
  scheduleLoss: loss,
  gangTerminations: termination,
});

const packConstraint = fields({ packConstraint: fields({ required: text, preferred: text }) });
const podReference = fields({ namespace: text, name: text, uid: text }, ["name", "namespace"]);
const reference = fields({ namespace: text, name: text }, ["name", "namespace"]);

export type GangDefinition = NewObject<CustomResourceDefinition>;

interface Shape {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly short: string;
  readonly scope: "Namespaced" | "Cluster";
  readonly spec: Schema;
  readonly status: Schema;
  readonly columns: readonly Column[];
  readonly selector?: string;
}

function definition({ group, kind, plural, short, scope, spec, status, columns, selector }: Shape): GangDefinition {
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
          schema: { openAPIV3Schema: { type: "object", properties, required: ["spec"] } },
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
  scope: "Namespaced",
  selector: ".status.hpaPodSelector",
  spec: fields(
    {
      replicas: orElse(int32, 0),
      updateStrategy: fields({
        type: orElse({ ...text, enum: ["RollingRecreate", "OnDelete"] as never }, "RollingRecreate"),
      }),
      template,
    },
    ["template"],
  ),
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
  scope: "Namespaced",
  selector: ".status.selector",
  spec: fields({ replicas: orElse(int32, 1), minAvailable: orElse(int32, 1), cliqueNames: list(text) }, [
    "cliqueNames",
  ]),
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
  scope: "Namespaced",
  spec: fields(
    {
      podgroups: list(
        fields(
          { name: text, podReferences: list(podReference), minReplicas: int32, topologyConstraint: packConstraint },
          ["name", "podReferences", "minReplicas"],
        ),
      ),
      topologyConstraint: packConstraint,
      topologyConstraintGroupConfigs: list(
        fields({ name: text, podGroupNames: list(text), topologyConstraint: packConstraint }, [
          "name",
          "podGroupNames",
        ]),
      ),
      priorityClassName: text,
      reuseReservationRef: reference,
    },
    ["podgroups"],
  ),
  status: fields({
    phase: { ...text, enum: ["Pending", "Starting", "Running"] as never },
    conditions: list(condition),
    placementScore: { type: "number", format: "double" },
  }),
  columns: [{ name: "Phase", type: "string", jsonPath: ".status.phase" }, age],
});

export const clusterTopologyBindingDefinition = definition({
  group: groveGroup,
  kind: "ClusterTopologyBinding",
  plural: "clustertopologybindings",
  short: "ct",
  scope: "Cluster",
  spec: fields(
    {
      levels: {
        ...list(
          fields(
            {
              domain,
              key: {
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
        minItems: 1,
      },
      schedulerTopologyBindings: list(
        fields({ schedulerName: text, topologyReference: text }, ["schedulerName", "topologyReference"]),
      ),
    },
    ["levels"],
  ),
  status: fields({
    observedGeneration: int64,
    conditions: list(condition),
    schedulerTopologyStatuses: list(
      fields({
        schedulerName: text,
        topologyReference: text,
        inSync: flag,
        schedulerBackendTopologyObservedGeneration: int64,
        message: text,
      }),
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
