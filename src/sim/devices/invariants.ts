/** Invariants about devices. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { isFinished } from "../../decide/devices/claims/podClaims.ts";
import { useKey, usesOf } from "../../decide/devices/search/deviceUse.ts";
import { deviceKey } from "../../decide/devices/search/poolDevice.ts";
import type { Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { gpuGroupsOfLabels, isReservationPod } from "../../model/scheduling/keys.ts";
import { GroupsWithoutReservation } from "../bind/reservationDeleter.ts";
import type { Invariant } from "../invariant.ts";
import type { Held } from "../invariants/general.ts";
import { leaderOf } from "../invariants/leadership.ts";
import { sceneryActor } from "../simulation.ts";

export const claimsKey = "resource.k8s.io/resourceclaims";
const slicesKey = "resource.k8s.io/resourceslices";

/**
 * I1 in the API: at every revision a device is allocated to at most one claim, and not to another one while a node
 * still has it prepared.
 */
export const deviceGivenOnce: Invariant = {
  id: "I1",
  fact: "a device is allocated to one claim at a time, and to no other before its node has unprepared it",
  begin: () => {
    const holders = new Map<string, Map<string, string>>();
    const held = new Map<string, string[]>();
    const prepared = new Map<string, string>();
    return {
      observe: (_actor, what, value) => {
        const { device, claimUid } = value as { device: string; claimUid: string };
        if (what === "prepared") prepared.set(device, claimUid);
        if (what === "released" && prepared.get(device) === claimUid) prepared.delete(device);
        return undefined;
      },
      commit: ({ type, event, call }) => {
        if (event.current.resource !== claimsKey) return undefined;
        const claim = event.current.object() as ResourceClaim;
        const { uid, name } = claim.metadata;
        for (const key of held.get(uid) ?? []) holders.get(key)?.delete(uid);
        const uses = type === "DELETED" ? [] : usesOf(claim);
        held.set(uid, uses.map(useKey));
        for (const use of uses) {
          const key = useKey(use);
          const others = holders.get(key) ?? new Map<string, string>();
          holders.set(key, others);
          const [other] = others.values();
          if (other !== undefined) return `${call.actor} allocated ${key} to ${name}; ${other} has it`;
          others.set(uid, name);
          const user = prepared.get(use.device);
          if (use.shareId === undefined && user !== undefined && user !== uid) {
            return `${call.actor} allocated ${key} to ${name}; its node still has it prepared for another claim`;
          }
        }
        return undefined;
      },
    };
  },
};

/**
 * I1 across the device plugin and DRA. A GPU has one identity: the device plugin reports it on the pod, the driver
 * publishes it as the attribute `uuid` of its device. At every revision it belongs to a claim or to a pod, not to both.
 */
export const gpuHasOneHolder = (isKeeper: Held = (actor) => actor !== sceneryActor): Invariant => ({
  id: "I1",
  fact: "a GPU is held one way at a time: by one claim, or by one pod that got it from the device plugin",
  begin: ({ store }) => {
    const robbed = new GroupsWithoutReservation(store, isKeeper);
    const replaces = (pod: Pod): boolean =>
      isReservationPod(pod) &&
      gpuGroupsOfLabels(pod.metadata.labels).some((group) => robbed.had(group, pod.spec?.nodeName ?? ""));
    /** GPU to the claims that its device is allocated to. */
    const claimed = new Map<string, Map<string, string>>();
    const plugged = new Map<string, Map<string, string>>();
    /** Claim to the pods that it is reserved for. */
    const consumersOf = new Map<string, readonly { readonly uid: string }[]>();
    const set = (holders: Map<string, Map<string, string>>, uid: string, name: string, gpus: readonly string[]) => {
      for (const each of holders.values()) each.delete(uid);
      for (const gpu of gpus) holders.set(gpu, (holders.get(gpu) ?? new Map()).set(uid, name));
    };
    const firstOf = (
      holders: Map<string, Map<string, string>>,
      gpu: string,
      counts: (uid: string) => boolean = () => true,
    ): string | undefined => {
      for (const [uid, name] of holders.get(gpu) ?? []) if (counts(uid)) return name;
      return undefined;
    };
    // The allocation of a claim whose pods are gone stays until it is deallocated; on the node the GPU is free.
    const isInUse = (uid: string): boolean => {
      const consumers = consumersOf.get(uid) ?? [];
      const names = new Set(consumers.map((each) => each.uid));
      return (
        names.size === 0 ||
        [...store.collection("/pods").all()].some((version) => names.has(version.object().metadata.uid))
      );
    };
    return {
      commit: (commit) => {
        const { type, event, call } = commit;
        const { resource } = event.current;
        robbed.observe(commit);
        if (resource === claimsKey) {
          const claim = event.current.object() as ResourceClaim;
          const { uid, name } = claim.metadata;
          const gpus = type === "DELETED" ? [] : gpusOfClaim(store, claim);
          set(claimed, uid, name, gpus);
          consumersOf.set(uid, claim.status?.reservedFor ?? []);
          for (const gpu of gpus) {
            const pod = firstOf(plugged, gpu);
            if (pod !== undefined)
              return `${call.actor} gave ${gpu} to claim ${name}; pod ${pod} has it from the device plugin`;
          }
        }
        if (resource === "/pods") {
          const pod = event.current.object() as Pod;
          const { uid, name } = pod.metadata;
          const gpus = type === "DELETED" || isFinished(pod) || replaces(pod) ? [] : pluginGpusOf(pod);
          set(plugged, uid, name, gpus);
          for (const gpu of gpus) {
            const claim = firstOf(claimed, gpu, isInUse);
            if (claim !== undefined) return `${call.actor} gave ${gpu} to pod ${name}; claim ${claim} has it`;
            const other = firstOf(plugged, gpu, (holder) => holder !== uid);
            if (other !== undefined) return `${call.actor} gave ${gpu} to pod ${name}; pod ${other} has it`;
          }
        }
        return undefined;
      },
    };
  },
});

function gpusOfClaim(store: ObjectStore, claim: ResourceClaim): string[] {
  const held = new Set(usesOf(claim).map(({ device }) => device));
  if (held.size === 0) return [];
  const gpus: string[] = [];
  for (const version of store.collection(slicesKey).all()) {
    const { spec } = version.object() as ResourceSlice;
    for (const { name, attributes } of spec.devices ?? []) {
      const uuid = attributes?.["uuid"]?.string;
      if (uuid !== undefined && held.has(deviceKey({ driver: spec.driver, pool: spec.pool.name, device: name })))
        gpus.push(uuid);
    }
  }
  return gpus;
}

/** GPUs that a pod has from the device plugin, as its node reports them. */
function pluginGpusOf({ metadata }: Pod): string[] {
  const text = metadata.annotations?.[marks.devices];
  if (text === undefined) return [];
  const assignment = JSON.parse(text) as Record<string, Record<string, string[]>>;
  return Object.values(assignment).flatMap((resources) => Object.values(resources).flat());
}

/** I14 on the node. */
export const devicePreparedOnce: Invariant = {
  id: "I14",
  fact: "a node prepares a device for one claim at a time, and unprepares none that a program uses",
  begin: () => ({
    observe: (_actor, what, value) => {
      if (what === "prepared") {
        const { device, claimUid, holder } = value as { device: string; claimUid: string; holder?: string };
        return holder === undefined ? undefined : `${device} was prepared for ${claimUid} while it is for ${holder}`;
      }
      if (what === "released") {
        const { device, isUsed } = value as { device: string; isUsed: boolean };
        return isUsed ? `${device} was unprepared while a program used it` : undefined;
      }
      return undefined;
    },
  }),
};

/** I5 for claims: an allocation is written only to a claim that has its finalizer. */
export const allocatedIsProtected: Invariant = {
  id: "I5",
  fact: "an allocated claim has its finalizer",
  begin: () => ({
    commit: ({ type, event, call }) => {
      if (event.current.resource !== claimsKey || type === "DELETED") return undefined;
      const claim = event.current.object() as ResourceClaim;
      if (claim.status?.allocation === undefined) return undefined;
      if (claim.metadata.finalizers?.includes("resource.kubernetes.io/delete-protection") === true) return undefined;
      return `${call.actor} left ${claim.metadata.name} allocated without its finalizer`;
    },
  }),
};

/**
 * I6: the tracker counts the allocations that the API has. With a lease only the leader's counts are compared: a
 * follower counts devices of its own writes whose outcome it does not know, until it leads and looks.
 */
export const countsAreTrue = (lease?: string): Invariant => ({
  id: "I6",
  fact: "at rest the devices that are counted as allocated are those of the claims",
  begin: ({ store }) => {
    const counts = new Map<string, () => readonly string[]>();
    return {
      started: (actor) => {
        counts.delete(actor);
      },
      observe: (actor, what, value) => {
        if (what === "given") counts.set(actor, value as () => readonly string[]);
        return undefined;
      },
      atRest: () => {
        const there = new Set<string>();
        for (const claim of claimsOf(store)) for (const { device } of usesOf(claim)) there.add(device);
        const wanted = [...there].sort().join(" ");
        for (const [actor, given] of counts) {
          if (lease !== undefined && actor !== leaderOf(store, lease)) continue;
          const counted = given().join(" ");
          if (counted !== wanted)
            return `${actor} counts ${counted || "nothing"}; the claims have ${wanted || "nothing"}`;
        }
        return undefined;
      },
    };
  },
});

/**
 * I19: every step may be repeated: after an unknown outcome, by the next leader, after a late response. So an entry of
 * a pod has one claim, and a repeated release does not affect a pod that is still on its node.
 */
export const repeatingChangesNothing: Invariant = {
  id: "I19",
  fact: "a pod gets one claim for an entry, and is removed from reservedFor only when it has ended, however often a step is repeated",
  begin: ({ store }) => {
    const made = new Map<string, string>();
    return {
      commit: ({ type, event, call }) => {
        if (event.current.resource !== claimsKey) return undefined;
        const claim = event.current.object() as ResourceClaim;
        const { name, uid, namespace = "", annotations, ownerReferences } = claim.metadata;
        const owner = ownerReferences?.find(({ controller }) => controller === true);
        const entry = annotations?.["resource.kubernetes.io/pod-claim-name"];
        if (owner !== undefined && entry !== undefined) {
          const slot = `${owner.uid} ${entry}`;
          const other = made.get(slot);
          if (type === "DELETED") {
            if (other === uid) made.delete(slot);
          } else if (other !== undefined && other !== uid) {
            return `${call.actor} made ${name} for ${entry} of pod ${owner.name}, which has one`;
          } else made.set(slot, uid);
        }
        const before = event.previous?.object() as ResourceClaim | undefined;
        const after = type === "DELETED" ? [] : (claim.status?.reservedFor ?? []);
        for (const user of before?.status?.reservedFor ?? []) {
          if (after.some((each) => each.uid === user.uid)) continue;
          const head = store.collection("/pods").head(`${namespace}/${user.name}`);
          if (head === undefined || head.deleted || head.side.uid !== user.uid) continue;
          const pod = head.object() as Pod;
          if (pod.metadata.deletionTimestamp !== undefined) continue;
          if (!pod.spec?.nodeName || isFinished(pod)) continue;
          return `${call.actor} removed ${user.name} from reservedFor of ${name}; the pod is on ${pod.spec.nodeName} and not terminating`;
        }
        return undefined;
      },
    };
  },
};

/** At rest no pod is pending while a device is free, and no claim is reserved for a deleted pod. */
export const allAreServed: Invariant = allAreServedBut(() => false);

/** The same, except for pods that are pending for another reason. */
export function allAreServedBut(waitsForMore: (store: ObjectStore, pod: Pod) => boolean): Invariant {
  return {
    id: "I17",
    fact: "at rest every device is used or no pod is pending, and no claim is reserved for a deleted pod",
    begin: ({ store }) => ({
      atRest: () => {
        const devices = new Set<string>();
        const keyOfGpu = new Map<string, string>();
        for (const version of store.collection(slicesKey).all()) {
          const { spec } = version.object() as ResourceSlice;
          for (const { name, attributes } of spec.devices ?? []) {
            const key = deviceKey({ driver: spec.driver, pool: spec.pool.name, device: name });
            devices.add(key);
            const uuid = attributes?.["uuid"]?.string;
            if (uuid !== undefined) keyOfGpu.set(uuid, key);
          }
        }
        const used = new Set<string>();
        const pods = new Map(
          [...store.collection("/pods").all()].map((version) => [version.side.uid, version.object() as Pod]),
        );
        for (const pod of pods.values()) for (const gpu of pluginGpusOf(pod)) used.add(keyOfGpu.get(gpu) ?? gpu);
        for (const claim of claimsOf(store)) {
          for (const { device } of usesOf(claim)) used.add(device);
          for (const { uid, name } of claim.status?.reservedFor ?? []) {
            if (!pods.has(uid)) return `claim ${claim.metadata.name} is reserved for ${name}, which is deleted`;
          }
        }
        const waiting = [...pods.values()]
          .filter((pod) => !pod.spec?.nodeName && !waitsForMore(store, pod))
          .map(({ metadata }) => metadata.name);
        const free = [...devices].filter((device) => !used.has(device));
        if (waiting.length > 0 && free.length > 0)
          return `${waiting.join(", ")} wait while ${free.join(", ")} are free`;
        for (const { metadata, status, spec } of pods.values()) {
          if (spec?.nodeName && status?.phase !== "Running") return `${metadata.name} has its node and does not run`;
        }
        return undefined;
      },
    }),
  };
}

function claimsOf(store: ObjectStore): ResourceClaim[] {
  return [...store.collection(claimsKey).all()].map((version) => version.object() as ResourceClaim);
}
