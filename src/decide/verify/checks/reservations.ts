/** GPU shares: reservation pods that hold a whole GPU for a group, and the pods that use parts of it. */
import type { Pod } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/object.ts";
import { parseQuantity, QuantityError } from "../../../model/quantity.ts";
import { type Check, type Evidence, judged, notApplicable } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { list, record, text, whole } from "../gangs.ts";
import { isFinished, placementOf, podName } from "../placement.ts";

const groupLabel = "runai-gpu-group";
const reservationApp = "kai-resource-reservation";
const deviceAnnotation = "run.ai/reserve_for_gpu_index";

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

const known = new WeakMap<ClusterSnapshot, Shares>();

function sharesOf(snapshot: ClusterSnapshot): Shares {
  const remembered = known.get(snapshot);
  if (remembered !== undefined) return remembered;
  const reservations: Reservation[] = [];
  const users: User[] = [];
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    const { labels } = pod.metadata;
    if (labels === undefined || isFinished(pod)) continue;
    const node = pod.spec?.nodeName ?? "";
    if (labels["app"] === reservationApp) {
      // One that is on its way out holds nothing for anybody.
      if (pod.metadata.deletionTimestamp === undefined)
        reservations.push({ pod, node, group: labels[groupLabel] ?? "" });
      continue;
    }
    for (const [key, value] of Object.entries(labels)) {
      if (key === groupLabel || key.startsWith(`${groupLabel}/`)) users.push({ pod, node, group: value });
    }
  }
  const shares = { reservations, users };
  known.set(snapshot, shares);
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
        ? judged([], "no GPU is shared")
        : notApplicable("BindRequests are not served and no GPU is shared");
    }
    const used = new Set(users.map(({ group }) => group));
    const intended = new Set(objectsOf(snapshot, "bindrequests").filter(isActive).flatMap(groupsOf));
    const held = new Set(reservations.map(({ node, group }) => `${node}/${group}`));
    const evidence: Evidence[] = [];
    for (const { pod, group } of reservations) {
      if (used.has(group) || intended.has(group)) continue;
      evidence.push({
        object: podName(pod),
        problem: `holds a GPU for group ${group}, which no pod and no bind request uses`,
      });
    }
    for (const { pod, node, group } of users) {
      if (node === "" || held.has(`${node}/${group}`)) continue;
      evidence.push({ object: podName(pod), problem: `uses group ${group} on ${node}, which has no reservation` });
    }
    return judged(evidence, `${reservations.length} reservations, ${users.length} shares`);
  },
};

/** Bind requests that may still need their groups: not done, and not out of tries. */
function isActive(request: KubeObject): boolean {
  const type = text(record(request["spec"])["receivedResourceType"]);
  if (type !== "" && type !== "Fraction") return false;
  const status = record(request["status"]);
  const phase = text(status["phase"]);
  if (phase === "Succeeded") return false;
  if (phase !== "Failed") return true;
  const limit = whole(record(request["spec"])["backoffLimit"]) ?? 0;
  return (whole(status["failedAttempts"]) ?? 0) < limit;
}

function groupsOf(request: KubeObject): string[] {
  return list(record(request["spec"])["selectedGPUGroups"]).map(text);
}

export const sharesFit: Check = {
  id: "S8",
  title: "one reservation for a node and group, one group for a GPU, and shares of a GPU sum to one at most",
  byDefault: true,
  settles: false,
  needs: ["pods", "nodes"],
  run: ({ snapshot }) => {
    const { reservations, users } = sharesOf(snapshot);
    if (reservations.length === 0 && users.length === 0) return notApplicable("no GPU is shared");
    const evidence = [
      ...duplicates(reservations, "one reservation", ({ node, group }) => `group ${group} on ${node}`),
      ...duplicates(reservations, "one group", ({ pod, node }) => {
        const device = pod.metadata.annotations?.[deviceAnnotation] ?? "";
        return device === "" || node === "" ? undefined : `GPU ${device} on ${node}`;
      }),
      ...overfull(snapshot, users),
    ];
    return judged(evidence, `${reservations.length} reservations, ${users.length} shares`);
  },
};

function duplicates(
  reservations: readonly Reservation[],
  wanted: string,
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
    return [{ object: podName(reservation.pod), problem: `${key} is to have ${wanted}, and ${other} is there too` }];
  });
}

/** Exact, in billionths of a GPU times its memory: three times 0.333 and a hundredth is more than it looks. */
function overfull(snapshot: ClusterSnapshot, users: readonly User[]): Evidence[] {
  const { nodes } = placementOf(snapshot);
  const sums = new Map<string, { node: string; group: string; nano: bigint; memory: bigint; pods: string[] }>();
  const evidence: Evidence[] = [];
  for (const { pod, node, group } of users) {
    if (node === "") continue;
    const share = shareOf(pod);
    if (share === undefined) {
      evidence.push({ object: podName(pod), problem: "is in a GPU group and asks for no readable share" });
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
    const label = nodes.get(node)?.metadata.labels?.["nvidia.com/gpu.memory"] ?? "";
    const total = /^[0-9]+$/.test(label) ? BigInt(label) : 0n;
    const tooMuch = total > 0n ? nano * total + memory * whole1 > total * whole1 : nano > whole1;
    if (!tooMuch) continue;
    const problem = `the shares of ${pods.join(", ")} in group ${group} are more than one GPU`;
    evidence.push({ object: `nodes/${node}`, problem });
  }
  return evidence;
}

const whole1 = 1_000_000_000n;

/** What the pod takes of each of its GPUs: a portion in billionths, or memory in MiB. */
function shareOf({ metadata }: Pod): { nano: bigint; memory: bigint } | undefined {
  const fraction = metadata.annotations?.["gpu-fraction"];
  const memory = metadata.annotations?.["gpu-memory"];
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
