/**
 * What of a set wakes its cliques and groups. Most of it concerns all of them; whose turn of an update it is, and whose end is on record,
 * concerns one replica: an update of many replicas would otherwise wake all of them for each.
 */
import type { PodCliqueSet } from "../../model/gang/types.ts";
import { keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { forMapped, kindSource, type Source } from "../runtime/sources.ts";
import { type GangCaches, replicaKey } from "./gangCaches.ts";

export interface KeysOfSet {
  ofSet(setKey: string): readonly KubeObject[];
  ofReplica(replicaKey: string): readonly KubeObject[];
}

export function setSources(world: GangCaches, { ofSet, ofReplica }: KeysOfSet): Source[] {
  return [
    kindSource(
      world.sets,
      forMapped((set) => ofSet(keyOfObject(set)).map(keyOfObject)),
      fieldChanged((set) => whatAllRead(set as unknown as PodCliqueSet)),
    ),
    kindSource(world.sets, (event) =>
      turnedReplicas(event).flatMap((replica) => ofReplica(replicaKey(event.key, replica)).map(keyOfObject)),
    ),
  ];
}

function whatAllRead({ metadata, spec, status }: PodCliqueSet): unknown {
  return [
    metadata.generation,
    metadata.deletionTimestamp !== undefined,
    spec.updateStrategy?.type ?? null,
    status?.currentGenerationHash ?? null,
    status?.updateProgress?.updateEndedAt ?? null,
  ];
}

/** Replicas whose turn has begun or is over, and those whose end was put on record or taken off it. */
function turnedReplicas(event: CacheEvent<PodCliqueSet & KubeObject>): number[] {
  if (event.type !== "updated") return [];
  const [before, after] = [whatReplicasRead(event.before), whatReplicasRead(event.object)];
  const turned = new Set<number>();
  for (const [text, replica] of before) if (!after.has(text)) turned.add(replica);
  for (const [text, replica] of after) if (!before.has(text)) turned.add(replica);
  return [...turned].sort((a, b) => a - b);
}

function whatReplicasRead({ status }: PodCliqueSet): Map<string, number> {
  const updating = status?.updateProgress?.currentlyUpdating ?? [];
  const ending = status?.gangTerminations ?? [];
  return new Map([
    ...updating.map(
      ({ replicaIndex, updateStartedAt }) => [`updates ${replicaIndex} ${updateStartedAt}`, replicaIndex] as const,
    ),
    ...ending.map(({ replicaIndex, startedAt }) => [`ends ${replicaIndex} ${startedAt}`, replicaIndex] as const),
  ]);
}
