/**
 * The kinds that a snapshot may hold. The selected checks determine which of them are read; a saved snapshot has all of
 * them, so that the scheduler can run on it.
 */
export type KindName = keyof typeof readKinds;

export interface ReadKind {
  readonly group: string;
  /** API versions, newest first; the next one is tried only when the cluster does not serve the one before. */
  readonly versions: readonly [string, ...string[]];
  readonly plural: string;
  /** Every cluster serves this kind; a 404 means that the server is not a Kubernetes API. */
  readonly builtin?: true;
}

export const readKinds = {
  pods: { group: "", versions: ["v1"], plural: "pods", builtin: true },
  nodes: { group: "", versions: ["v1"], plural: "nodes", builtin: true },
  jobs: { group: "batch", versions: ["v1"], plural: "jobs", builtin: true },
  replicasets: { group: "apps", versions: ["v1"], plural: "replicasets", builtin: true },
  deployments: { group: "apps", versions: ["v1"], plural: "deployments", builtin: true },
  statefulsets: { group: "apps", versions: ["v1"], plural: "statefulsets", builtin: true },
  daemonsets: { group: "apps", versions: ["v1"], plural: "daemonsets", builtin: true },
  resourceclaims: { group: "resource.k8s.io", versions: ["v1", "v1beta2"], plural: "resourceclaims" },
  resourceslices: { group: "resource.k8s.io", versions: ["v1", "v1beta2"], plural: "resourceslices" },
  deviceclasses: { group: "resource.k8s.io", versions: ["v1", "v1beta2"], plural: "deviceclasses" },
  namespaces: { group: "", versions: ["v1"], plural: "namespaces", builtin: true },
  persistentvolumeclaims: { group: "", versions: ["v1"], plural: "persistentvolumeclaims", builtin: true },
  persistentvolumes: { group: "", versions: ["v1"], plural: "persistentvolumes", builtin: true },
  storageclasses: { group: "storage.k8s.io", versions: ["v1"], plural: "storageclasses", builtin: true },
  csinodes: { group: "storage.k8s.io", versions: ["v1"], plural: "csinodes", builtin: true },
  poddisruptionbudgets: { group: "policy", versions: ["v1"], plural: "poddisruptionbudgets", builtin: true },
  priorityclasses: { group: "scheduling.k8s.io", versions: ["v1"], plural: "priorityclasses", builtin: true },
  schedulingshards: { group: "kai.scheduler", versions: ["v1"], plural: "schedulingshards" },
  podgroups: { group: "scheduling.run.ai", versions: ["v2alpha2"], plural: "podgroups" },
  plaingroups: { group: "scheduling.k8s.io", versions: ["v1alpha2"], plural: "podgroups" },
  bindrequests: { group: "scheduling.run.ai", versions: ["v1alpha2"], plural: "bindrequests" },
  queues: { group: "scheduling.run.ai", versions: ["v2"], plural: "queues" },
  topologies: { group: "kai.scheduler", versions: ["v1alpha1"], plural: "topologies" },
  podcliquesets: { group: "grove.io", versions: ["v1alpha1"], plural: "podcliquesets" },
  podcliquescalinggroups: { group: "grove.io", versions: ["v1alpha1"], plural: "podcliquescalinggroups" },
  podcliques: { group: "grove.io", versions: ["v1alpha1"], plural: "podcliques" },
  podgangs: { group: "scheduler.grove.io", versions: ["v1alpha1"], plural: "podgangs" },
  applications: { group: "argoproj.io", versions: ["v1alpha1"], plural: "applications" },
  gitrepositories: { group: "source.toolkit.fluxcd.io", versions: ["v1", "v1beta2"], plural: "gitrepositories" },
  ocirepositories: { group: "source.toolkit.fluxcd.io", versions: ["v1", "v1beta2"], plural: "ocirepositories" },
  kustomizations: { group: "kustomize.toolkit.fluxcd.io", versions: ["v1"], plural: "kustomizations" },
  helmreleases: { group: "helm.toolkit.fluxcd.io", versions: ["v2", "v2beta2"], plural: "helmreleases" },
  artifactgenerators: {
    group: "source.extensions.fluxcd.io",
    versions: ["v1beta1"],
    plural: "artifactgenerators",
  },
  events: { group: "", versions: ["v1"], plural: "events", builtin: true },
  services: { group: "", versions: ["v1"], plural: "services" },
  endpointslices: { group: "discovery.k8s.io", versions: ["v1"], plural: "endpointslices" },
  validatingwebhookconfigurations: {
    group: "admissionregistration.k8s.io",
    versions: ["v1"],
    plural: "validatingwebhookconfigurations",
  },
  mutatingwebhookconfigurations: {
    group: "admissionregistration.k8s.io",
    versions: ["v1"],
    plural: "mutatingwebhookconfigurations",
  },
  volcanopodgroups: { group: "scheduling.volcano.sh", versions: ["v1beta1"], plural: "podgroups" },
  coschedulingpodgroups: { group: "scheduling.x-k8s.io", versions: ["v1alpha1"], plural: "podgroups" },
  clusterroles: { group: "rbac.authorization.k8s.io", versions: ["v1"], plural: "clusterroles" },
  clusterrolebindings: { group: "rbac.authorization.k8s.io", versions: ["v1"], plural: "clusterrolebindings" },
} as const satisfies Record<string, ReadKind>;

export const allKinds = Object.keys(readKinds) as readonly KindName[];

/** Kinds that `muster audit` alone reads: a saved snapshot records that they may not be listed, and has the others. */
export const auditKinds: ReadonlySet<KindName> = new Set<KindName>([
  "services",
  "endpointslices",
  "validatingwebhookconfigurations",
  "mutatingwebhookconfigurations",
  "volcanopodgroups",
  "coschedulingpodgroups",
  "clusterroles",
  "clusterrolebindings",
]);

export function readKind(name: KindName): ReadKind {
  return readKinds[name];
}

export function isKindName(text: string): text is KindName {
  return Object.hasOwn(readKinds, text);
}
