import { controllerRoles } from "./controllerRoles.ts";
import { pathRule, type RoleRow, ruleOf } from "./roleRow.ts";

/**
 * The roles and bindings that every cluster has. Names and powers are those that people and charts rely on; of the many
 * upstream roles only those are here whose work exists in this server or in what is run against it.
 */

const aggregateTo = (role: string): string => `rbac.authorization.k8s.io/aggregate-to-${role}`;
const known = "Group system:authenticated";
const strangers = "Group system:unauthenticated";

const events = ruleOf("create,patch,update core,events.k8s.io events");
const delegation = [
  ruleOf("create authentication.k8s.io tokenreviews"),
  ruleOf("create authorization.k8s.io subjectaccessreviews"),
];
const infoPaths = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/** People: everything, or one namespace to administer, to work in, or to look at. */
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
      ruleOf("read,write rbac.authorization.k8s.io roles,rolebindings"),
    ],
  },
  {
    name: "system:aggregate-to-edit",
    labels: { [aggregateTo("edit")]: "true" },
    rules: [
      // What a viewer may not even read, because reading it gives power: secrets, and ways into a container.
      ruleOf("read core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy"),
      ruleOf("impersonate core serviceaccounts"),
      ruleOf("write core pods,pods/attach,pods/exec,pods/portforward,pods/proxy"),
      ruleOf("create core pods/eviction"),
      ruleOf(
        "write core configmaps,events,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy",
      ),
      ruleOf("create core serviceaccounts/token"),
      ruleOf(
        "write apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale",
      ),
      ruleOf("write autoscaling horizontalpodautoscalers"),
      ruleOf("write batch cronjobs,jobs"),
      ruleOf("write policy poddisruptionbudgets"),
      ruleOf("write networking.k8s.io ingresses,networkpolicies"),
      ruleOf("write resource.k8s.io resourceclaims,resourceclaimtemplates"),
      ruleOf("read,write coordination.k8s.io leases"),
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
        "read core bindings,events,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status",
      ),
      // Bound in a namespace this reads that namespace alone.
      ruleOf("read core namespaces"),
      ruleOf("read discovery.k8s.io endpointslices"),
      ruleOf(
        "read apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status",
      ),
      ruleOf("read autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status"),
      ruleOf("read batch cronjobs,cronjobs/status,jobs,jobs/status"),
      ruleOf("read policy poddisruptionbudgets,poddisruptionbudgets/status"),
      ruleOf("read networking.k8s.io ingresses,ingresses/status,networkpolicies"),
      ruleOf("read resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates"),
    ],
  },
];

/** Everybody: finding out what the server is, and what oneself may do. */
const generalRoles: RoleRow[] = [
  {
    name: "system:basic-user",
    rules: [
      ruleOf("create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews"),
      ruleOf("create authentication.k8s.io selfsubjectreviews"),
    ],
    boundTo: [known],
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
    boundTo: [known],
  },
  { name: "system:public-info-viewer", rules: [pathRule(...infoPaths)], boundTo: [known, strangers] },
  {
    name: "system:monitoring",
    rules: [
      pathRule("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"),
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

/** Programs of a cluster that log in under their own name. */
const componentRoles: RoleRow[] = [
  {
    name: "system:node",
    rules: [
      ...delegation,
      ruleOf("create authorization.k8s.io localsubjectaccessreviews"),
      ruleOf("read core services"),
      ruleOf("create,get,list,watch,patch,update,delete core nodes"),
      ruleOf("patch,update core nodes/status"),
      events,
      ruleOf("create,delete,get,list,watch core pods"),
      ruleOf("patch,update core pods/status"),
      ruleOf("create core pods/eviction"),
      ruleOf("read core configmaps,secrets"),
      ruleOf("get core persistentvolumeclaims,persistentvolumes"),
      ruleOf("get core endpoints"),
      ruleOf("create core serviceaccounts/token"),
      ruleOf("create,delete,get,patch,update coordination.k8s.io leases"),
      ruleOf("get storage.k8s.io volumeattachments"),
      ruleOf("create,delete,get,patch,update storage.k8s.io csinodes"),
      ruleOf("read storage.k8s.io csidrivers"),
      ruleOf("read node.k8s.io runtimeclasses"),
      ruleOf("get resource.k8s.io resourceclaims"),
      ruleOf("deletecollection,create,delete,get,list,patch,update,watch resource.k8s.io resourceslices"),
    ],
    // Upstream an authorizer of its own narrows each node to its own objects and this binding is empty. Ours has none.
    boundTo: ["Group system:nodes"],
  },
  {
    name: "system:node-proxier",
    rules: [
      ruleOf("list,watch core services,endpoints,nodes"),
      ruleOf("get core nodes"),
      events,
      ruleOf("list,watch discovery.k8s.io endpointslices"),
    ],
    boundTo: ["User system:kube-proxy"],
  },
  {
    name: "system:kube-scheduler",
    rules: [
      events,
      ruleOf("create,get,list,update,watch coordination.k8s.io leases"),
      ruleOf("read core namespaces,nodes,persistentvolumeclaims,persistentvolumes,replicationcontrollers,services"),
      ruleOf("delete,get,list,watch core pods"),
      ruleOf("create core bindings,pods/binding"),
      ruleOf("patch,update core pods/status"),
      ruleOf("update core pods/finalizers"),
      ruleOf("read apps replicasets,statefulsets"),
      ruleOf("read policy poddisruptionbudgets"),
      ruleOf("read storage.k8s.io csidrivers,csinodes,csistoragecapacities,volumeattachments"),
      ruleOf("read resource.k8s.io deviceclasses,devicetaintrules,resourceslices"),
      ruleOf("get,list,watch,patch,update resource.k8s.io resourceclaims"),
      ruleOf("get,patch,update resource.k8s.io resourceclaims/status"),
      ruleOf("read scheduling.k8s.io podgroups,priorityclasses,workloads"),
      ...delegation,
    ],
    boundTo: ["User system:kube-scheduler"],
  },
  {
    name: "system:volume-scheduler",
    rules: [
      ruleOf("get,list,patch,update,watch core persistentvolumeclaims,persistentvolumes"),
      ruleOf("read storage.k8s.io storageclasses"),
    ],
    boundTo: ["User system:kube-scheduler"],
  },
  {
    name: "system:kube-controller-manager",
    rules: [
      events,
      ruleOf("create,get,list,update,watch coordination.k8s.io leases"),
      ruleOf("create core secrets,serviceaccounts"),
      ruleOf("delete core secrets"),
      ruleOf("get core configmaps,namespaces,secrets,serviceaccounts"),
      ruleOf("update core secrets,serviceaccounts"),
      ruleOf("create core serviceaccounts/token"),
      ...delegation,
      ruleOf("list,watch * *"),
    ],
    boundTo: ["User system:kube-controller-manager"],
  },
];

export const roleRows: readonly RoleRow[] = [
  ...userRoles,
  ...generalRoles,
  ...componentRoles,
  ...controllerRoles(events),
];
