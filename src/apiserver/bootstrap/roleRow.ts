/** A role of the bootstrap tables, and who has it. */
export type RoleRow = {
  name: string;
  rules: RuleObject[];
  labels?: Record<string, string>;
  /** Label whose bearers this role gathers. */
  gathers?: string;
  /** Who has it everywhere: `Group x`, `User x`, or `ServiceAccount namespace/name`. */
  boundTo?: string[];
};

/** A rule of a role as it is written in an object. */
export type RuleObject = {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
};

const read = ["get", "list", "watch"];
const write = ["create", "delete", "deletecollection", "patch", "update"];

/**
 * A rule from one line: verbs, groups, resources, each parted by commas; `core` is the group without a name, `read` and
 * `write` stand for the usual verbs. The tables of roles are long; this keeps a role on a screen.
 *
 *   ruleOf("read apps deployments,replicasets")     ruleOf("create,patch core,events.k8s.io events")
 */
export function ruleOf(line: string): RuleObject {
  const [verbs = "", groups = "", resources = ""] = line.split(" ");
  return {
    verbs: verbs.split(",").flatMap((verb) => (verb === "read" ? read : verb === "write" ? write : [verb])),
    apiGroups: groups.split(",").map((group) => (group === "core" ? "" : group)),
    resources: resources.split(","),
  };
}

export function pathRule(...nonResourceURLs: string[]): RuleObject {
  return { verbs: ["get"], nonResourceURLs };
}
