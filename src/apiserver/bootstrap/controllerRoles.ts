import { type RoleRow, type RuleObject, ruleOf } from "./roleRow.ts";

/**
 * One role for each controller of the cluster itself, bound to the service account of that name in `kube-system`:
 * `kubectl auth can-i --as system:serviceaccount:kube-system:job-controller` then answers as on any cluster.
 */
export function controllerRoles(events: RuleObject): RoleRow[] {
  return Object.entries(table).map(([name, lines]) => ({
    name: `system:controller:${name}`,
    rules: [...lines.map(ruleOf), ...(quiet.has(name) ? [] : [events])],
    boundTo: [`ServiceAccount kube-system/${name}`],
  }));
}

/** Controllers that write no events. */
const quiet = new Set(["clusterrole-aggregation-controller", "namespace-controller"]);

const table: Record<string, string[]> = {
  "clusterrole-aggregation-controller": ["escalate,get,list,patch,update,watch rbac.authorization.k8s.io clusterroles"],
  "cronjob-controller": [
    "get,list,update,watch batch cronjobs",
    "create,delete,get,list,patch,update,watch batch jobs",
    "update batch cronjobs/finalizers,cronjobs/status",
    "delete,list core pods",
  ],
  "daemon-set-controller": [
    "read apps daemonsets",
    "update apps daemonsets/finalizers,daemonsets/status",
    "list,watch core nodes",
    "create,delete,list,patch,watch core pods",
    "create core pods/binding",
    "create,delete,get,list,patch,update,watch apps controllerrevisions",
  ],
  "deployment-controller": [
    "get,list,update,watch apps deployments",
    "update apps deployments/finalizers,deployments/status",
    "create,delete,get,list,patch,update,watch apps replicasets",
    "get,list,update,watch core pods",
  ],
  "disruption-controller": [
    "read apps deployments,replicasets,statefulsets",
    "read core pods,replicationcontrollers",
    "read policy poddisruptionbudgets",
    "update policy poddisruptionbudgets/status",
    "patch,update core pods/status",
    "get * */scale",
  ],
  "endpointslice-controller": [
    "read core nodes,pods,services",
    "update core services/finalizers",
    "create,delete,get,list,update,watch discovery.k8s.io endpointslices",
  ],
  "generic-garbage-collector": ["delete,get,list,patch,update,watch * *"],
  "job-controller": [
    "get,list,patch,update,watch batch jobs",
    "update batch jobs/finalizers,jobs/status",
    "create,delete,list,patch,watch core pods",
  ],
  "namespace-controller": [
    "delete,get,list,watch core namespaces",
    "update core namespaces/finalize,namespaces/status",
    "delete,deletecollection,get,list * *",
  ],
  "node-controller": [
    "delete,get,list,patch,update,watch core nodes",
    "patch,update core nodes/status",
    "patch,update core pods/status",
    "delete,get,list,watch core pods",
    "read coordination.k8s.io leases",
  ],
  "pod-garbage-collector": ["delete,list,watch core pods", "get,list core nodes", "patch core pods/status"],
  "replicaset-controller": [
    "get,list,update,watch apps replicasets",
    "update apps replicasets/finalizers,replicasets/status",
    "create,delete,list,patch,watch core pods",
  ],
  "resource-claim-controller": [
    "read core pods",
    "update core pods/finalizers",
    "create,delete,get,list,watch resource.k8s.io resourceclaims",
    "read resource.k8s.io resourceclaimtemplates",
    "patch,update resource.k8s.io resourceclaims,resourceclaims/status",
    "patch,update core pods/status",
  ],
  "resourcequota-controller": ["list,watch * *", "update core resourcequotas/status"],
  "root-ca-cert-publisher": ["create,update core configmaps"],
  "service-account-controller": ["create core serviceaccounts"],
  "statefulset-controller": [
    "list,watch core pods",
    "read apps statefulsets",
    "update apps statefulsets/finalizers,statefulsets/status",
    "create,delete,get,patch,update core pods",
    "create,delete,get,list,patch,update,watch apps controllerrevisions",
    "create,delete,get,list,update,watch core persistentvolumeclaims",
  ],
  "ttl-after-finished-controller": ["delete,get,list,watch batch jobs"],
};
