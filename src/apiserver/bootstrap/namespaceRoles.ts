import { type RoleRow, ruleOf } from "./roleRow.ts";

/** A role of one namespace, and the name of its binding where it differs. */
export type NamespaceRoleRow = RoleRow & { namespace: string; bindingName?: string };

const lock = [
  ruleOf("create,get,list,update,watch coordination.k8s.io leases"),
  ruleOf("create,get,list,update,watch coordination.k8s.io leasecandidates"),
];

/** Default roles of every cluster in its system namespaces. */
export const namespaceRoleRows: readonly NamespaceRoleRow[] = [
  {
    namespace: "kube-system",
    name: "extension-apiserver-authentication-reader",
    bindingName: "system::extension-apiserver-authentication-reader",
    rules: [ruleOf("read core configmaps extension-apiserver-authentication")],
    boundTo: ["User system:kube-controller-manager", "User system:kube-scheduler"],
  },
  {
    namespace: "kube-system",
    name: "system::leader-locking-kube-controller-manager",
    rules: lock,
    boundTo: [
      "User system:kube-controller-manager",
      "ServiceAccount kube-system/kube-controller-manager",
      "ServiceAccount kube-system/leader-election-controller",
    ],
  },
  {
    namespace: "kube-system",
    name: "system::leader-locking-kube-scheduler",
    rules: lock,
    boundTo: ["User system:kube-scheduler", "ServiceAccount kube-system/kube-scheduler"],
  },
  {
    namespace: "kube-system",
    name: "system:controller:bootstrap-signer",
    rules: [ruleOf("read core secrets")],
    boundTo: ["ServiceAccount kube-system/bootstrap-signer"],
  },
  {
    namespace: "kube-system",
    name: "system:controller:cloud-provider",
    rules: [ruleOf("create,get,list,watch core configmaps")],
    boundTo: ["ServiceAccount kube-system/cloud-provider"],
  },
  {
    namespace: "kube-system",
    name: "system:controller:token-cleaner",
    rules: [ruleOf("delete,get,list,watch core secrets"), ruleOf("events")],
    boundTo: ["ServiceAccount kube-system/token-cleaner"],
  },
  {
    namespace: "kube-public",
    name: "system:controller:bootstrap-signer",
    rules: [ruleOf("read core configmaps"), ruleOf("update core configmaps cluster-info"), ruleOf("events")],
    boundTo: ["ServiceAccount kube-system/bootstrap-signer"],
  },
];
