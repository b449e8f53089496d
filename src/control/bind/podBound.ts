import { podsRef } from "../../decide/bind/reservation.ts";
import { expectedOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { BindCall } from "./bindClaims.ts";

/** The condition `PodBound`: the outcome of the bind. */
export interface PodBound {
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

const triesMax = 4;

/** Writes the condition if it differs. A failure does not affect the bind. */
export async function writePodBound(
  { kube, writer, cancel }: BindCall,
  regarded: Pod,
  podBound: PodBound,
  nowMs: number,
): Promise<void> {
  const ref = { ...podsRef, namespace: regarded.metadata.namespace ?? "", name: regarded.metadata.name };
  let pod: Pod = regarded;
  for (let tries = 0; tries < triesMax; tries++) {
    const before = pod.status?.conditions?.find((condition) => condition.type === "PodBound");
    if (before?.status === podBound.status && before.message === podBound.message) return;
    const lastTransitionTime = before?.status === podBound.status ? before.lastTransitionTime : formatTime(nowMs);
    const condition = {
      type: "PodBound",
      ...podBound,
      ...(lastTransitionTime === undefined ? {} : { lastTransitionTime }),
    };
    const { uid } = pod.metadata;
    const outcome = await writer.apply(
      {
        type: "patch",
        target: ref,
        subresource: "status",
        expected: expectedOf(pod),
        // Merged by type: the conditions that the node has written stay.
        strategy: "strategic",
        patch: { status: { conditions: [condition] } },
        why: podBound.message,
      },
      { cancel },
    );
    // The kubelet writes to the pod at the same time, so conflicts are frequent.
    if (outcome.ok || outcome.reason !== "Conflict") return;
    const fresh = await kube.get(ref, { cancel });
    if (!fresh.ok || fresh.value.metadata.uid !== uid) return;
    pod = fresh.value;
  }
}
