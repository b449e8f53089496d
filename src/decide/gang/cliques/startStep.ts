/**
 * Lets the pods of a gang start whose predecessors are ready: the simulated node reads the end of the wait from an
 * annotation.
 */
import { initContainerName } from "../../../model/gang/keys.ts";
import { startWaitAnnotation, startWaitDone, startWaitPending } from "../../../model/gang/settings.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { type AbsentAt, type GangDecision, GangDraft } from "../gangDraft.ts";
import { isLeaving } from "../gangLabels.ts";
import { isLost, type NodeOf } from "./lostPods.ts";
import { mayStart, readWaitArguments } from "./startOrder.ts";

export interface StartSnapshot {
  readonly absentAtRevision: AbsentAt;
  /** All pods of one gang. */
  readonly pods: readonly Pod[];
  readonly nodeOf: NodeOf;
}

export function decideStart({ absentAtRevision, pods, nodeOf }: StartSnapshot, nowMs: number): GangDecision {
  const draft = new GangDraft(absentAtRevision);
  const there = pods.filter((pod) => !isLost(pod, nodeOf, nowMs));
  for (const pod of pods) {
    if (pod.metadata.annotations?.[startWaitAnnotation] !== startWaitPending || isLeaving(pod)) continue;
    const wait = (pod.spec?.initContainers ?? []).find(({ name }) => name === initContainerName);
    const read = readWaitArguments(wait?.args ?? []);
    if ("error" in read || !mayStart(read.waits, there)) continue;
    draft.patch(
      pod,
      { metadata: { annotations: { [startWaitAnnotation]: startWaitDone } } },
      "the cliques that it starts after are ready",
    );
  }
  return draft.decision();
}
