/**
 * The built-in resources of this server, one row each. Everything that depends on a resource (routes, discovery,
 * OpenAPI, storage keys, selectors) reads this table.
 */
export interface ResourceType {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly subresources: readonly Subresource[];
  /**
   * Fields that a selector may name besides `metadata.name` and `metadata.namespace`, in the order of `selectFields`.
   */
  readonly selectableFields: readonly string[];
  readonly hasStatus: boolean;
  /** `apps/deployments`, `/pods`: versions of one resource (and the two event groups) share it. */
  readonly storageKey: string;
  /** The apiVersion in which objects are stored: `v1`, `autoscaling/v2`. */
  readonly storageVersion: string;
  /** Name of the schema: `io.k8s.api.core.v1.Pod`; empty for custom resources. */
  readonly definition: string;
  /** Answered by code and never stored: reviews and bindings. */
  readonly virtual: boolean;
}

export interface Subresource {
  readonly name: string;
  /** The kind of the body and of the answer, which may be of another group: `autoscaling/v1 Scale`. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly verbs: readonly string[];
  /** Empty where the body has no schema (exec, proxy and the like). */
  readonly definition: string;
}

/** The fields of a row besides its names; the rest follows from the kind. */
type Row = {
  plural: string;
  kind: string;
  singular?: string;
  short?: string[];
  categories?: string[];
  cluster?: true;
  verbs?: readonly string[];
  status?: true;
  also?: Subresource[];
  fields?: string[];
  virtual?: true;
  /** Set where another version or group is the stored one. */
  storageKey?: string;
  storageVersion?: string;
};

const allVerbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] as const;
const changeVerbs = ["get", "patch", "update"] as const;

/** All resources, in the order in which discovery shows groups; the preferred version of a group comes first. */
export function builtinResources(): readonly ResourceType[] {
  return table;
}

/** Schema name of a built-in kind, as the OpenAPI documents of Kubernetes spell it. */
export function definitionName(group: string, version: string, kind: string): string {
  if (group === "meta") return `io.k8s.apimachinery.pkg.apis.meta.${version}.${kind}`;
  if (group === "apiextensions.k8s.io") {
    return `io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.${version}.${kind}`;
  }
  const word = group === "" ? "core" : group.split(".", 1)[0];
  return `io.k8s.api.${word}.${version}.${kind}`;
}

function subresource(name: string, kind: string, verbs: readonly string[], where = "v1"): Subresource {
  const slash = where.indexOf("/");
  const group = slash < 0 ? "" : where.slice(0, slash);
  const version = where.slice(slash + 1);
  // Options kinds are query parameters: they have no body, hence no schema.
  const definition = kind.endsWith("Options") ? "" : definitionName(group, version, kind);
  return { name, group, version, kind, verbs, definition };
}

const scale = subresource("scale", "Scale", changeVerbs, "autoscaling/v1");

function rows(group: string, version: string, list: Row[]): ResourceType[] {
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return list.map((row) => {
    const subresources = [...(row.also ?? [])];
    if (row.status) subresources.push(subresource("status", row.kind, changeVerbs, apiVersion));
    subresources.sort((a, b) => (a.name < b.name ? -1 : 1));
    return {
      group,
      version,
      plural: row.plural,
      singular: row.singular ?? row.kind.toLowerCase(),
      kind: row.kind,
      listKind: `${row.kind}List`,
      shortNames: row.short ?? [],
      categories: row.categories ?? [],
      namespaced: row.cluster !== true,
      verbs: row.verbs ?? (row.virtual ? ["create"] : allVerbs),
      subresources,
      selectableFields: row.fields ?? [],
      hasStatus: row.status === true,
      storageKey: row.storageKey ?? `${group}/${row.plural}`,
      storageVersion: row.storageVersion ?? apiVersion,
      definition: definitionName(group, version, row.kind),
      virtual: row.virtual === true,
    };
  });
}

const streamVerbs = ["create", "get"] as const;
const proxyVerbs = ["create", "delete", "get", "patch", "update"] as const;

const podFields = [
  "spec.nodeName",
  "spec.restartPolicy",
  "spec.schedulerName",
  "spec.serviceAccountName",
  "spec.hostNetwork",
  "status.phase",
  "status.podIP",
  "status.podIPs",
  "status.nominatedNodeName",
];

const objectOfEvent = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
const coreEventFields = [
  ...objectOfEvent.map((field) => `involvedObject.${field}`),
  "reason",
  "reportingComponent",
  "source",
  "type",
];
const newEventFields = [
  ...objectOfEvent.map((field) => `regarding.${field}`),
  "reason",
  "reportingController",
  "source",
  "type",
];

const core = rows("", "v1", [
  { plural: "bindings", kind: "Binding", virtual: true },
  // Deprecated: no component health is reported, so the list is always empty.
  { plural: "componentstatuses", kind: "ComponentStatus", short: ["cs"], cluster: true, verbs: ["get", "list"] },
  { plural: "configmaps", kind: "ConfigMap", short: ["cm"] },
  { plural: "endpoints", kind: "Endpoints", short: ["ep"] },
  { plural: "events", kind: "Event", short: ["ev"], fields: coreEventFields },
  { plural: "limitranges", kind: "LimitRange", short: ["limits"] },
  {
    plural: "namespaces",
    kind: "Namespace",
    short: ["ns"],
    cluster: true,
    status: true,
    // Deleting all namespaces at once would delete everything; Kubernetes does not offer it either.
    verbs: allVerbs.filter((verb) => verb !== "deletecollection"),
    also: [subresource("finalize", "Namespace", ["update"])],
    fields: ["status.phase"],
  },
  {
    plural: "nodes",
    kind: "Node",
    short: ["no"],
    cluster: true,
    status: true,
    also: [subresource("proxy", "NodeProxyOptions", proxyVerbs)],
    fields: ["spec.unschedulable"],
  },
  { plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", short: ["pvc"], status: true },
  { plural: "persistentvolumes", kind: "PersistentVolume", short: ["pv"], cluster: true, status: true },
  {
    plural: "pods",
    kind: "Pod",
    short: ["po"],
    categories: ["all"],
    status: true,
    also: [
      subresource("attach", "PodAttachOptions", streamVerbs),
      subresource("binding", "Binding", ["create"]),
      subresource("ephemeralcontainers", "Pod", changeVerbs),
      subresource("eviction", "Eviction", ["create"], "policy/v1"),
      subresource("exec", "PodExecOptions", streamVerbs),
      subresource("log", "Pod", ["get"]),
      subresource("portforward", "PodPortForwardOptions", streamVerbs),
      subresource("proxy", "PodProxyOptions", proxyVerbs),
      subresource("resize", "Pod", changeVerbs),
    ],
    fields: podFields,
  },
  { plural: "podtemplates", kind: "PodTemplate" },
  {
    plural: "replicationcontrollers",
    kind: "ReplicationController",
    short: ["rc"],
    categories: ["all"],
    status: true,
    also: [scale],
    fields: ["status.replicas"],
  },
  { plural: "resourcequotas", kind: "ResourceQuota", short: ["quota"], status: true },
  { plural: "secrets", kind: "Secret", fields: ["type"] },
  {
    plural: "serviceaccounts",
    kind: "ServiceAccount",
    short: ["sa"],
    also: [subresource("token", "TokenRequest", ["create"], "authentication.k8s.io/v1")],
  },
  {
    plural: "services",
    kind: "Service",
    short: ["svc"],
    categories: ["all"],
    status: true,
    also: [subresource("proxy", "ServiceProxyOptions", proxyVerbs)],
    fields: ["spec.clusterIP", "spec.type"],
  },
]);

const apps = rows("apps", "v1", [
  { plural: "controllerrevisions", kind: "ControllerRevision" },
  { plural: "daemonsets", kind: "DaemonSet", short: ["ds"], categories: ["all"], status: true },
  { plural: "deployments", kind: "Deployment", short: ["deploy"], categories: ["all"], status: true, also: [scale] },
  {
    plural: "replicasets",
    kind: "ReplicaSet",
    short: ["rs"],
    categories: ["all"],
    status: true,
    also: [scale],
    fields: ["status.replicas"],
  },
  { plural: "statefulsets", kind: "StatefulSet", short: ["sts"], categories: ["all"], status: true, also: [scale] },
]);

const eventsV1 = rows("events.k8s.io", "v1", [
  {
    plural: "events",
    kind: "Event",
    short: ["ev"],
    fields: newEventFields,
    storageKey: "/events",
    storageVersion: "v1",
  },
]);

const authentication = rows("authentication.k8s.io", "v1", [
  { plural: "selfsubjectreviews", kind: "SelfSubjectReview", cluster: true, virtual: true },
  { plural: "tokenreviews", kind: "TokenReview", cluster: true, virtual: true },
]);

const authorization = rows("authorization.k8s.io", "v1", [
  { plural: "localsubjectaccessreviews", kind: "LocalSubjectAccessReview", virtual: true },
  { plural: "selfsubjectaccessreviews", kind: "SelfSubjectAccessReview", cluster: true, virtual: true },
  { plural: "selfsubjectrulesreviews", kind: "SelfSubjectRulesReview", cluster: true, virtual: true },
  { plural: "subjectaccessreviews", kind: "SubjectAccessReview", cluster: true, virtual: true },
]);

const autoscaler: Row = {
  plural: "horizontalpodautoscalers",
  kind: "HorizontalPodAutoscaler",
  short: ["hpa"],
  categories: ["all"],
  status: true,
};
const autoscaling = [
  ...rows("autoscaling", "v2", [autoscaler]),
  ...rows("autoscaling", "v1", [{ ...autoscaler, storageVersion: "autoscaling/v2" }]),
];

const batch = rows("batch", "v1", [
  { plural: "cronjobs", kind: "CronJob", short: ["cj"], categories: ["all"], status: true },
  { plural: "jobs", kind: "Job", categories: ["all"], status: true, fields: ["status.successful"] },
]);

const certificates = rows("certificates.k8s.io", "v1", [
  {
    plural: "certificatesigningrequests",
    kind: "CertificateSigningRequest",
    short: ["csr"],
    cluster: true,
    status: true,
    also: [subresource("approval", "CertificateSigningRequest", changeVerbs, "certificates.k8s.io/v1")],
    fields: ["spec.signerName"],
  },
]);

const networking = rows("networking.k8s.io", "v1", [
  { plural: "ingressclasses", kind: "IngressClass", cluster: true },
  { plural: "ingresses", kind: "Ingress", short: ["ing"], status: true },
  { plural: "ipaddresses", kind: "IPAddress", short: ["ip"], cluster: true },
  { plural: "networkpolicies", kind: "NetworkPolicy", short: ["netpol"] },
  { plural: "servicecidrs", kind: "ServiceCIDR", cluster: true, status: true },
]);

const policy = rows("policy", "v1", [
  { plural: "poddisruptionbudgets", kind: "PodDisruptionBudget", short: ["pdb"], status: true },
]);

const rbac = rows("rbac.authorization.k8s.io", "v1", [
  { plural: "clusterrolebindings", kind: "ClusterRoleBinding", cluster: true },
  { plural: "clusterroles", kind: "ClusterRole", cluster: true },
  { plural: "rolebindings", kind: "RoleBinding" },
  { plural: "roles", kind: "Role" },
]);

const storage = rows("storage.k8s.io", "v1", [
  { plural: "csidrivers", kind: "CSIDriver", cluster: true },
  { plural: "csinodes", kind: "CSINode", cluster: true },
  { plural: "csistoragecapacities", kind: "CSIStorageCapacity" },
  { plural: "storageclasses", kind: "StorageClass", short: ["sc"], cluster: true },
  { plural: "volumeattachments", kind: "VolumeAttachment", cluster: true, status: true },
  { plural: "volumeattributesclasses", kind: "VolumeAttributesClass", short: ["vac"], cluster: true },
]);

const extensions = ["api-extensions"];
const admissionregistration = rows("admissionregistration.k8s.io", "v1", [
  {
    plural: "mutatingadmissionpolicies",
    kind: "MutatingAdmissionPolicy",
    categories: extensions,
    cluster: true,
  },
  {
    plural: "mutatingadmissionpolicybindings",
    kind: "MutatingAdmissionPolicyBinding",
    categories: extensions,
    cluster: true,
  },
  {
    plural: "mutatingwebhookconfigurations",
    kind: "MutatingWebhookConfiguration",
    categories: extensions,
    cluster: true,
  },
  {
    plural: "validatingadmissionpolicies",
    kind: "ValidatingAdmissionPolicy",
    categories: extensions,
    cluster: true,
    status: true,
  },
  {
    plural: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
    categories: extensions,
    cluster: true,
  },
  {
    plural: "validatingwebhookconfigurations",
    kind: "ValidatingWebhookConfiguration",
    categories: extensions,
    cluster: true,
  },
]);

const apiextensions = rows("apiextensions.k8s.io", "v1", [
  {
    plural: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
    short: ["crd", "crds"],
    categories: extensions,
    cluster: true,
    status: true,
  },
]);

const scheduling = [
  ...rows("scheduling.k8s.io", "v1", [
    { plural: "priorityclasses", kind: "PriorityClass", short: ["pc"], cluster: true },
  ]),
  ...rows("scheduling.k8s.io", "v1alpha2", [
    { plural: "podgroups", kind: "PodGroup", status: true },
    { plural: "workloads", kind: "Workload" },
  ]),
];

const coordination = rows("coordination.k8s.io", "v1", [{ plural: "leases", kind: "Lease" }]);
const node = rows("node.k8s.io", "v1", [{ plural: "runtimeclasses", kind: "RuntimeClass", cluster: true }]);
const discovery = rows("discovery.k8s.io", "v1", [{ plural: "endpointslices", kind: "EndpointSlice" }]);

/** Rows of resource.k8s.io, for one version; whatever the version, objects are stored as v1. */
function deviceRows(version: string): ResourceType[] {
  const list: Row[] = [
    { plural: "deviceclasses", kind: "DeviceClass", cluster: true },
    { plural: "devicetaintrules", kind: "DeviceTaintRule", cluster: true, status: true },
    { plural: "resourceclaims", kind: "ResourceClaim", status: true },
    { plural: "resourceclaimtemplates", kind: "ResourceClaimTemplate" },
    {
      plural: "resourceslices",
      kind: "ResourceSlice",
      cluster: true,
      fields: ["spec.nodeName", "spec.driver", "spec.pool.name"],
    },
  ];
  const served = version === "v1beta1" ? list.filter(({ kind }) => kind !== "DeviceTaintRule") : list;
  return rows(
    "resource.k8s.io",
    version,
    served.map((row) => ({ ...row, storageVersion: "resource.k8s.io/v1" })),
  );
}
const resource = [...deviceRows("v1"), ...deviceRows("v1beta2"), ...deviceRows("v1beta1")];

const table: readonly ResourceType[] = [
  ...core,
  ...apps,
  ...eventsV1,
  ...authentication,
  ...authorization,
  ...autoscaling,
  ...batch,
  ...certificates,
  ...networking,
  ...policy,
  ...rbac,
  ...storage,
  ...admissionregistration,
  ...apiextensions,
  ...scheduling,
  ...coordination,
  ...node,
  ...discovery,
  ...resource,
];
