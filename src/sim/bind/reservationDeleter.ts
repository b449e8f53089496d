/** Users and lost nodes delete reservation pods, and what counts as a bug of the binder afterwards. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { deviceOf, devicesOf, hasEnded, podsRef } from "../../decide/bind/reservation.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type BindRequest, isFinallyFailed } from "../../model/scheduling/bindRequest.ts";
import { gpuGroupsOfLabels, isReservationPod, nodeHeldBy, reservationNamespace } from "../../model/scheduling/keys.ts";
import type { ActorSpec } from "../actor.ts";
import type { Commit } from "../history.ts";
import type { Held } from "../invariants/general.ts";

const name = "meddler";

/** Deletes some reservations in every other seed, gracefully or with force. */
export function reservationDeleter(): ActorSpec {
  let round = 0;
  return {
    name,
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      const { kube } = ports;
      if (ports.choose("meddles", (dice) => dice.between(0, 1)) === 0) return;
      for (; round < 8; round++) {
        await ports.sleep(1_500);
        const what = ports.choose("meddling", (dice) => dice.between(0, 8));
        const found = what === 0 ? undefined : await kube.list(podsRef, { namespace: reservationNamespace });
        if (found?.ok !== true || found.value.items.length === 0) continue;
        const victim = found.value.items[what % found.value.items.length]?.metadata.name ?? "";
        const force = what % 2 === 0 ? { gracePeriodSeconds: 0 } : {};
        await kube.delete({ ...podsRef, namespace: reservationNamespace, name: victim }, force);
      }
    },
  };
}

/**
 * Groups whose reservation was deleted by a process that does not keep reservations (a user, the garbage collector of a
 * lost node), and which has not been recreated for their pods yet. Their device is unprotected meanwhile; the binder
 * has to recreate the reservation with this device, or evict the pods.
 */
export class GroupsWithoutReservation {
  private readonly store: ObjectStore;
  private readonly isKeeper: Held;
  private readonly everRobbed = new Set<string>();
  private readonly robbed = new Map<string, { readonly group: string; readonly node: string }>();

  constructor(store: ObjectStore, isKeeper: Held) {
    this.store = store;
    this.isKeeper = isKeeper;
  }

  /** Called for every commit, before the checks. */
  observe({ event, call }: Commit): void {
    if (event.current.resource !== "/pods") return;
    const pod = (event.previous ?? event.current).object();
    const node = nodeHeldBy(pod);
    if (!this.isKeeper(call.actor) && isReservationPod(pod) && node !== undefined) {
      for (const group of gpuGroupsOfLabels(pod.metadata.labels)) {
        this.robbed.set(`${node}/${group}`, { group, node });
        this.everRobbed.add(`${node}/${group}`);
      }
    }
    for (const [key, { group, node: on }] of this.robbed) if (this.isMended(group, on)) this.robbed.delete(key);
  }

  has(group: string, node: string): boolean {
    return this.robbed.has(`${node}/${group}`);
  }

  /** Whether the reservation of the group was deleted at some time: its successor may have any GPU of the node. */
  had(group: string, node: string): boolean {
    return this.everRobbed.has(`${node}/${group}`);
  }

  /**
   * No bind that relied on the old reservation is in flight, and the group is empty or all its pods have one device.
   */
  private isMended(group: string, node: string): boolean {
    for (const version of this.store.collection("scheduling.run.ai/bindrequests").all()) {
      const request = version.object() as BindRequest;
      if (request.spec?.selectedGPUGroups?.includes(group) !== true) continue;
      if (request.status?.phase !== "Succeeded" && !isFinallyFailed(request)) return false;
    }
    const all = [...this.store.collection("/pods").all()]
      .map((version) => version.object())
      .filter((pod) => gpuGroupsOfLabels(pod.metadata.labels).includes(group));
    const reservations = all.filter((pod) => isReservationPod(pod) && nodeHeldBy(pod) === node);
    // A pod without a node has the label of its group already.
    const users = all.filter((pod) => !isReservationPod(pod) && !hasEnded(pod) && (nodeHeldBy(pod) ?? node) === node);
    const isKept = (pod: Pod): boolean => pod.metadata.deletionTimestamp === undefined && deviceOf(pod) !== undefined;
    if (users.length === 0) return reservations.every(isKept);
    const [reservation, ...others] = reservations;
    if (reservation === undefined || others.length > 0) return false;
    if (reservation.metadata.deletionTimestamp !== undefined || hasEnded(reservation)) return false;
    const device = deviceOf(reservation);
    return (
      device !== undefined && users.every((pod) => nodeHeldBy(pod) === undefined || devicesOf(pod)[group] === device)
    );
  }
}
