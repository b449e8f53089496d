/**
 * The permissions of each component, with reasons. The roles of the chart, of `muster install` and of deploy/ are
 * generated from these lists; test/run/rights.test.ts compares them with the requests that the components send.
 */
export interface Right {
  /** The reason, which the role shows as a comment. */
  readonly why: string;
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
  /** Verbs of this rule that are needed only rarely, each with the case that needs it. */
  readonly seldom?: Readonly<Record<string, string>>;
}

const read = ["list", "watch"];
const lookedUp = { list: "a second look before something is deleted or after an answer was lost" };
const groveKinds = ["podcliquesets", "podcliques", "podcliquescalinggroups"];

const events: Right = {
  why: "Events: what was decided, and why",
  apiGroups: [""],
  resources: ["events"],
  verbs: ["create", "patch"],
  seldom: { patch: "an Event that happens again" },
};

/** The pod grouper reads only the topmost owner of a pod: its fields decide how the pods are grouped. */
const owners: readonly Right[] = [
  {
    why: "owners of pods, which say how the pods are grouped",
    apiGroups: ["apps"],
    resources: ["deployments", "replicasets", "statefulsets", "daemonsets"],
    verbs: ["get"],
  },
  { why: "owners of pods", apiGroups: ["batch"], resources: ["jobs", "cronjobs"], verbs: ["get"] },
  { why: "owners of pods", apiGroups: [""], resources: ["replicationcontrollers"], verbs: ["get"] },
  { why: "owners of pods", apiGroups: ["grove.io"], resources: groveKinds, verbs: ["get"] },
  { why: "owners of pods", apiGroups: ["scheduler.grove.io"], resources: ["podgangs"], verbs: ["get"] },
  {
    why: "owners of pods: Kubeflow",
    apiGroups: ["kubeflow.org"],
    resources: [
      "pytorchjobs",
      "tfjobs",
      "mpijobs",
      "xgboostjobs",
      "jaxjobs",
      "paddlejobs",
      "scheduledworkflows",
      "notebooks",
    ],
    verbs: ["get"],
  },
  { why: "owners of pods: Kubeflow", apiGroups: ["trainer.kubeflow.org"], resources: ["trainjobs"], verbs: ["get"] },
  {
    why: "owners of pods: Ray",
    apiGroups: ["ray.io"],
    resources: ["rayclusters", "rayjobs", "rayservices"],
    verbs: ["get"],
  },
  { why: "owners of pods: JobSet", apiGroups: ["jobset.x-k8s.io"], resources: ["jobsets"], verbs: ["get"] },
  {
    why: "owners of pods: LeaderWorkerSet",
    apiGroups: ["leaderworkerset.x-k8s.io"],
    resources: ["leaderworkersets"],
    verbs: ["get"],
  },
  {
    why: "owners of pods: Argo",
    apiGroups: ["argoproj.io"],
    resources: ["workflows", "cronworkflows"],
    verbs: ["get"],
  },
  { why: "owners of pods: Tekton", apiGroups: ["tekton.dev"], resources: ["taskruns", "pipelineruns"], verbs: ["get"] },
  {
    why: "owners of pods: Knative",
    apiGroups: ["serving.knative.dev"],
    resources: ["services", "configurations", "revisions"],
    verbs: ["get"],
  },
  {
    why: "owners of pods: Spark",
    apiGroups: ["sparkoperator.k8s.io"],
    resources: ["sparkapplications"],
    verbs: ["get"],
  },
  { why: "owners of pods: Azure ML", apiGroups: ["amlarc.azureml.com"], resources: ["amljobs"], verbs: ["get"] },
  { why: "owners of pods: NVIDIA EGX", apiGroups: ["egx.nvidia.io"], resources: ["spotrequests"], verbs: ["get"] },
  {
    why: "owners of pods: Dynamo",
    apiGroups: ["nvidia.com"],
    resources: ["dynamographdeployments", "dynamocomponentdeployments"],
    verbs: ["get"],
  },
];

const scheduler: readonly Right[] = [
  {
    why: "what decisions are made from",
    apiGroups: [""],
    resources: ["nodes", "namespaces", "configmaps", "persistentvolumes", "persistentvolumeclaims"],
    verbs: read,
  },
  {
    why: "what decisions are made from",
    apiGroups: ["storage.k8s.io"],
    resources: ["storageclasses", "csinodes"],
    verbs: read,
  },
  { why: "which pods may be evicted", apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: read },
  { why: "priorities of pods", apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: read },
  {
    why: "devices that claims can have",
    apiGroups: ["resource.k8s.io"],
    resources: ["resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"],
    verbs: read,
  },
  {
    why: "taints of devices",
    apiGroups: ["resource.k8s.io"],
    resources: ["devicetaintrules"],
    verbs: read,
    seldom: {
      list: "only if the API server serves DeviceTaintRules",
      watch: "only if the API server serves DeviceTaintRules",
    },
  },
  {
    why: "gives devices back when a pod fits nowhere with them; Kubernetes 1.36 asks for resourceclaims/binding too",
    apiGroups: ["resource.k8s.io"],
    resources: ["resourceclaims/status", "resourceclaims/binding"],
    verbs: ["update"],
    seldom: { update: "a claim whose devices are where its pod cannot go" },
  },
  {
    why: "pods are marked with their group, and victims of preemption and reclaim are deleted",
    apiGroups: [""],
    resources: ["pods"],
    verbs: ["get", ...read, "patch", "delete"],
    seldom: { get: "a victim whose delete got no answer" },
  },
  { why: "binds a pod that needs one write", apiGroups: [""], resources: ["pods/binding"], verbs: ["create"] },
  { why: "why a pod waits", apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
  {
    why: "binds that need several writes are handed to the binder",
    apiGroups: ["scheduling.run.ai"],
    resources: ["bindrequests"],
    verbs: [...read, "create", "patch", "delete"],
    seldom: { patch: "a request that is withdrawn before its bind" },
  },
  {
    why: "groups of pods, with their status",
    apiGroups: ["scheduling.run.ai"],
    resources: ["podgroups"],
    verbs: ["get", ...read, "create", "patch"],
    seldom: { get: "a group that was made by another process" },
  },
  {
    why: "status",
    apiGroups: ["scheduling.run.ai"],
    resources: ["podgroups/status", "queues/status"],
    verbs: ["patch"],
  },
  {
    why: "queues; the two of the quick start are created when they are missing",
    apiGroups: ["scheduling.run.ai"],
    resources: ["queues"],
    verbs: ["get", ...read, "create"],
  },
  {
    why: "topologies, shards and KAI's settings",
    apiGroups: ["kai.scheduler"],
    resources: ["topologies", "schedulingshards", "configs"],
    verbs: read,
  },
  {
    why: "created when they are missing: the chart has them, so that they are only looked for",
    apiGroups: ["scheduling.k8s.io"],
    resources: ["priorityclasses"],
    verbs: ["get"],
  },
  events,
  ...owners,
];

const binder: readonly Right[] = [
  { why: "nodes that pods are bound to", apiGroups: [""], resources: ["nodes"], verbs: read },
  {
    why: "pods are marked with their GPU group",
    apiGroups: [""],
    resources: ["pods"],
    verbs: ["get", ...read, "patch"],
    seldom: { get: "a bind whose answer was lost" },
  },
  { why: "PodBound, and the claims of a pod", apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
  {
    why: "binds; pods whose GPU was given to others are evicted",
    apiGroups: [""],
    resources: ["pods/binding", "pods/eviction"],
    verbs: ["create"],
    seldom: { create: "the reservation of a running share was lost" },
  },
  {
    why: "which GPU the containers of a share see",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "update", "delete"],
    seldom: { update: "a bind that is retried", delete: "a bind that is abandoned" },
  },
  {
    why: "volumes that wait for the node of their first pod",
    apiGroups: [""],
    resources: ["persistentvolumeclaims"],
    verbs: ["get", "patch"],
  },
  {
    why: "the volume that was chosen for such a claim",
    apiGroups: [""],
    resources: ["persistentvolumes"],
    verbs: ["get", "patch"],
  },
  { why: "how volumes are bound", apiGroups: ["storage.k8s.io"], resources: ["storageclasses"], verbs: ["get"] },
  { why: "settings of the binder, at the start", apiGroups: ["kai.scheduler"], resources: ["configs"], verbs: ["get"] },
  {
    why: "what is to be bound",
    apiGroups: ["scheduling.run.ai"],
    resources: ["bindrequests"],
    verbs: ["get", ...read, "patch", "delete"],
    seldom: { get: "a write whose answer was lost", delete: "a request that is given up" },
  },
  { why: "how far it is", apiGroups: ["scheduling.run.ai"], resources: ["bindrequests/status"], verbs: ["update"] },
  {
    why: "claims of pods, and the claim of an extended resource",
    apiGroups: ["resource.k8s.io"],
    resources: ["resourceclaims"],
    verbs: ["get", "list", "create", "update", "delete"],
    seldom: {
      list: "an extended resource that is served by devices",
      create: "an extended resource that is served by devices",
      update: "a claim that was made without the finalizer that protects it",
      delete: "an extended resource that is served by devices",
    },
  },
  {
    why: "devices and users of a claim; Kubernetes 1.36 asks for resourceclaims/binding too",
    apiGroups: ["resource.k8s.io"],
    resources: ["resourceclaims/status", "resourceclaims/binding"],
    verbs: ["update"],
  },
  events,
];

const gang: readonly Right[] = [
  { why: "whether the node of a pod is gone", apiGroups: [""], resources: ["nodes"], verbs: read, seldom: lookedUp },
  {
    why: "sets, cliques and scaling groups; finalizers and annotations of the sets",
    apiGroups: ["grove.io"],
    resources: ["podcliquesets"],
    verbs: [...read, "patch"],
  },
  {
    why: "the parts of a set",
    apiGroups: ["grove.io"],
    resources: ["podcliques", "podcliquescalinggroups"],
    verbs: [...read, "create", "patch", "delete"],
  },
  {
    why: "status",
    apiGroups: ["grove.io"],
    resources: [...groveKinds, "clustertopologybindings"].map((kind) => `${kind}/status`),
    verbs: ["update"],
  },
  {
    why: "clusters with OwnerReferencesPermissionEnforcement ask for it: parts block the deletion of their owner",
    apiGroups: ["grove.io"],
    resources: groveKinds.map((kind) => `${kind}/finalizers`),
    verbs: ["update"],
    seldom: { update: "an API server with this admission plugin" },
  },
  { why: "names of topologies", apiGroups: ["grove.io"], resources: ["clustertopologybindings"], verbs: read },
  {
    why: "a gang, as its scheduler sees it",
    apiGroups: ["scheduler.grove.io"],
    resources: ["podgangs"],
    verbs: [...read, "create", "patch", "delete"],
  },
  { why: "status", apiGroups: ["scheduler.grove.io"], resources: ["podgangs/status"], verbs: ["update"] },
  {
    why: "the group of a gang",
    apiGroups: ["scheduling.run.ai"],
    resources: ["podgroups"],
    verbs: [...read, "create", "patch"],
    seldom: { patch: "a gang that changes its size" },
  },
  {
    why: "topologies of bindings",
    apiGroups: ["kai.scheduler"],
    resources: ["topologies"],
    verbs: [...read, "create", "delete"],
    seldom: { create: "a ClusterTopologyBinding", delete: "a ClusterTopologyBinding whose levels change" },
  },
  {
    why: "pods of gangs; `get` because their Role has it, and a role can be given only by an account that holds it",
    apiGroups: [""],
    resources: ["pods"],
    verbs: ["get", ...read, "create", "patch", "delete"],
    seldom: { get: "held so that it can be given" },
  },
  {
    why: "held so that it can be given: the Role of a gang's pods lets them see each other",
    apiGroups: [""],
    resources: ["pods/status"],
    verbs: ["get", ...read],
    seldom: {
      get: "held so that it can be given",
      list: "held so that it can be given",
      watch: "held so that it can be given",
    },
  },
  {
    why: "the headless Service of a gang",
    apiGroups: [""],
    resources: ["services"],
    verbs: [...read, "create", "patch", "delete"],
    seldom: { patch: "a set whose template changes" },
  },
  {
    why: "the ServiceAccount of a gang's pods, and its token for the container that waits for the others",
    apiGroups: [""],
    resources: ["serviceaccounts", "secrets"],
    verbs: [...read, "create"],
    seldom: lookedUp,
  },
  {
    why: "the Role of a gang's pods",
    apiGroups: ["rbac.authorization.k8s.io"],
    resources: ["roles", "rolebindings"],
    verbs: [...read, "create"],
    seldom: lookedUp,
  },
  {
    why: "autoscalers of cliques",
    apiGroups: ["autoscaling"],
    resources: ["horizontalpodautoscalers"],
    verbs: [...read, "create", "patch", "delete"],
    seldom: { patch: "a set whose bounds change" },
  },
  {
    why: "device claims that the pods of a gang share",
    apiGroups: ["resource.k8s.io"],
    resources: ["resourceclaims"],
    verbs: [...read, "create", "patch", "delete"],
    seldom: { patch: "a claim that lost its labels", delete: "a replica that goes" },
  },
  { why: "templates of claims", apiGroups: ["resource.k8s.io"], resources: ["resourceclaimtemplates"], verbs: read },
  events,
];

/** The rights of the components that `muster run` starts on a cluster of your own. */
export const componentRights = { scheduler, binder, gang } as const;

/** Permissions in the namespace of reservations, the only one in which the binder creates or deletes pods. */
export const reservationRights: readonly Right[] = [
  { why: "reservation pods", apiGroups: [""], resources: ["pods"], verbs: ["create", "delete"] },
  {
    why: "created when it is missing; the chart contains it, so it is only read",
    apiGroups: [""],
    resources: ["serviceaccounts"],
    verbs: ["get"],
  },
  {
    why: "the rights of reservation pods: the chart has them, so that they are only looked for",
    apiGroups: ["rbac.authorization.k8s.io"],
    resources: ["roles", "rolebindings"],
    resourceNames: ["kai-resource-reservation"],
    verbs: ["get"],
  },
];

/** Permissions of the agent in a reservation pod. */
export const reservationPodRights: readonly Right[] = [
  { why: "says on its own pod which GPU it was given", apiGroups: [""], resources: ["pods"], verbs: ["get", "patch"] },
];

/** In the namespace of the controllers. */
export const ownNamespaceRights: Readonly<Record<"lease" | "keys", readonly Right[]>> = {
  lease: [
    {
      why: "which process leads",
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      verbs: ["create"],
      seldom: { create: "the Lease of the installation was deleted" },
    },
    {
      why: "which process leads",
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: ["muster"],
      verbs: ["get", "update"],
    },
  ],
  keys: [
    {
      why: "keys of the webhooks",
      apiGroups: [""],
      resources: ["secrets"],
      verbs: ["create"],
      seldom: { create: "the Secret of the installation was deleted" },
    },
    {
      why: "keys of the webhooks",
      apiGroups: [""],
      resources: ["secrets"],
      resourceNames: ["muster-webhooks"],
      verbs: ["get", "update"],
      seldom: { update: "keys that run out within thirty days" },
    },
  ],
};

/** Permissions that every process needs at its start. */
export function startRights(definitions: readonly string[]): readonly Right[] {
  return [
    {
      why: "whether the definitions are there",
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      resourceNames: definitions,
      verbs: ["get"],
    },
    {
      why: "whether the namespace of reservations is there",
      apiGroups: [""],
      resources: ["namespaces"],
      resourceNames: ["kai-resource-reservation"],
      verbs: ["get"],
    },
  ];
}

/** Permission to write the CA bundle into the webhook configurations of the installation, and into no others. */
export function webhookRights(names: {
  readonly mutating: readonly string[];
  readonly validating: readonly string[];
}): readonly Right[] {
  const rights = (type: "mutating" | "validating"): Right => ({
    why: "the CA bundle in Muster's own webhook configurations",
    apiGroups: ["admissionregistration.k8s.io"],
    resources: [`${type}webhookconfigurations`],
    resourceNames: names[type],
    verbs: ["get", "update"],
  });
  return [rights("mutating"), rights("validating")];
}
