import type { EventSource, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { kaiSchedulerName } from "../../model/scheduling/keys.ts";

/**
 * Events about a pod come from the scheduler that the pod names, as upstream's and KAI's do: programs filter by it.
 * Groups and queues are KAI's kinds.
 */
export function schedulerSource(regarding: KubeObject): EventSource {
  const schedulerName = regarding.kind === "Pod" ? (regarding as Pod).spec?.schedulerName : undefined;
  return { component: schedulerName || kaiSchedulerName };
}
