import type { GroupView } from "../../decide/bind/judgeGroup.ts";
import { holdersOf, podsRef } from "../../decide/bind/reservation.ts";
import { keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { isAtLeast, type Revision } from "../../model/revision.ts";
import { bindRequestRef } from "../../model/scheduling/bindRequest.ts";
import { isReservationPod, labelKeys, nodeHeldBy } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeReads, ListOptions } from "../../ports/kubeApi.ts";
import { groupsOf, nodesRef } from "./binderCaches.ts";

/**
 * A group as the API has it now, everything at one revision: its pods, its BindRequests, and the pods that hold its
 * reservation. Deletes and evictions are decided only on such a read.
 */
export async function readGroup(
  kube: KubeReads,
  about: { readonly group: string; readonly node: string },
  { atLeast, cancel }: { readonly atLeast: Revision; readonly cancel: Cancel },
): Promise<Outcome<GroupView>> {
  const { group, node } = about;
  const labelled = await kube.list(podsRef, { labelSelector: `${labelKeys.gpuGroup}=${group}`, cancel });
  if (!labelled.ok) return labelled;
  const { revision } = labelled.value;
  if (!isAtLeast(revision, atLeast)) {
    return refused("Unavailable", `the list is of revision ${revision}, and at least ${atLeast} is needed`);
  }
  const then = { resourceVersion: revision, resourceVersionMatch: "Exact", cancel } as const;
  const list = async <T extends KubeObject>(
    kind: Resource<T>,
    options: ListOptions,
  ): Promise<Outcome<readonly T[]>> => {
    const outcome = await kube.list(kind, { ...options, ...then });
    return outcome.ok ? succeeded(outcome.value.items) : outcome;
  };
  const sharing = await list(podsRef, { labelSelector: `${labelKeys.gpuGroupPrefix}${group}` });
  if (!sharing.ok) return sharing;
  // All of them: a BindRequest need not carry its groups as labels.
  const requests = await list(bindRequestRef, {});
  if (!requests.ok) return requests;
  const nodes = await list(nodesRef, { fieldSelector: `metadata.name=${node}` });
  if (!nodes.ok) return nodes;
  const pods = new Map([...labelled.value.items, ...sharing.value].map((pod) => [pod.metadata.uid, pod]));
  const reservations = [...pods.values()].filter((pod) => isReservationPod(pod) && nodeHeldBy(pod) === node);
  const holders = new Map<string, string>(reservations.flatMap((pod) => [...holdersOf(pod)]));
  const found: Pod[] = [];
  for (const [uid, key] of [...holders].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [namespace = "", name = ""] = key.split("/");
    const pod = pods.get(uid);
    if (pod !== undefined) {
      found.push(pod);
      continue;
    }
    const outcome = await list(podsRef, { namespace, fieldSelector: `metadata.name=${name}` });
    if (!outcome.ok) return outcome;
    found.push(...outcome.value.filter((each) => each.metadata.uid === uid && keyOf(namespace, name) === key));
  }
  return succeeded({
    group,
    node,
    reservations,
    users: [...pods.values()].filter((pod) => !isReservationPod(pod)),
    requests: requests.value.filter((request) => groupsOf(request).includes(group)),
    holders: found,
    canPin: nodes.value[0]?.metadata.labels?.[labelKeys.pinsDevices] === "true",
  });
}
