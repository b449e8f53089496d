/** A role of the bootstrap tables, and its subjects. */
export type RoleRow = {
  name: string;
  rules: RuleObject[];
  labels?: Record<string, string>;
  /** Label of the roles that this role aggregates. */
  gathers?: string;
  /**
   * Subjects of its binding: `Group x`, `User x`, or `ServiceAccount namespace/name`. Left out: there is no binding.
   */
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
const verbWords: Readonly<Record<string, readonly string[]>> = { read, write, all: [...read, ...write].sort() };

/**
 * A rule from one line: verbs, groups, resources and optional names, each separated by commas. `core` is the core
 * group; `read`, `write` and `all` are sets of verbs, and the line `events` is the right to create events. The tables
 * of roles are long; this keeps a role on a screen.
 *
 *   ruleOf("read apps deployments,replicasets")     ruleOf("update core configmaps cluster-info")
 */
export function ruleOf(line: string): RuleObject {
  if (line === "events") return ruleOf("create,patch,update core,events.k8s.io events");
  const [verbs = "", groups = "", resources = "", names] = line.split(" ");
  return {
    verbs: verbs.split(",").flatMap((verb) => verbWords[verb] ?? [verb]),
    apiGroups: groups.split(",").map((group) => (group === "core" ? "" : group)),
    resources: resources.split(","),
    ...(names === undefined ? {} : { resourceNames: names.split(",") }),
  };
}

export function pathRule(...nonResourceURLs: string[]): RuleObject {
  return { verbs: ["get"], nonResourceURLs };
}
