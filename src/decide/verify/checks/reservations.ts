/** GPU sharing: reservation pods that hold a whole GPU for a GPU group, and the pods that use shares of it. */
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../../model/scheduling/bindRequest.ts";
import {
  annotationKeys,
  gpuGroupsOfLabels,
  isReservationPod,
  labelKeys,
  nodeHeldBy,
} from "../../../model/scheduling/keys.ts";
import { parseQuantity, QuantityError } from "../../../model/values/quantity.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { isFinished, placementOf, podName } from "../placement.ts";

interface Shares {
  readonly reservations: readonly Reservation[];
  readonly users: readonly User[];
}

interface Reservation {
  readonly pod: Pod;
  readonly node: string;
  readonly group: string;
}

interface User {
  readonly pod: Pod;
  readonly node: string;
  readonly group: string;
}

const cache = new WeakMap<ClusterSnapshot, Shares>();

function sharesOf(snapshot: ClusterSnapshot): Shares {
  const cached = cache.get(snapshot);
  if (cached !== undefined) return cached;
  const reservations: Reservation[] = [];
  const users: User[] = [];
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    if (pod.metadata.labels === undefined || isFinished(pod)) continue;
    const groups = gpuGroupsOfLabels(pod.metadata.labels);
    const node = nodeHeldBy(pod) ?? "";
    if (!isReservationPod(pod)) users.push(...groups.map((group) => ({ pod, node, group })));
    // A terminating reservation holds nothing.
    else if (pod.metadata.deletionTimestamp === undefined) {
      reservations.push({ pod, node, group: groups[0] ?? "" });
    }
  }
  const shares = { reservations, users };
  cache.set(snapshot, shares);
  return shares;
}

export const noOrphans: Check = {
  id: "S7",
  title: "a reservation exists if and only if a pod or an active bind request needs it",
  byDefault: true,
  settles: true,
  needs: ["pods", "bindrequests"],
  run: ({ snapshot }) => {
    const { reservations, users } = sharesOf(snapshot);
    if (reservations.length === 0 && users.length === 0) {
      return isServed(snapshot, "bindrequests")
        ? passOrFail([], "no GPU is shared")
        : notApplicable("BindRequests are not served and no GPU is shared");
    }
    const evidence = [...unusedReservations(snapshot), ...sharesWithoutReservation(snapshot)];
    return passOrFail(evidence, `${reservations.length} reservations, ${users.length} shares`);
  },
};

/** Reservations of groups that no pod and no active bind request names. */
export function unusedReservations(snapshot: ClusterSnapshot): Evidence[] {
  const { reservations, users } = sharesOf(snapshot);
  if (reservations.length === 0) return [];
  const used = new Set(users.map(({ group }) => group));
  const podsByUid = new Map(objectsOf<Pod>(snapshot, "pods").map((pod) => [pod.metadata.uid, pod]));
  const requests = objectsOf<BindRequest>(snapshot, "bindrequests");
  const intended = new Set(
    requests.filter((each) => isActive(each, podsByUid)).flatMap(({ spec }) => spec?.selectedGPUGroups ?? []),
  );
  return reservations.flatMap(({ pod, group }) => {
    if (used.has(group) || intended.has(group)) return [];
    const problem = `holds a GPU for group ${group}, which no pod and no bind request uses`;
    return [{ object: podName(pod), problem }];
  });
}

/** Pods that have a share of a GPU which no reservation holds. */
export function sharesWithoutReservation(snapshot: ClusterSnapshot): Evidence[] {
  const { reservations, users } = sharesOf(snapshot);
  const held = new Set(reservations.map(({ node, group }) => `${node}/${group}`));
  return users.flatMap(({ pod, node, group }) => {
    if (node === "" || held.has(`${node}/${group}`)) return [];
    return [{ object: podName(pod), problem: `uses group ${group} on ${node}, which has no reservation` }];
  });
}

/**
 * Whether a BindRequest may still need its GPU groups: it has not succeeded and has retries left. A succeeded one needs
 * them until its pod has the group label; from then on the pod itself counts.
 */
function isActive(request: BindRequest, podsByUid: ReadonlyMap<string, Pod>): boolean {
  const type = request.spec?.receivedResourceType ?? "";
  if ((type !== "" && type !== "Fraction") || isFinallyFailed(request)) return false;
  if (request.status?.phase !== "Succeeded") return true;
  const pod = podsByUid.get(podUidOf(request) ?? "");
  return pod !== undefined && !isFinished(pod) && gpuGroupsOfLabels(pod.metadata.labels).length === 0;
}

export const sharesFit: Check = {
  id: "S8",
  title: "each node and group has one reservation, each GPU one group, and the shares of a GPU sum to at most one",
  byDefault: true,
  settles: false,
  needs: ["pods", "nodes"],
  run: ({ snapshot }) => {
    const { reservations, users } = sharesOf(snapshot);
    if (reservations.length === 0 && users.length === 0) return notApplicable("no GPU is shared");
    const evidence = [...duplicateReservations(snapshot), ...sharesOverOne(snapshot)];
    return passOrFail(evidence, `${reservations.length} reservations, ${users.length} shares`);
  },
};

/** Several reservations of one group on one node, or of one GPU. */
export function duplicateReservations(snapshot: ClusterSnapshot): Evidence[] {
  const { reservations } = sharesOf(snapshot);
  return [
    ...duplicates(reservations, "one reservation", ({ node, group }) => `group ${group} on ${node}`),
    ...duplicates(reservations, "one group", ({ pod, node }) => {
      const device = pod.metadata.annotations?.[annotationKeys.reservedGpu] ?? "";
      return device === "" || node === "" ? undefined : `GPU ${device} on ${node}`;
    }),
  ];
}

function duplicates(
  reservations: readonly Reservation[],
  expected: string,
  keyOf: (reservation: Reservation) => string | undefined,
): Evidence[] {
  const first = new Map<string, string>();
  return reservations.flatMap((reservation) => {
    const key = keyOf(reservation);
    if (key === undefined) return [];
    const other = first.get(key);
    if (other === undefined) {
      first.set(key, reservation.pod.metadata.name);
      return [];
    }
    return [{ object: podName(reservation.pod), problem: `${key} must have ${expected}, but ${other} exists too` }];
  });
}

/**
 * Groups whose shares sum to more than one GPU: computed exactly in integers (billionths of a GPU times its memory), so
 * that rounding hides no excess.
 */
export function sharesOverOne(snapshot: ClusterSnapshot): Evidence[] {
  const { users } = sharesOf(snapshot);
  const { nodes } = placementOf(snapshot);
  const sums = new Map<string, { node: string; group: string; nano: bigint; memory: bigint; pods: string[] }>();
  const evidence: Evidence[] = [];
  for (const { pod, node, group } of users) {
    if (node === "") continue;
    const share = shareOf(pod);
    if (share === undefined) {
      evidence.push({
        object: podName(pod),
        problem: "is in a GPU group, but has no valid gpu-fraction or gpu-memory annotation",
      });
      continue;
    }
    const key = `${node}/${group}`;
    const sum = sums.get(key) ?? { node, group, nano: 0n, memory: 0n, pods: [] };
    sum.nano += share.nano;
    sum.memory += share.memory;
    sum.pods.push(pod.metadata.name);
    sums.set(key, sum);
  }
  for (const { node, group, nano, memory, pods } of sums.values()) {
    const label = nodes.get(node)?.metadata.labels?.[labelKeys.gpuMemory] ?? "";
    const total = /^[0-9]+$/.test(label) ? BigInt(label) : 0n;
    const tooMuch = total > 0n ? nano * total + memory * nanoPerGpu > total * nanoPerGpu : nano > nanoPerGpu;
    if (!tooMuch) continue;
    const problem = `the shares of ${pods.join(", ")} in group ${group} sum to more than one GPU`;
    evidence.push({ object: `nodes/${node}`, problem });
  }
  return evidence;
}

const nanoPerGpu = 1_000_000_000n;

/** The pod's share of each of its GPUs: a fraction in billionths, or memory in MiB. */
function shareOf({ metadata }: Pod): { nano: bigint; memory: bigint } | undefined {
  const fraction = metadata.annotations?.[annotationKeys.gpuFraction];
  const memory = metadata.annotations?.[annotationKeys.gpuMemory];
  if (fraction === undefined) {
    return memory !== undefined && /^[0-9]+$/.test(memory) ? { nano: 0n, memory: BigInt(memory) } : undefined;
  }
  try {
    return { nano: parseQuantity(fraction).nano, memory: 0n };
  } catch (error) {
    if (error instanceof QuantityError) return undefined;
    throw error;
  }
}
