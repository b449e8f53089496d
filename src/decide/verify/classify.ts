/** Why a pod has no node, as far as a snapshot shows. */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { claimOfPod, claimsByKey } from "./claims.ts";
import { type ClusterSnapshot, isServed } from "./clusterSnapshot.ts";
import { gangOfPod, isMet, shortfall } from "./gangs.ts";
import type { PodEvent } from "./podEvents.ts";

export type UnscheduledClass =
  /** No scheduler has tried the pod yet. */
  "never tried" | "refused" | "gated" | "waiting for claim" | "waiting for gang" | "nominated";

export interface Classified {
  readonly class: UnscheduledClass;
  /** The reason, as a sentence. */
  readonly why: string;
  /** The scheduler's reasons with their node counts, most frequent first. */
  readonly reasons: readonly CountedReason[];
}

export interface CountedReason {
  readonly nodes: number;
  readonly reason: string;
}

/**
 * Order matters: a scheduling gate explains why the scheduler did not try, and a nomination is newer than the refusal
 * before it.
 */
export function classify(snapshot: ClusterSnapshot, pod: Pod, events: readonly PodEvent[] = []): Classified {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const gates = pod.spec?.schedulingGates ?? [];
  // The condition is not read: it stays until a scheduler has tried the pod without its gates.
  if (gates.length > 0) return plain("gated", `scheduling gate: ${gates.map(({ name }) => name).join(", ")}`);
  const nominated = pod.status?.nominatedNodeName ?? "";
  if (nominated !== "") return plain("nominated", `preemption makes room on ${nominated}`);
  const newest = events.find((event) => isRefusal(event) || isPipelined(event));
  if (newest !== undefined && isPipelined(newest)) return plain("nominated", newest.message);
  const missing = missingClaim(snapshot, pod);
  if (missing !== undefined) return plain("waiting for claim", missing);
  const gang = gangOfPod(snapshot, pod);
  const isSchedulable = (member: Pod): boolean => (member.spec?.schedulingGates ?? []).length === 0 && isAlive(member);
  if (gang !== undefined && !isMet(gang.need, isSchedulable)) {
    return plain("waiting for gang", `${gang.name}: ${shortfall(gang.need, isSchedulable)}`);
  }
  if (!wasTried(pod, events)) return plain("never tried", "no scheduling attempt is recorded");
  const refusal = events.find(isRefusal)?.message;
  const message = scheduled?.status === "False" ? scheduled.message || refusal : refusal;
  const why = message ?? scheduled?.reason ?? "refused";
  return { class: "refused", why, reasons: countedReasons(why) };
}

/** Whether a scheduler has tried an unbound pod without binding it: by its condition, a nomination or an event. */
export function wasTried(pod: Pod, events: readonly PodEvent[]): boolean {
  const { conditions = [], nominatedNodeName = "" } = pod.status ?? {};
  const scheduled = conditions.find(({ type }) => type === "PodScheduled");
  const isRefused =
    scheduled?.status === "False" && scheduled.reason !== undefined && scheduled.reason !== "SchedulingGated";
  return isRefused || nominatedNodeName !== "" || events.some((event) => isRefusal(event) || isPipelined(event));
}

/** The event of a pod that waits for what other pods are releasing on a node: KAI's and Muster's reason. */
function isPipelined({ reason }: PodEvent): boolean {
  return reason === "Pipelined";
}

/** The event of a scheduler that could not place its pod: kube-scheduler's and Muster's reason, and KAI's. */
export function isRefusal({ reason }: PodEvent): boolean {
  return reason === "FailedScheduling" || reason === "Unschedulable";
}

function plain(name: UnscheduledClass, why: string): Classified {
  return { class: name, why, reasons: [] };
}

function isAlive({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase !== "Failed";
}

/**
 * A claim that the pod names and that does not exist. A claim that exists and is not allocated is up to the scheduler.
 */
function missingClaim(snapshot: ClusterSnapshot, pod: Pod): string | undefined {
  const entries = pod.spec?.resourceClaims ?? [];
  if (entries.length === 0 || !isServed(snapshot, "resourceclaims")) return undefined;
  for (const entry of entries) {
    const claim = claimOfPod(pod, entry);
    if (claim.type === "none") continue;
    if (claim.type === "not made") return `no ResourceClaim has been created from the template ${claim.template}`;
    const found = claimsByKey(snapshot).get(`${pod.metadata.namespace ?? ""}/${claim.name}`);
    if (found === undefined) return `the claim ${claim.name} does not exist`;
    if (found.metadata.deletionTimestamp !== undefined) return `the claim ${claim.name} is being deleted`;
  }
  return undefined;
}

/**
 * `0/6 nodes are available: 2 Insufficient cpu, 4 node(s) had ...`, or Muster's `fits 0 of 6 nodes: ...`, as counts.
 */
export function countedReasons(message: string): readonly CountedReason[] {
  const start = /nodes are available:|fits [0-9]+ of [0-9]+ nodes:/.exec(message);
  if (start === null) return [];
  const rest = message
    .slice(start.index + start[0].length)
    .replace(/\.?\s*(?:no new claims to deallocate|preemption:|To run:).*$/s, "");
  const reasons: CountedReason[] = [];
  for (const part of rest.split(/,\s+(?=[0-9]+ )|\.\s+(?=[0-9]+ )/)) {
    const match = /^\s*([0-9]+)\s+(.+?)\.?\s*$/s.exec(part);
    if (match !== null) reasons.push({ nodes: Number(match[1]), reason: match[2] ?? "" });
  }
  return reasons.sort((a, b) => b.nodes - a.nodes || (a.reason < b.reason ? -1 : 1));
}
