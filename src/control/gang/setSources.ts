/**
 * Which changes of a set enqueue its cliques and groups. Most changes concern all replicas. The progress of an update
 * or a termination concerns one replica and enqueues only its objects; otherwise an update of many replicas would
 * enqueue all of them for each step.
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

export function setSources(caches: GangCaches, { ofSet, ofReplica }: KeysOfSet): Source[] {
  return [
    kindSource(
      caches.sets,
      forMapped((set) => ofSet(keyOfObject(set)).map(keyOfObject)),
      fieldChanged((set) => whatAllRead(set)),
    ),
    kindSource(caches.sets, (event) =>
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

/** Replicas whose update has begun or ended, and those whose termination was recorded or removed. */
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
