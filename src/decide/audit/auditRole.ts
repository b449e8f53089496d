/** The rights of an audit: to list the kinds that its checks read, and nothing else. */
import { readKind } from "../verify/readKinds.ts";
import type { AuditCheck } from "./auditCheck.ts";
import { auditedKinds } from "./auditChecks.ts";

/** A ClusterRole as YAML; kinds that a cluster does not serve do no harm in it. */
export function auditRole(checks: readonly AuditCheck[]): string {
  const byGroup = new Map<string, Set<string>>();
  for (const kind of auditedKinds(checks)) {
    const { group, plural } = readKind(kind);
    byGroup.set(group, (byGroup.get(group) ?? new Set()).add(plural));
  }
  const rules = [...byGroup].map(([group, plurals]) => {
    const resources = [...plurals].sort().join(", ");
    return `  - apiGroups: [${JSON.stringify(group)}]\n    resources: [${resources}]\n    verbs: [list]\n`;
  });
  return `# The rights of \`muster audit\`: it lists objects, and does nothing else.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: muster-audit
  labels:
    app.kubernetes.io/part-of: muster
rules:
${rules.join("")}`;
}
