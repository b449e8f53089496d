/** Invariants about reservations. */

import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { deviceOf, devicesOf, hasEnded } from "../../decide/bind/reservation.ts";
import { configMapNames, variables } from "../../decide/bind/sharedGpuConfig.ts";
import { assignmentOf } from "../../kubelet/devices/devices.ts";
import type { ConfigMap, Pod } from "../../model/kubernetes.generated.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { annotationKeys, gpuGroupsOfLabels, isReservationPod, nodeHeldBy } from "../../model/scheduling/keys.ts";
import type { Invariant } from "../invariant.ts";
import type { Held } from "../invariants/general.ts";
import { GroupsWithoutReservation } from "./reservationDeleter.ts";

const requestsKey = "scheduling.run.ai/bindrequests";

/**
 * `isKeeper`: the processes that keep the reservation of a group that has pods. Counted from the pods on the node,
 * terminating ones included: a pod uses its recorded device until it is deleted, even if its reservation is not there
 * any more.
 */
export const noGpuTwice = (isKeeper: Held): Invariant => ({
  id: "I1",
  fact: "a GPU is shared within one group, up to one whole GPU, and no other pod uses it",
  begin: ({ store }) => {
    const robbed = new GroupsWithoutReservation(store, isKeeper);
    return {
      commit: (commit) => {
        const { type, event } = commit;
        robbed.observe(commit);
        if (event.current.resource !== "/pods" || type === "DELETED") return undefined;
        const node = (event.current.object() as Pod).spec?.nodeName;
        return node === undefined ? undefined : usedTwice(store, node, (group) => robbed.has(group, node));
      },
      atRest: () => {
        const nodes = new Set(pods(store).flatMap(({ spec }) => spec?.nodeName ?? []));
        for (const node of nodes) {
          const twice = usedTwice(store, node, () => false);
          if (twice !== undefined) return twice;
        }
        return undefined;
      },
    };
  },
});

function usedTwice(
  store: ObjectStore,
  node: string,
  hasLostReservation: (group: string) => boolean,
): string | undefined {
  const uses = new Map<string, { groups: Set<string>; hundredths: number; whole: string[] }>();
  const of = (device: string) => {
    const use = uses.get(device) ?? { groups: new Set<string>(), hundredths: 0, whole: [] };
    uses.set(device, use);
    return use;
  };
  for (const pod of pods(store)) {
    if (pod.spec?.nodeName !== node || hasEnded(pod)) continue;
    if (!isReservationPod(pod)) {
      const share = Number(pod.metadata.annotations?.[annotationKeys.gpuFraction] ?? "0");
      for (const [group, device] of Object.entries(devicesOf(pod))) {
        if (hasLostReservation(group)) continue;
        const use = of(device);
        use.groups.add(group);
        use.hundredths += Math.round(share * 100);
      }
    }
    const [group] = isReservationPod(pod) ? gpuGroupsOfLabels(pod.metadata.labels) : [];
    for (const resources of Object.values(assignmentOf(pod)))
      for (const device of Object.values(resources).flat()) {
        if (group === undefined) of(device).whole.push(pod.metadata.name);
        else of(device).groups.add(group);
      }
  }
  for (const [device, { groups, hundredths, whole }] of uses) {
    if (groups.size + whole.length > 1)
      return `${device} of ${node} is used by ${[...groups, ...whole].sort().join(" and ")}`;
    if (hundredths > 100) return `${hundredths} hundredths of ${device} of ${node} are allocated`;
  }
  return undefined;
}

/** A reservation is not deleted while a pod is labelled with its group, and no pod is bound without a reservation. */
export const reservationsOutliveTheirUsers = (isKeeper: Held): Invariant => ({
  id: "I2",
  fact: "a reservation exists from before a pod is bound to its group until the pod is deleted",
  begin: ({ store }) => {
    const robbed = new GroupsWithoutReservation(store, isKeeper);
    return {
      commit: (commit) => {
        const { type, event, call } = commit;
        robbed.observe(commit);
        if (event.current.resource !== "/pods") return undefined;
        const before = event.previous?.object() as Pod | undefined;
        const now = event.current.object() as Pod;
        if (isReservationPod(now)) {
          if (type !== "DELETED" || before === undefined) return undefined;
          const user = usersOf(store, before)[0];
          const [group = ""] = gpuGroupsOfLabels(before.metadata.labels);
          if (user === undefined || robbed.has(group, nodeHeldBy(before) ?? "")) return undefined;
          return `${call.actor} deleted the reservation ${now.metadata.name} under ${user.metadata.name}`;
        }
        const node = now.spec?.nodeName;
        if (type === "DELETED" || node === undefined || before?.spec?.nodeName === node) return undefined;
        for (const group of gpuGroupsOfLabels(now.metadata.labels)) {
          if (robbed.has(group, node)) continue;
          const reservation = pods(store).find(
            (pod) => isReservationPod(pod) && isOf(pod, group, node) && !hasEnded(pod),
          );
          if (reservation === undefined)
            return `${now.metadata.name} was bound to ${node} without a reservation of ${group}`;
          const device = deviceOf(reservation);
          if (device === undefined)
            return `${now.metadata.name} was bound before the node had configured which device ${group} has`;
          const recorded = devicesOf(now)[group];
          if (recorded !== device)
            return `${now.metadata.name} has recorded device ${recorded} of ${group}, which has ${device}`;
        }
        return undefined;
      },
      atRest: () => {
        for (const pod of pods(store)) {
          if (isReservationPod(pod)) {
            if (usersOf(store, pod).length === 0)
              return `no pod uses the reservation ${pod.metadata.name}, and it still exists`;
            continue;
          }
          const groups = gpuGroupsOfLabels(pod.metadata.labels);
          const node = pod.spec?.nodeName;
          for (const group of node === undefined || hasEnded(pod) ? [] : groups) {
            const reservation = pods(store).find((each) => isReservationPod(each) && isOf(each, group, node ?? ""));
            const device = reservation === undefined ? undefined : deviceOf(reservation);
            if (device === undefined || devicesOf(pod)[group] !== device)
              return `${pod.metadata.name} has device ${devicesOf(pod)[group]} of ${group}, and its reservation ${device ?? "none"}`;
          }
          if (node !== undefined || pod.metadata.deletionTimestamp !== undefined) continue;
          if (groups.length > 0) return `${pod.metadata.name} is not bound and carries ${groups.join(", ")}`;
        }
        return undefined;
      },
    };
  },
});

/** Two reservations of one group would hold two GPUs, and half of its users would get the wrong one. */
export const oneReservationPerGroup: Invariant = {
  id: "I3",
  fact: "a node has one reservation for a group",
  begin: ({ store }) => ({
    commit: ({ type, event }) => {
      if (type !== "ADDED" || event.current.resource !== "/pods") return undefined;
      const now = event.current.object();
      if (!isReservationPod(now)) return undefined;
      const [group = ""] = gpuGroupsOfLabels(now.metadata.labels);
      const all = pods(store).filter(
        (pod) => isReservationPod(pod) && isOf(pod, group, nodeHeldBy(now) ?? "") && !hasEnded(pod),
      );
      return all.length > 1
        ? `${all.map(({ metadata }) => metadata.name).join(" and ")} are both of ${group}`
        : undefined;
    },
  }),
};

/** Every request succeeds or fails for good, and a success is correct, the devices of the container included. */
export const requestsEnd: Invariant = {
  id: "I11",
  fact: "every BindRequest ends: its pod is bound and gets its devices, or the request has failed for good",
  begin: ({ store }) => ({
    commit: ({ event, type }) => {
      const { previous, current } = event;
      if (current.resource === "/pods" && type === "MODIFIED") {
        const pod = current.object() as Pod;
        const before = previous?.object() as Pod | undefined;
        const isNew = pod.spec?.nodeName !== undefined && before?.spec?.nodeName === undefined;
        return isNew ? uninformed(store, pod) : undefined;
      }
      if (current.resource === "/configmaps" && type === "DELETED") {
        const owner = (previous ?? current).object().metadata.ownerReferences?.[0];
        const pod = pods(store).find(({ metadata }) => metadata.uid === owner?.uid);
        return pod?.spec?.nodeName === undefined || hasEnded(pod) ? undefined : uninformed(store, pod);
      }
      if (current.resource !== requestsKey || type !== "MODIFIED" || previous === undefined) return undefined;
      const before = (previous.object() as BindRequest).status?.phase;
      const now = (current.object() as BindRequest).status?.phase;
      return before === "Succeeded" && now !== before ? `${current.name} succeeded and then became ${now}` : undefined;
    },
    atRest: () => {
      const byUid = new Map(pods(store).map((pod) => [pod.metadata.uid, pod]));
      for (const version of store.collection(requestsKey).all()) {
        const request = version.object() as BindRequest;
        const pod = byUid.get(podUidOf(request) ?? "");
        const isBound = pod?.spec?.nodeName !== undefined;
        if (request.status?.phase === "Succeeded" && !isBound)
          return `${version.name} succeeded, and its pod is not bound`;
        if (request.status?.phase !== "Succeeded" && !isFinallyFailed(request)) return `${version.name} has not ended`;
      }
      for (const pod of byUid.values()) {
        if (pod.spec?.nodeName === undefined || hasEnded(pod)) continue;
        const wrong = uninformed(store, pod);
        if (wrong !== undefined) return wrong;
      }
      return undefined;
    },
  }),
};

/** What is wrong with the device variables in the ConfigMap of a pod with a GPU share. */
function uninformed(store: ObjectStore, pod: Pod): string | undefined {
  const recorded = devicesOf(pod);
  const groups = gpuGroupsOfLabels(pod.metadata.labels);
  const names = configMapNames(pod);
  if (isReservationPod(pod) || groups.length === 0 || names === undefined) return undefined;
  const map = store.get("/configmaps", pod.metadata.namespace ?? "", names.capabilities)?.object() as
    | ConfigMap
    | undefined;
  const wanted = groups.map((group) => recorded[group]).join(",");
  const configured = map?.data?.[variables.devices];
  return configured === wanted
    ? undefined
    : `${pod.metadata.name} has ${wanted}, and its ConfigMap says ${configured ?? "nothing"}`;
}

function pods(store: ObjectStore): Pod[] {
  return [...store.collection("/pods").all()].map((version) => version.object());
}

function isOf(pod: Pod, group: string, node: string): boolean {
  return nodeHeldBy(pod) === node && gpuGroupsOfLabels(pod.metadata.labels).includes(group);
}

/** Pods that carry the group of a reservation and may run on its node. */
function usersOf(store: ObjectStore, reservation: Pod): Pod[] {
  const [group = ""] = gpuGroupsOfLabels(reservation.metadata.labels);
  const node = nodeHeldBy(reservation);
  return pods(store).filter((pod) => {
    if (isReservationPod(pod) || hasEnded(pod)) return false;
    if (pod.spec?.nodeName !== undefined && pod.spec.nodeName !== node) return false;
    return gpuGroupsOfLabels(pod.metadata.labels).includes(group);
  });
}
