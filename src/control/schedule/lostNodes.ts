import type { BindIntent } from "../../model/intent.ts";
import { isPermanent, type Refusal } from "../../model/outcome.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Author, InFlightWrites } from "../runtime/inFlightWrites.ts";
import type { Writer } from "../runtime/writer.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";

/**
 * A bind of unknown outcome is sent again, so that its outcome becomes known. But not to a node that was deleted
 * meanwhile: nothing would run the pod, or end it.
 *
 *   t0  bind pod p to node n  -->  the API server goes away: no answer
 *   t1                             node n is deleted
 *   t2  the watches are back       no node n, and p has no node: the bind may still be under way
 *
 * A write to the pod makes the bind conflict from then on, whenever it arrives. Returns the refusal of such a write.
 */
export async function withdrawFromLostNodes<V>(
  { nodes }: SchedulerCaches,
  { writer, inFlight, author }: { writer: Pick<Writer, "apply">; inFlight: InFlightWrites<V>; author: Author },
  cancel: Cancel,
): Promise<Refusal | undefined> {
  for (const intent of inFlight.inDoubt(author)) {
    if (intent.type !== "bind" || nodes.get(intent.node) !== undefined) continue;
    const fenced = await writer.apply(
      {
        type: "patch",
        target: intent.target,
        expected: intent.expected,
        patch: { metadata: { annotations: { [annotationKeys.withdrawn]: markOf(intent) } } },
        why: `node ${intent.node} was deleted before the bind was confirmed: a bind in flight must conflict`,
      },
      { cancel },
    );
    // The pod has changed or is gone: a read of it settles the bind.
    if (!fenced.ok && (fenced.reason === "Conflict" || fenced.reason === "NotFound")) continue;
    // A pod that may not be written must not hold up all others. It is decided again: its two binds expect the same
    // version of it, so one of them conflicts.
    if (fenced.ok || isPermanent(fenced)) inFlight.abandon(intent, author);
    else return fenced;
  }
  return undefined;
}

/** Another text for each bind, so that the pod gets another version. */
function markOf({ node, expected }: BindIntent): string {
  return `${node} ${expected.resourceVersion}`;
}
