/** The schemas of what users write for gangs: the spec of a PodCliqueSet and what it shares with a PodClique. */
import {
  described,
  fields,
  flag,
  int32,
  list,
  listByName,
  map,
  oneOf,
  open,
  type Schema,
  text,
  withDefault,
} from "../objects/crdSchema.ts";

/** At least the list of containers; everything else is passed through to the pods. */
const podSpec: Schema = {
  description: "The spec of the pods. It is validated when a pod is created from it.",
  type: "object",
  required: ["containers"],
  "x-kubernetes-preserve-unknown-fields": true,
  properties: {
    containers: described(
      list({ ...open, required: ["name"], properties: { name: described(text, "The name of the container.") } }),
      "The containers of the pods.",
    ),
  },
};

export const domain: Schema = { ...text, minLength: 1, maxLength: 63, pattern: "^[a-z][a-z0-9-]*$" };
const topologyConstraint: Schema = {
  description: "How close to each other its pods are placed.",
  ...fields({
    topologyName: described(text, "The ClusterTopologyBinding that defines the domains."),
    pack: {
      description: "The domain that the pods are packed into.",
      ...fields({
        required: described(domain, "All pods are placed in one such domain, or none is placed."),
        preferred: described(domain, "The pods are placed in one such domain if they fit."),
      }),
      "x-kubernetes-validations": [
        { rule: "has(self.required) || has(self.preferred)", message: "pack needs required or preferred" },
      ],
    },
    packDomain: described(domain, "Older name of pack.required."),
  }),
  "x-kubernetes-validations": [
    { rule: "has(self.pack) || has(self.packDomain)", message: "a topology constraint needs pack" },
    {
      rule: "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
      message: "packDomain and pack.required exclude each other",
    },
  ],
};

const childCliqueNames = described(list(text), "The cliques that use the claim. Not set: all.");
const childScalingGroupNames = described(list(text), "The scaling groups that use the claim. Not set: all.");
const sharing = (filter?: Record<string, Schema>): Schema =>
  described(
    list(
      fields(
        {
          name: described(text, "A template of resourceClaimTemplates, or a ResourceClaimTemplate."),
          namespace: described(text, "The namespace of the ResourceClaimTemplate."),
          scope: described(
            oneOf("AllReplicas", "PerReplica"),
            "One claim for all replicas, or one claim for each replica.",
          ),
          ...(filter && { filter: described(fields(filter), "Limits the claim to some of the children.") }),
        },
        ["name", "scope"],
      ),
    ),
    "ResourceClaims that its pods share.",
  );

const autoScaling = fields(
  {
    minReplicas: described(int32, "The minimum. Defaults to replicas."),
    maxReplicas: described(int32, "The maximum."),
    metrics: described(
      { ...list(open), "x-kubernetes-list-type": "atomic" },
      "The metrics of the HorizontalPodAutoscaler.",
    ),
  },
  ["maxReplicas"],
);

export const cliqueSpec = fields(
  {
    roleName: described(text, "The role of the pods, unique in the PodCliqueSet."),
    podSpec,
    replicas: described(int32, "The number of pods. Defaults to 1 in a PodCliqueSet."),
    minAvailable: described(
      int32,
      "The number of pods that are scheduled together, and below which the gang is in breach. Defaults to replicas.",
    ),
    startsAfter: described(
      list(text),
      "The cliques whose minimum must be ready before these pods start; with CliqueStartupTypeExplicit.",
    ),
    autoScalingConfig: described(autoScaling, "Scales the clique with a HorizontalPodAutoscaler."),
  },
  ["podSpec", "replicas", "roleName"],
);

const cliqueTemplate = fields(
  {
    name: described(text, "The name of the clique, unique in the PodCliqueSet."),
    labels: described(map(text), "Labels of the PodClique and its pods."),
    annotations: described(map(text), "Annotations of the PodClique and its pods."),
    topologyConstraint,
    resourceSharing: sharing(),
    spec: described(cliqueSpec, "The spec of the PodClique."),
  },
  ["name", "spec"],
);

const groupTemplate = fields(
  {
    name: described(text, "The name of the scaling group, unique in the PodCliqueSet."),
    cliqueNames: described(list(text), "The cliques that scale together. A clique is in one group at most."),
    annotations: described(map(text), "Annotations of the PodCliqueScalingGroup."),
    replicas: described(withDefault(int32, 1), "The number of replicas; each has a PodClique for each clique."),
    minAvailable: described(
      withDefault(int32, 1),
      "The number of replicas that are part of the base gang. Each replica beyond is a gang of its own.",
    ),
    scaleConfig: described(autoScaling, "Scales the group with a HorizontalPodAutoscaler."),
    resourceSharing: sharing({ childCliqueNames }),
    topologyConstraint,
  },
  ["cliqueNames", "name"],
);

const withoutPackDomain = "(!has(x.topologyConstraint) || !has(x.topologyConstraint.packDomain))";
const template: Schema = {
  description: "One replica of the set.",
  ...fields(
    {
      cliques: described(listByName(cliqueTemplate), "The cliques: pods of one role each."),
      cliqueStartupType: described(
        withDefault(
          oneOf("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"),
          "CliqueStartupTypeAnyOrder",
        ),
        "Whether cliques start in any order, in the order of the list, or as startsAfter defines.",
      ),
      priorityClassName: described(text, "The PriorityClass of the gangs."),
      headlessServiceConfig: described(
        fields({
          publishNotReadyAddresses: described(
            withDefault(flag, true),
            "Whether DNS has the addresses of pods that are not ready.",
          ),
        }),
        "The headless Service of each replica.",
      ),
      topologyConstraint,
      terminationDelay: described(
        text,
        "How long a gang may be in breach of minAvailable before it is terminated and created again. Defaults to 4h.",
      ),
      resourceClaimTemplates: described(
        list(
          fields(
            {
              name: described(text, "The name that resourceSharing refers to."),
              templateSpec: described(open, "The spec of a ResourceClaimTemplate."),
            },
            ["name", "templateSpec"],
          ),
        ),
        "Templates of ResourceClaims that pods share.",
      ),
      resourceSharing: sharing({ childCliqueNames, childScalingGroupNames }),
      podCliqueScalingGroups: described(list(groupTemplate), "Cliques that scale together."),
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

export const setSpec = fields(
  {
    replicas: described(withDefault(int32, 0), "The number of replicas of the template."),
    updateStrategy: described(
      fields({
        type: described(
          withDefault(oneOf("RollingRecreate", "OnDelete"), "RollingRecreate"),
          "RollingRecreate replaces one replica after the other; OnDelete replaces only pods that are deleted.",
        ),
      }),
      "How a change of the template reaches existing pods.",
    ),
    template,
  },
  ["template"],
);
