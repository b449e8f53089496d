import type { CreateIntent } from "../../../model/intent.ts";
import type { PersistentVolumeClaim, Pod } from "../../../model/kubernetes.generated.ts";
import { ownerReference } from "../../../model/objects/ownership.ts";
import { isFinished, isLeaving } from "../../../model/objects/podFacts.ts";
import { builtin } from "../../../model/resources.generated.ts";
import type { Revision } from "../../../model/revision.ts";
import { claimsOfPod, isClaimOf, notCreatedFor } from "../../../model/storage/volumes.ts";

export interface EphemeralClaims {
  readonly intents: readonly CreateIntent<PersistentVolumeClaim>[];
  /** Claims that have the name and are not the pod's: the pod cannot start until they are gone. */
  readonly refusals: readonly string[];
}

/** The claims of a pod's generic ephemeral volumes that do not exist yet. They are deleted with the pod. */
export function ephemeralClaims(
  pod: Pod,
  claimNamed: (name: string) => PersistentVolumeClaim | undefined,
  absentAtRevision: Revision,
): EphemeralClaims {
  const intents: CreateIntent<PersistentVolumeClaim>[] = [];
  const refusals: string[] = [];
  if (isLeaving(pod) || isFinished(pod)) return { intents, refusals };
  const { namespace = "" } = pod.metadata;
  for (const { name, template } of claimsOfPod(pod)) {
    if (template === undefined) continue;
    const known = claimNamed(name);
    if (known !== undefined) {
      if (!isClaimOf(known, pod)) refusals.push(notCreatedFor(name, pod.metadata.name));
      continue;
    }
    const { labels, annotations } = template.metadata ?? {};
    intents.push({
      type: "create",
      target: { ...builtin.PersistentVolumeClaim, namespace, name },
      absentAtRevision,
      object: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: {
          name,
          namespace,
          ...(labels && { labels: { ...labels } }),
          ...(annotations && { annotations: { ...annotations } }),
          ownerReferences: [ownerReference(pod)],
        },
        spec: { ...template.spec },
      },
      why: `pod ${pod.metadata.name} has an ephemeral volume`,
    });
  }
  return { intents, refusals };
}
