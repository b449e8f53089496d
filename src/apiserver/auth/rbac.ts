import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { UserInfo } from "../strategy.ts";
import { type Access, type Authorizer, mastersGroup, rbacGroup, type Verdict } from "./access.ts";
import { allowsPath, allowsResource, type PolicyRule, readRules } from "./policyRule.ts";
import { serviceAccountUsername } from "./serviceAccountName.ts";

/**
 * Role-based access control. Roles and bindings are updated as they change; bindings are indexed by subject, and the
 * rules of a user are collected once and cached until any role or binding changes. A decision then reads a few short
 * lists.
 */
export class RbacAuthorizer implements Authorizer {
  readonly #roles = new Map<string, readonly PolicyRule[]>();
  readonly #bindings = new Map<string, Binding>();
  /** Bindings by `User name` or `Group name`; a service account is the user of its long name. */
  readonly #bySubject = new Map<string, Set<Binding>>();
  readonly #holdings = new Map<string, Holdings>();

  /**
   * Applies one change: the new object, or undefined when it is deleted. `resource` is group and plural; other
   * resources are ignored, so that all changes of a store can be passed in. Must be called with every committed change
   * before the next request is authorized.
   */
  apply(resource: string, namespace: string, name: string, object: KubeObject | undefined): void {
    const kind = kinds.get(resource);
    if (kind === undefined) return;
    this.#holdings.clear();
    const key = keyOf(namespace, name);
    if (kind === "role") {
      if (object === undefined) this.#roles.delete(key);
      else this.#roles.set(key, readRules(object["rules"]));
      return;
    }
    const old = this.#bindings.get(key);
    if (old !== undefined) this.#forget(key, old);
    if (object !== undefined) this.#remember(key, readBinding(namespace, name, object));
  }

  authorize(user: UserInfo, access: Access): Verdict {
    if (user.groups.includes(mastersGroup)) return allowedToMasters;
    const holdings = this.#holdingsOf(user);
    if (access.path !== undefined) {
      for (const grant of holdings.cluster) {
        for (const rule of grant.rules) if (allowsPath(rule, access)) return grant.verdict;
      }
      return deny(holdings.cluster, none);
    }
    const combined = access.subresource === "" ? access.resource : `${access.resource}/${access.subresource}`;
    for (const grant of holdings.cluster) {
      for (const rule of grant.rules) if (allowsResource(rule, access, combined)) return grant.verdict;
    }
    const local = access.namespace === "" ? none : (holdings.byNamespace.get(access.namespace) ?? none);
    for (const grant of local) {
      for (const rule of grant.rules) if (allowsResource(rule, access, combined)) return grant.verdict;
    }
    return deny(holdings.cluster, local);
  }

  /** Every rule that a user has in a namespace; an empty namespace means the cluster. */
  rulesFor(user: UserInfo, namespace: string): { rules: PolicyRule[]; problems: string[] } {
    const holdings = this.#holdingsOf(user);
    const local = namespace === "" ? none : (holdings.byNamespace.get(namespace) ?? none);
    const grants = [...holdings.cluster, ...local];
    const rules = grants.flatMap((grant) => grant.rules);
    if (user.groups.includes(mastersGroup)) rules.unshift(...fullAuthority);
    return { rules, problems: problemsOf(grants) };
  }

  /** The rules of the role that a binding in this namespace refers to; undefined when there is no such role. */
  #roleRules(roleKind: string, namespace: string, name: string): readonly PolicyRule[] | undefined {
    if (roleKind === "ClusterRole") return this.#roles.get(keyOf("", name));
    // A Role needs a namespace: without one the key would be that of a ClusterRole.
    return roleKind === "Role" && namespace !== "" ? this.#roles.get(keyOf(namespace, name)) : undefined;
  }

  #remember(key: string, binding: Binding): void {
    this.#bindings.set(key, binding);
    for (const subject of binding.subjects.keys()) {
      const known = this.#bySubject.get(subject);
      if (known === undefined) this.#bySubject.set(subject, new Set([binding]));
      else known.add(binding);
    }
  }

  #forget(key: string, binding: Binding): void {
    this.#bindings.delete(key);
    for (const subject of binding.subjects.keys()) {
      const known = this.#bySubject.get(subject);
      known?.delete(binding);
      if (known?.size === 0) this.#bySubject.delete(subject);
    }
  }

  #holdingsOf(user: UserInfo): Holdings {
    // A name with a zero byte could make two users share a key; sameUser compares them in full.
    const key = user.groups.length === 0 ? user.username : `${user.username}\0${user.groups.join("\0")}`;
    const known = this.#holdings.get(key);
    if (known !== undefined && sameUser(known, user)) return known;
    const made = this.#gather(user);
    if (this.#holdings.size >= holdingsMax) this.#holdings.clear();
    this.#holdings.set(key, made);
    return made;
  }

  #gather(user: UserInfo): Holdings {
    const holdings: Holdings = { username: user.username, groups: user.groups, cluster: [], byNamespace: new Map() };
    const taken = new Set<Binding>();
    const subjects = [`User ${user.username}`, ...user.groups.map((group) => `Group ${group}`)];
    for (const subject of subjects) {
      for (const binding of this.#bySubject.get(subject) ?? none) {
        if (taken.has(binding)) continue;
        taken.add(binding);
        const grant = this.#grantOf(binding, binding.subjects.get(subject) ?? subject);
        if (binding.namespace === "") {
          holdings.cluster.push(grant);
          continue;
        }
        const local = holdings.byNamespace.get(binding.namespace);
        if (local === undefined) holdings.byNamespace.set(binding.namespace, [grant]);
        else local.push(grant);
      }
    }
    return holdings;
  }

  #grantOf(binding: Binding, subjectText: string): Grant {
    const rules = this.#roleRules(binding.roleKind, binding.namespace, binding.roleName);
    const role = `${binding.roleKind} ${JSON.stringify(binding.roleName)}`;
    const own =
      binding.namespace === ""
        ? `ClusterRoleBinding ${JSON.stringify(binding.name)}`
        : `RoleBinding ${JSON.stringify(`${binding.name}/${binding.namespace}`)}`;
    const verdict = { allowed: true, reason: `RBAC: allowed by ${own} of ${role} to ${subjectText}` };
    if (rules !== undefined) return { rules, verdict, problem: "" };
    return { rules: [], verdict, problem: missingRole(binding.roleKind, binding.roleName) };
  }
}

/** The rules of `cluster-admin`. */
export const fullAuthority: readonly PolicyRule[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"], resourceNames: [], nonResourceURLs: [] },
  { verbs: ["*"], apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: ["*"] },
];

/** The kind is in singular here, as in the messages of upstream's role listers. */
export function missingRole(roleKind: string, name: string): string {
  return `${roleKind.toLowerCase()}.${rbacGroup} ${JSON.stringify(name)} not found`;
}

interface Binding {
  /** Empty for a ClusterRoleBinding. */
  readonly namespace: string;
  readonly name: string;
  readonly roleKind: string;
  readonly roleName: string;
  /** Key in the index, and how the subject is named in a reason. */
  readonly subjects: ReadonlyMap<string, string>;
}

interface Grant {
  readonly rules: readonly PolicyRule[];
  /** Created once: the verdict for every request that this grant allows. */
  readonly verdict: Verdict;
  /** Why the grant has no rules, if its role is missing. */
  readonly problem: string;
}

interface Holdings {
  readonly username: string;
  readonly groups: readonly string[];
  readonly cluster: Grant[];
  readonly byNamespace: Map<string, Grant[]>;
}

const none: readonly never[] = [];
const allowedToMasters: Verdict = { allowed: true, reason: "" };
const denied: Verdict = { allowed: false, reason: "" };
/** Limits the cache, which a user with the right to impersonate can fill. */
const holdingsMax = 4096;

const kinds = new Map<string, "role" | "binding">([
  [`${rbacGroup}/roles`, "role"],
  [`${rbacGroup}/clusterroles`, "role"],
  [`${rbacGroup}/rolebindings`, "binding"],
  [`${rbacGroup}/clusterrolebindings`, "binding"],
]);

/** The resources that access control is decided from. */
export const rbacResources: readonly string[] = [...kinds.keys()];

/** Cluster-scoped and namespaced objects share a map: a namespace is never empty, and no name has a slash. */
function keyOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

function readBinding(namespace: string, name: string, object: KubeObject): Binding {
  const roleRef = isObject(object["roleRef"]) ? object["roleRef"] : {};
  const subjects = new Map<string, string>();
  const listed = object["subjects"];
  for (const subject of Array.isArray(listed) ? listed : []) {
    if (!isObject(subject) || typeof subject["name"] !== "string") continue;
    const own = subject["name"];
    const kind = subject["kind"];
    if (kind === "ServiceAccount") {
      // A subject of a RoleBinding without a namespace is in the namespace of the binding.
      const home =
        typeof subject["namespace"] === "string" && subject["namespace"] !== "" ? subject["namespace"] : namespace;
      if (home === "") continue;
      addSubject(
        subjects,
        `User ${serviceAccountUsername(home, own)}`,
        `ServiceAccount ${JSON.stringify(`${own}/${home}`)}`,
      );
    } else if (kind === "User" || kind === "Group") {
      addSubject(subjects, `${kind} ${own}`, `${kind} ${JSON.stringify(own)}`);
    }
  }
  return {
    namespace,
    name,
    roleKind: String(roleRef["kind"] ?? ""),
    roleName: String(roleRef["name"] ?? ""),
    subjects,
  };
}

function addSubject(subjects: Map<string, string>, key: string, text: string): void {
  if (!subjects.has(key)) subjects.set(key, text);
}

function sameUser(known: Holdings, user: UserInfo): boolean {
  if (known.username !== user.username || known.groups.length !== user.groups.length) return false;
  for (let i = 0; i < known.groups.length; i++) if (known.groups[i] !== user.groups[i]) return false;
  return true;
}

function deny(cluster: readonly Grant[], local: readonly Grant[]): Verdict {
  const problems = problemsOf([...cluster, ...local]);
  return problems.length === 0 ? denied : { allowed: false, reason: `RBAC: ${joinProblems(problems)}` };
}

function problemsOf(grants: readonly Grant[]): string[] {
  return [...new Set(grants.map((grant) => grant.problem).filter((problem) => problem !== ""))];
}

/** Several errors are in brackets, a single one is not. */
export function joinProblems(problems: readonly string[]): string {
  return problems.length === 1 ? (problems[0] ?? "") : `[${problems.join(", ")}]`;
}
