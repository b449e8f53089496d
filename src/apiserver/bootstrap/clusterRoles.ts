import { controllerRoles } from "./controllerRoles.ts";
import { pathRule, type RoleRow, type RuleObject, ruleOf } from "./roleRow.ts";

/** The default roles and bindings of every cluster, with upstream's names and rules. */

const aggregateTo = (role: string): string => `rbac.authorization.k8s.io/aggregate-to-${role}`;
const authenticated = "Group system:authenticated";
const unauthenticated = "Group system:unauthenticated";

const delegation = [
  ruleOf("create authentication.k8s.io tokenreviews"),
  ruleOf("create authorization.k8s.io subjectaccessreviews"),
];
const infoPaths = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/** User-facing roles: full access, or admin, edit and view of one namespace. */
const userRoles: RoleRow[] = [
  {
    name: "cluster-admin",
    rules: [ruleOf("* * *"), { verbs: ["*"], nonResourceURLs: ["*"] }],
    boundTo: ["Group system:masters"],
  },
  { name: "admin", rules: [], gathers: aggregateTo("admin") },
  { name: "edit", rules: [], gathers: aggregateTo("edit"), labels: { [aggregateTo("admin")]: "true" } },
  { name: "view", rules: [], gathers: aggregateTo("view"), labels: { [aggregateTo("edit")]: "true" } },
  {
    name: "system:aggregate-to-admin",
    labels: { [aggregateTo("admin")]: "true" },
    rules: [
      ruleOf("create authorization.k8s.io localsubjectaccessreviews"),
      ruleOf("all rbac.authorization.k8s.io rolebindings,roles"),
    ],
  },
  {
    name: "system:aggregate-to-edit",
    labels: { [aggregateTo("edit")]: "true" },
    rules: [
      // What `view` excludes because reading it gives power: secrets, and access to containers.
      ruleOf("read core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy"),
      ruleOf("impersonate core serviceaccounts"),
      ruleOf("write core pods,pods/attach,pods/exec,pods/portforward,pods/proxy"),
      ruleOf("create core pods/eviction"),
      ruleOf(
        "write core configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy",
      ),
      ruleOf("create core serviceaccounts/token"),
      ruleOf("write core,events.k8s.io events"),
      ruleOf(
        "write apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale",
      ),
      ruleOf("write autoscaling horizontalpodautoscalers"),
      ruleOf("write batch cronjobs,jobs"),
      ruleOf(
        "write extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale,replicationcontrollers/scale",
      ),
      ruleOf("write policy poddisruptionbudgets"),
      ruleOf("write networking.k8s.io ingresses,networkpolicies"),
      ruleOf("all coordination.k8s.io leases"),
      ruleOf("write resource.k8s.io resourceclaims,resourceclaimtemplates"),
    ],
  },
  {
    name: "system:aggregate-to-view",
    labels: { [aggregateTo("view")]: "true" },
    rules: [
      ruleOf(
        "read core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status",
      ),
      ruleOf(
        "read core bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status",
      ),
      // Bound in a namespace this reads that namespace only.
      ruleOf("read core namespaces"),
      ruleOf("read core,events.k8s.io events"),
      ruleOf("read discovery.k8s.io endpointslices"),
      ruleOf(
        "read apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status",
      ),
      ruleOf("read autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status"),
      ruleOf("read batch cronjobs,cronjobs/status,jobs,jobs/status"),
      ruleOf(
        "read extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,replicationcontrollers/scale",
      ),
      ruleOf("read policy poddisruptionbudgets,poddisruptionbudgets/status"),
      ruleOf("read networking.k8s.io ingresses,ingresses/status,networkpolicies"),
      ruleOf("read resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates"),
    ],
  },
];

/** For all users: discovery, and reviews of their own access. */
const generalRoles: RoleRow[] = [
  {
    name: "system:basic-user",
    rules: [
      ruleOf("create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews"),
      ruleOf("create authentication.k8s.io selfsubjectreviews"),
    ],
    boundTo: [authenticated],
  },
  {
    name: "system:discovery",
    rules: [
      pathRule(
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
      ),
    ],
    boundTo: [authenticated],
  },
  { name: "system:public-info-viewer", rules: [pathRule(...infoPaths)], boundTo: [authenticated, unauthenticated] },
  {
    name: "system:monitoring",
    rules: [
      pathRule(
        "/flagz",
        "/healthz",
        "/healthz/*",
        "/livez",
        "/livez/*",
        "/metrics",
        "/metrics/slis",
        "/readyz",
        "/readyz/*",
        "/statusz",
      ),
      ruleOf("get core nodes/metrics"),
    ],
    boundTo: ["Group system:monitoring"],
  },
  {
    name: "system:service-account-issuer-discovery",
    rules: [
      pathRule(
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/",
      ),
    ],
    boundTo: ["Group system:serviceaccounts"],
  },
  { name: "system:auth-delegator", rules: delegation },
];

/**
 * The rights of kubelets. The node authorizer limits them to objects of the node; the role is bound to no subject,
 * because that would give every node every Secret.
 */
export const nodeRules: readonly RuleObject[] = [
  "create authentication.k8s.io tokenreviews",
  "create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews",
  "read core services",
  "create,get,list,watch core nodes",
  "patch,update core nodes/status",
  "patch,update core nodes",
  "events",
  "read core pods",
  "create,delete core pods",
  "patch,update core pods/status",
  "create core pods/eviction",
  "read core configmaps,secrets",
  "get core persistentvolumeclaims,persistentvolumes",
  "get core endpoints",
  "create,get,list,watch certificates.k8s.io certificatesigningrequests",
  "create,delete,get,patch,update coordination.k8s.io leases",
  "get storage.k8s.io volumeattachments",
  "create core serviceaccounts/token",
  "get,patch,update core persistentvolumeclaims/status",
  "read storage.k8s.io csidrivers",
  "create,delete,get,patch,update storage.k8s.io csinodes",
  "read node.k8s.io runtimeclasses",
  "get resource.k8s.io resourceclaims",
  "deletecollection resource.k8s.io resourceslices",
  "get core serviceaccounts",
].map(ruleOf);

const approve = (signer: string): RoleRow => ({
  name: `system:certificates.k8s.io:${signer}-approver`,
  rules: [ruleOf(`approve certificates.k8s.io signers kubernetes.io/${signer}`)],
});

/** Components of a cluster that authenticate under their own name. */
const componentRoles: RoleRow[] = [
  { name: "system:node", rules: [...nodeRules], boundTo: [] },
  {
    name: "system:node-bootstrapper",
    rules: [ruleOf("create,get,list,watch certificates.k8s.io certificatesigningrequests")],
    boundTo: ["Group system:bootstrappers"],
  },
  {
    name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    rules: [ruleOf("create certificates.k8s.io certificatesigningrequests/nodeclient")],
    boundTo: ["Group system:bootstrappers"],
  },
  {
    name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
    rules: [ruleOf("create certificates.k8s.io certificatesigningrequests/selfnodeclient")],
    boundTo: ["Group system:nodes"],
  },
  approve("kube-apiserver-client"),
  approve("kube-apiserver-client-kubelet"),
  approve("kubelet-serving"),
  approve("legacy-unknown"),
  {
    name: "system:kubelet-api-admin",
    rules: [
      "read core nodes",
      "proxy core nodes",
      "* core nodes/log,nodes/metrics,nodes/proxy,nodes/stats",
      "* core nodes/configz,nodes/healthz,nodes/pods",
    ].map(ruleOf),
    boundTo: ["User kube-apiserver-kubelet-client"],
  },
  { name: "system:node-problem-detector", rules: ["get core nodes", "patch core nodes/status", "events"].map(ruleOf) },
  {
    name: "system:heapster",
    rules: ["read core events,namespaces,nodes,pods", "read extensions deployments"].map(ruleOf),
  },
  { name: "system:kube-aggregator", rules: [ruleOf("read core endpoints,services")] },
  {
    name: "system:kube-dns",
    rules: [ruleOf("list,watch core endpoints,services")],
    boundTo: ["ServiceAccount kube-system/kube-dns"],
  },
  {
    name: "system:persistent-volume-provisioner",
    rules: [
      "create,delete,get,list,watch core persistentvolumes",
      "get,list,update,watch core persistentvolumeclaims",
      "read storage.k8s.io storageclasses",
      "watch core events",
      "events",
    ].map(ruleOf),
  },
  {
    name: "system:node-proxier",
    rules: [
      "list,watch core endpoints,services",
      "read core nodes",
      "events",
      "list,watch networking.k8s.io servicecidrs",
      "list,watch discovery.k8s.io endpointslices",
    ].map(ruleOf),
    boundTo: ["User system:kube-proxy"],
  },
  {
    name: "system:kube-scheduler",
    rules: [
      "events",
      "create coordination.k8s.io leases",
      "get,list,update,watch coordination.k8s.io leases kube-scheduler",
      "all coordination.k8s.io leasecandidates",
      "read core nodes",
      "delete,get,list,watch core pods",
      "create core bindings,pods/binding",
      "patch,update core pods/status",
      "read core replicationcontrollers,services",
      "read apps,extensions replicasets",
      "read apps statefulsets",
      "read policy poddisruptionbudgets",
      "read core persistentvolumeclaims,persistentvolumes",
      "create authentication.k8s.io tokenreviews",
      "create authorization.k8s.io subjectaccessreviews",
      "read storage.k8s.io csinodes",
      "read storage.k8s.io volumeattachments",
      "read core namespaces",
      "read storage.k8s.io csidrivers",
      "read storage.k8s.io csistoragecapacities",
      "read resource.k8s.io deviceclasses",
      "get,list,patch,update,watch resource.k8s.io resourceclaims",
      "get,list,patch,update,watch resource.k8s.io resourceclaims/status",
      "update core pods/finalizers",
      "read resource.k8s.io resourceslices",
      "create,delete resource.k8s.io resourceclaims",
      "patch,update resource.k8s.io resourceclaims/binding",
      // Kinds that other clusters serve behind feature gates only.
      "read resource.k8s.io devicetaintrules",
      "read scheduling.k8s.io podgroups,priorityclasses,workloads",
    ].map(ruleOf),
    boundTo: ["User system:kube-scheduler"],
  },
  {
    name: "system:volume-scheduler",
    rules: [
      "get,list,patch,update,watch core persistentvolumes",
      "read storage.k8s.io storageclasses",
      "get,list,patch,update,watch core persistentvolumeclaims",
    ].map(ruleOf),
    boundTo: ["User system:kube-scheduler"],
  },
  {
    name: "system:kube-controller-manager",
    rules: [
      "events",
      "create coordination.k8s.io leases",
      "get,update coordination.k8s.io leases kube-controller-manager",
      "create core secrets,serviceaccounts",
      "delete core secrets",
      "get core configmaps,namespaces,secrets,serviceaccounts",
      "update core secrets,serviceaccounts",
      "create authentication.k8s.io tokenreviews",
      "create authorization.k8s.io subjectaccessreviews",
      "list,watch * *",
      "create core serviceaccounts/token",
    ].map(ruleOf),
    boundTo: ["User system:kube-controller-manager"],
  },
];

export const roleRows: readonly RoleRow[] = [...userRoles, ...generalRoles, ...componentRoles, ...controllerRoles];
