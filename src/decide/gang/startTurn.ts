/** Lets the pods of a gang start whose predecessors are ready: the simulated node reads the end of the wait from an annotation. */
import { initContainerName } from "../../model/gang/keys.ts";
import { startWaitAnnotation, waitIsOver, waitsForEver } from "../../model/gang/settings.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type AbsentAt, type GangDecision, GangDraft } from "./gangDraft.ts";
import { isLeaving } from "./gangLabels.ts";
import { mayStart, readWaitArguments } from "./startOrder.ts";

export interface StartPicture {
  readonly absentAt: AbsentAt;
  /** All pods of one gang. */
  readonly pods: readonly Pod[];
}

export function decideStart({ absentAt, pods }: StartPicture): GangDecision {
  const draft = new GangDraft(absentAt);
  for (const pod of pods) {
    if (pod.metadata.annotations?.[startWaitAnnotation] !== waitsForEver || isLeaving(pod)) continue;
    const wait = (pod.spec?.initContainers ?? []).find(({ name }) => name === initContainerName);
    const read = readWaitArguments(wait?.args ?? []);
    if ("error" in read || !mayStart(read.waits, pods)) continue;
    draft.patch(
      pod,
      { metadata: { annotations: { [startWaitAnnotation]: waitIsOver } } },
      "what it starts after is ready",
    );
  }
  return draft.decision();
}
