/**
 * Holds the roles of an installation against the audit log of an API server: what the account asked for and may not do, and what it may do and
 * never asked for.
 *
 *   kube-apiserver --audit-policy-file=policy.yaml --audit-log-path=audit.log ...   (level Metadata for system:serviceaccounts)
 *   npx tsx tools/auditRights.ts audit.log system:serviceaccount:muster-system:muster
 */
import { readFileSync } from "node:fs";
import { compareRights } from "../src/cli/install/compareRights.ts";
import { manifestsOf } from "../src/cli/install/installManifests.ts";
import { readValues } from "../src/cli/install/installValues.ts";

const [file = "audit.log", account = "system:serviceaccount:muster-system:muster"] = process.argv.slice(2);

interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource: string; readonly apiGroup?: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code: number };
}

const used = new Set<string>();
const forbidden = new Set<string>();
for (const line of readFileSync(file, "utf8").split("\n")) {
  if (line === "") continue;
  const { verb, user, objectRef, responseStatus } = JSON.parse(line) as AuditEvent;
  if (user.username !== account || objectRef === undefined) continue;
  const { resource, apiGroup, subresource } = objectRef;
  const kind = apiGroup === undefined ? resource : `${resource}.${apiGroup}`;
  const word = `${verb} ${subresource === undefined ? kind : `${kind}/${subresource}`}`;
  used.add(word);
  // Since 1.36 both are checked for one write.
  if (word.endsWith(" resourceclaims.resource.k8s.io/status")) {
    used.add(`${verb} resourceclaims.resource.k8s.io/binding`);
  }
  if (responseStatus?.code === 403) forbidden.add(word);
}
const compared = compareRights(manifestsOf(await readValues(undefined), "muster-system"), used);
process.stdout.write(
  `${JSON.stringify({ used: used.size, forbidden: [...forbidden].sort(), ...compared }, null, 2)}\n`,
);
process.exitCode = forbidden.size + compared.missing.length + compared.unused.length > 0 ? 1 : 0;
