/**
 * The Event for a termination that is over. It is created before the status write that removes the record, under a name
 * that is derived from the record:
 *
 *   operator                          API
 *   create Event of the record   -->  one Event                     crash here: the next operator finds the Event
 *   write status without record  -->  Conflict, or no answer        decided again: the Event exists already
 *   write status without record  -->  the termination is over       it is not announced again
 */
import type { GangTermination } from "../../model/gang/types.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { GangDraft } from "./gangDraft.ts";
import { hashText } from "./sets/hashes.ts";

interface TerminationEvent {
  readonly regarding: KubeObject;
  readonly reason: string;
  readonly note: string;
}

/** The owner's status has the record. */
export function announceTermination(
  draft: GangDraft,
  owner: KubeObject,
  { replicaIndex, startedAt, podCliques }: GangTermination,
  { regarding, reason, note }: TerminationEvent,
): void {
  const { name, uid } = owner.metadata;
  const victims = podCliques.map((clique) => clique.uid).join(" ");
  const key = hashText(`${uid} ${reason} ${replicaIndex} ${startedAt} ${victims}`);
  draft.announce({
    name: `${name.slice(0, 200)}.${key}`,
    regarding,
    type: "Normal",
    reason,
    action: "Terminating",
    note,
  });
}
