/** Which users may change the objects that the operator has created: the operator and the exempt ones, no others. */
import type { AdmissionLookup, AdmissionRequest, AdmissionVerdict } from "../objects/admissionHook.ts";
import { annotations, gangResources, labels, managedByValue } from "./keys.ts";
import type { GangSettings } from "./settings.ts";

/** The user that the operator writes as; in the embedded server its controllers write as `system:muster`. */
export const operatorUsers = ["system:serviceaccount:muster-system:muster", "system:muster"];

const clusterUsers = ["system:apiserver", "system:kube-", "system:node:", "system:serviceaccount:kube-system:"];

export function authorizeChild(
  { operation, object, oldObject, namespace, user }: AdmissionRequest,
  lookup: AdmissionLookup,
  kind: string,
  { authorizer }: GangSettings,
): AdmissionVerdict {
  // The labels before the write decide, so that removing them does not bypass the check.
  const judged = operation === "CREATE" ? object : oldObject;
  if (judged?.metadata.labels?.[labels.managedBy] !== managedByValue) return { allowed: true };
  const setName = judged.metadata.labels?.[labels.partOf];
  const set = setName === undefined ? undefined : lookup.get(gangResources.PodCliqueSet, namespace, setName);
  if (set === undefined) {
    return { allowed: true, warnings: [`${kind} ${judged.metadata.name} belongs to no PodCliqueSet that exists`] };
  }
  if (set.metadata.annotations?.[annotations.disableProtection] === "true") return { allowed: true };
  if (operation === "DELETE" && kind === "Pod") return { allowed: true };
  if (operatorUsers.includes(user.username) || authorizer.exemptUsers.includes(user.username)) return { allowed: true };
  // The cluster's own controllers: garbage collection, autoscaling, nodes.
  if (clusterUsers.some((prefix) => user.username.startsWith(prefix))) return { allowed: true };
  return {
    allowed: false,
    message: `${kind} ${judged.metadata.name} is managed by PodCliqueSet ${setName}: change that, or set its annotation ${annotations.disableProtection} to "true"`,
  };
}
