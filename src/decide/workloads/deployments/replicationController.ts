/** A ReplicationController is a ReplicaSet whose selector is a plain map of labels. */

import type { ReplicaSet, ReplicationController } from "../../../model/kubernetes.generated.ts";
import type { Decision } from "../../../model/objects/draft.ts";
import { decideReplicaSet, type ReplicaSetSnapshot } from "./replicaSet.ts";

export interface ReplicationControllerSnapshot extends Omit<ReplicaSetSnapshot, "replicaSet"> {
  readonly controller: ReplicationController;
}

export function decideReplicationController(
  { controller, ...snapshot }: ReplicationControllerSnapshot,
  nowMs: number,
): Decision {
  const { selector, template, ...spec } = controller.spec ?? {};
  // A controller without a template was refused when it was written.
  if (template === undefined) return decideReplicaSet({ ...snapshot, replicaSet: asSet(controller) }, nowMs);
  const replicaSet: ReplicaSet = {
    ...asSet(controller),
    spec: { ...spec, template, selector: { matchLabels: selector ?? {} } },
  };
  const decision = decideReplicaSet({ ...snapshot, replicaSet }, nowMs);
  // Writes target the ReplicationController, not the converted ReplicaSet.
  const intents = decision.intents.map((intent) =>
    intent.type === "status" ? { ...intent, object: { ...intent.object, spec: controller.spec } } : intent,
  );
  return { ...decision, intents };
}

/** With its own kind, for owner references and targets of writes. */
function asSet({ spec: _spec, ...rest }: ReplicationController): ReplicaSet {
  return rest as ReplicaSet;
}
