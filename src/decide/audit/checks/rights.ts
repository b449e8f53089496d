import type { ClusterRole, ClusterRoleBinding, Pod, PolicyRule } from "../../../model/kubernetes.generated.ts";
import type { Evidence } from "../../verify/check.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

export const rightsChecks: readonly AuditCheck[] = [
  {
    name: "scheduler-rights",
    meaning: "the service account of a scheduler may do in the whole cluster what scheduling does not need",
    cause: "it was bound to cluster-admin or to a role with wildcards, to make an error go away",
    cure: "delete the ClusterRoleBinding, or replace the role by one with the resources and verbs that it needs",
    settleMs: settle.controller,
    needs: ["pods", "clusterroles", "clusterrolebindings"],
    find: wideRights,
  },
];

interface Grant {
  readonly binding: string;
  readonly role: ClusterRole;
}

/** Images of schedulers, by the end of the repository and the tag. */
const schedulerImage =
  /\/(?:kube-scheduler|vc-scheduler|koord-scheduler|hami|kai-scheduler\/(?:scheduler|binder)|yunikorn:scheduler-[^/]*)(?:[:@][^/]*)?$/;

/**
 * A scheduler is a service account of a pod with an image of one, or with a role that names the right to bind pods; a
 * wildcard alone makes none. An operator that creates roles needs the rights that it grants, but not all of them.
 */
function wideRights(snapshot: ClusterSnapshot): Evidence[] {
  const roles = new Map(
    objectsOf<ClusterRole>(snapshot, "clusterroles").map((role) => [role.metadata.name, role] as const),
  );
  const grants = new Map<string, Grant[]>();
  for (const { metadata, roleRef, subjects } of objectsOf<ClusterRoleBinding>(snapshot, "clusterrolebindings")) {
    const role = roleRef.kind === "ClusterRole" ? roles.get(roleRef.name) : undefined;
    if (role === undefined) continue;
    for (const { kind, namespace, name } of subjects ?? []) {
      if (kind !== "ServiceAccount") continue;
      const account = `serviceaccounts/${namespace ?? ""}/${name}`;
      grants.set(account, [...(grants.get(account) ?? []), { binding: metadata.name, role }]);
    }
  }
  const known = schedulerAccounts(snapshot);
  return [...grants].flatMap(([object, held]) => {
    const rules = held.flatMap(({ role }) => role.rules ?? []);
    const isKnown = known.has(object);
    if (!isKnown && !rules.some(bindsPods)) return [];
    const needsMore = !isKnown && rules.some(grantsRights);
    return held.flatMap(({ binding, role }) => {
      const wide = [...new Set((role.rules ?? []).flatMap(excess))].filter((each) => !needsMore || each === everything);
      if (wide.length === 0) return [];
      const problem = `may ${wide.join(", ")} by ClusterRoleBinding ${binding} to ClusterRole ${role.metadata.name}`;
      return [{ object, problem }];
    });
  });
}

function schedulerAccounts(snapshot: ClusterSnapshot): ReadonlySet<string> {
  const accounts = new Set<string>();
  for (const { metadata, spec } of objectsOf<Pod>(snapshot, "pods")) {
    if (!(spec?.containers ?? []).some(({ image }) => schedulerImage.test(image ?? ""))) continue;
    accounts.add(`serviceaccounts/${metadata.namespace ?? ""}/${spec?.serviceAccountName ?? "default"}`);
  }
  return accounts;
}

/** Creates roles by name. */
function grantsRights({ resources, verbs }: PolicyRule): boolean {
  return (
    (resources ?? []).some((name) => name === "clusterroles" || name === "roles") &&
    verbs.some((verb) => verb === "create" || verb === "patch")
  );
}

function bindsPods({ resources, verbs }: PolicyRule): boolean {
  const names = resources ?? [];
  return (names.includes("pods/binding") || names.includes("bindings")) && verbs.includes("create");
}

const everything = "do everything";
const readVerbs = ["get", "list", "watch", "*"];

/** What a rule grants that no scheduler needs. */
function excess({ apiGroups, resources, verbs, resourceNames }: PolicyRule): string[] {
  const [groups, names] = [apiGroups ?? [], resources ?? []];
  const has = (...wanted: string[]): boolean => verbs.some((verb) => wanted.includes(verb));
  if (names.includes("*") && groups.includes("*") && has("*")) return [everything];
  const found: string[] = [];
  const isCore = groups.includes("") || groups.includes("*");
  if (isCore && names.includes("*") && has("*", "create", "update", "patch", "delete"))
    found.push("write every core resource");
  // Rights to named Secrets are those to its own.
  const named = (resourceNames ?? []).length > 0;
  if (isCore && (names.includes("secrets") || names.includes("*")) && has(...readVerbs) && !named)
    found.push("read all Secrets");
  if (isCore && names.some((name) => name === "pods/exec" || name === "pods/attach") && has("*", "create"))
    found.push("run commands in pods");
  if (isCore && names.includes("nodes/proxy") && has("*", "get", "create")) found.push("reach every kubelet");
  const isRbac = groups.includes("rbac.authorization.k8s.io") || groups.includes("*");
  if (isRbac && names.some((name) => /^(?:cluster)?roles$/.test(name) || name === "*") && has("escalate", "bind", "*"))
    found.push("extend its own rights");
  if (has("impersonate") && isCore) found.push("impersonate users");
  return found;
}
