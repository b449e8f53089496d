import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { assignmentOf } from "../../kubelet/devices/devices.ts";
import { isSimulated } from "../../kubelet/node/simNode.ts";
import type { Lease, Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import type { Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";

const gpu = "nvidia.com/gpu";

function podsOf(store: ObjectStore, node: string): Pod[] {
  const pods: Pod[] = [];
  for (const version of store.collection("/pods").all()) {
    const pod = version.object() as Pod;
    if (pod.spec?.nodeName === node) pods.push(pod);
  }
  return pods;
}

function devicesOf(pod: Pod): string[] {
  return Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each).flat());
}

function hasEnded({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function isRunning({ status }: Pod): boolean {
  return (status?.containerStatuses ?? []).some(({ state }) => state?.running !== undefined);
}

/** I14 in the API: no two pods that have not ended have the same device. */
export const oneHolderOfADevice: Invariant = {
  id: "I14",
  fact: "a device of a node has one holder",
  begin: ({ store }) => ({
    commit: ({ type, event, call }) => {
      if (type === "DELETED" || event.current.resource !== "/pods") return undefined;
      const pod = event.current.object() as Pod;
      const mine = devicesOf(pod);
      if (mine.length === 0 || hasEnded(pod)) return undefined;
      for (const other of podsOf(store, pod.spec?.nodeName ?? "")) {
        if (other.metadata.uid === pod.metadata.uid || hasEnded(other)) continue;
        const shared = devicesOf(other).find((id) => mine.includes(id));
        if (shared !== undefined) {
          return `${call.actor} gave ${short(shared)} to ${pod.metadata.name}, and ${other.metadata.name} has it`;
        }
      }
      return undefined;
    },
  }),
};

interface Lingering {
  readonly node: string;
  readonly device: string;
  readonly pod: string;
  readonly untilUs: number;
  /** Which life of which process ran the pod: only it can know. */
  readonly runner: string;
}

/**
 * I14 on the node: a force-deleted pod still runs until its containers have stopped, and its claims stay prepared that
 * long. Devices of a device plugin do not count: a kubelet releases them with the deletion from the API. A process that
 * has crashed since, or a lease with another holder, counts as a fenced machine.
 */
export const heldUntilStopped = (held: Held, stopMs: number): Invariant => ({
  id: "I14",
  fact: "a device of a claim is prepared for another claim only when the program that used it has stopped",
  begin: ({ store, nowUs }) => {
    const runners = new Map<string, string>();
    let lingering: Lingering[] = [];
    const taken = (node: string, devices: readonly string[], who: string): Lingering | undefined =>
      lingering.find(
        (each) => each.node === node && devices.includes(each.device) && each.untilUs > nowUs() && each.runner === who,
      );
    return {
      commit: ({ type, event, call }) => {
        lingering = lingering.filter(({ untilUs }) => untilUs > nowUs());
        const who = `${call.actor}|${call.life}`;
        switch (event.current.resource) {
          case "coordination.k8s.io/leases": {
            const before = (event.previous?.object() as Lease | undefined)?.spec?.holderIdentity;
            const now = type === "DELETED" ? undefined : (event.current.object() as Lease).spec?.holderIdentity;
            if (before !== now) lingering = lingering.filter(({ node }) => node !== event.current.name);
            return undefined;
          }
          case "/nodes":
            if (type !== "MODIFIED") lingering = lingering.filter(({ node }) => node !== event.current.name);
            return undefined;
          case "/pods": {
            const pod = (event.previous ?? event.current).object() as Pod;
            const { name, uid } = pod.metadata;
            const node = pod.spec?.nodeName ?? "";
            if (type === "DELETED") {
              const runner = runners.get(uid);
              runners.delete(uid);
              if (runner === undefined || held(call.actor) || hasEnded(pod) || !isRunning(pod)) return undefined;
              for (const device of claimedDevices(store, pod)) {
                lingering.push({ node, device, pod: name, untilUs: nowUs() + stopMs * 1000, runner });
              }
              return undefined;
            }
            if (!held(call.actor)) return undefined;
            runners.set(uid, who);
            const given = devicesOf(event.current.object());
            const had = event.previous === undefined ? [] : devicesOf(event.previous.object());
            const news = given.filter((id) => !had.includes(id));
            const other = taken(node, news, who);
            return other && `${call.actor} gave ${short(other.device)} to ${name} while ${other.pod} was still running`;
          }
          case "resource.k8s.io/resourceclaims": {
            if (type === "DELETED" || !held(call.actor)) return undefined;
            for (const { pool, device } of readyDevices(event.current.object() as ResourceClaim)) {
              const before = event.previous === undefined ? [] : readyDevices(event.previous.object() as ResourceClaim);
              if (before.some((each) => each.pool === pool && each.device === device)) continue;
              const other = taken(pool, [device], who);
              if (other !== undefined) {
                return `${call.actor} prepared ${device} of ${pool} for ${event.current.name} while ${other.pod} was still running`;
              }
            }
            return undefined;
          }
          default:
            return undefined;
        }
      },
    };
  },
});

function readyDevices(claim: ResourceClaim): { pool: string; device: string }[] {
  return (claim.status?.devices ?? []).filter(({ conditions }) =>
    conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
  );
}

function claimedDevices(store: ObjectStore, pod: Pod): string[] {
  return (pod.spec?.resourceClaims ?? []).flatMap(({ resourceClaimName = "" }) => {
    const found = store.get("resource.k8s.io/resourceclaims", pod.metadata.namespace ?? "", resourceClaimName);
    return found === undefined ? [] : readyDevices(found.object() as ResourceClaim).map(({ device }) => device);
  });
}

/** I15: faults change how many GPUs a node reports only while they last. */
export const devicesAddUp = (gpus: number): Invariant => ({
  id: "I15",
  fact: "a node never reports more GPUs than it has, at rest it reports all of them, and the devices of a pod do not change",
  begin: ({ store }) => ({
    commit: ({ type, event }) => {
      if (type === "DELETED") return undefined;
      if (event.current.resource === "/nodes") {
        const node = event.current.object() as Node;
        if (!isSimulated(node)) return undefined;
        const capacity = Number(node.status?.capacity?.[gpu] ?? gpus);
        const allocatable = Number(node.status?.allocatable?.[gpu] ?? gpus);
        if (capacity === gpus && allocatable >= 0 && allocatable <= capacity) return undefined;
        return `${node.metadata.name} says ${allocatable} of ${capacity} GPUs, and has ${gpus}`;
      }
      if (event.current.resource !== "/pods" || event.previous === undefined) return undefined;
      const before = event.previous.object().metadata.annotations?.[marks.devices];
      const now = event.current.object().metadata.annotations?.[marks.devices];
      return before === undefined || before === now
        ? undefined
        : `${event.current.key} had ${before} and now has ${now}`;
    },
    atRest: () => {
      for (const version of store.collection("/nodes").all()) {
        const node = version.object() as Node;
        if (!isSimulated(node)) continue;
        const { name } = node.metadata;
        if (conditionOf(node) !== "True") return `${name} is not Ready`;
        const allocatable = Number(node.status?.allocatable?.[gpu]);
        if (allocatable !== gpus) return `${name} says ${allocatable} GPUs at rest, and has ${gpus}`;
        const live = podsOf(store, name).filter((pod) => !hasEnded(pod));
        const used = live.flatMap(devicesOf);
        if (used.length > allocatable) return `${used.length} GPUs of ${name} are in use, and it has ${allocatable}`;
        for (const pod of live) {
          if (pod.metadata.deletionTimestamp !== undefined) return `${pod.metadata.name} was never released`;
          if (conditionOf(pod) !== "True" && !isWaitingForClaim(store, pod)) return `${pod.metadata.name} is not Ready`;
        }
      }
      return undefined;
    },
  }),
});

function conditionOf({ status }: Node | Pod): string | undefined {
  const conditions = (status?.conditions ?? []) as { type: string; status: string }[];
  return conditions.find(({ type }) => type === "Ready")?.status;
}

/** A pod may wait while its claim is not allocated to it, or its device is allocated twice. */
function isWaitingForClaim(store: ObjectStore, pod: Pod): boolean {
  return (pod.spec?.resourceClaims ?? []).some(({ resourceClaimName = "" }) => {
    const found = store.get("resource.k8s.io/resourceclaims", pod.metadata.namespace ?? "", resourceClaimName);
    const claim = found?.object() as ResourceClaim | undefined;
    if (claim?.status?.reservedFor?.some(({ uid }) => uid === pod.metadata.uid) !== true) return true;
    return (claim.status?.devices ?? []).some(({ conditions }) =>
      conditions?.some(({ reason }) => reason === "DeviceInUse"),
    );
  });
}
