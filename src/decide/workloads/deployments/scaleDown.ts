/** The order in which a set deletes pods when it is scaled down. */
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { compareText, isReady, readySinceMs, restartsMax } from "../../../model/objects/podFacts.ts";
import { timeToMs } from "../../../model/values/time.ts";

const costAnnotation = "controller.kubernetes.io/pod-deletion-cost";
const phaseOrder: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

export function rankForDeletion(pods: readonly Pod[], related: readonly Pod[], nowMs: number): Pod[] {
  const onNode = new Map<string, number>();
  const seen = new Set<string>();
  for (const { metadata, spec } of related) {
    if (spec?.nodeName === undefined || spec.nodeName === "" || seen.has(metadata.uid)) continue;
    seen.add(metadata.uid);
    onNode.set(spec.nodeName, (onNode.get(spec.nodeName) ?? 0) + 1);
  }
  return pods
    .map((pod) => ({ pod, doubled: onNode.get(pod.spec?.nodeName ?? "") ?? 0 }))
    .sort((a, b) => compareVictims(a, b, nowMs))
    .map(({ pod }) => pod);
}

type Ranked = { readonly pod: Pod; readonly doubled: number };

/** Negative when `a` is deleted first. */
function compareVictims({ pod: a, doubled: aDoubled }: Ranked, { pod: b, doubled: bDoubled }: Ranked, nowMs: number) {
  return (
    Number(isAssigned(a)) - Number(isAssigned(b)) ||
    phaseRank(a) - phaseRank(b) ||
    Number(isReady(a)) - Number(isReady(b)) ||
    costOf(a) - costOf(b) ||
    bDoubled - aDoubled ||
    (isReady(a) && isReady(b) ? compareAges(readySinceMs(a), readySinceMs(b), nowMs) : 0) ||
    restartsMax(b) - restartsMax(a) ||
    compareAges(timeToMs(a.metadata.creationTimestamp), timeToMs(b.metadata.creationTimestamp), nowMs) ||
    compareText(a.metadata.uid, b.metadata.uid)
  );
}

function isAssigned({ spec }: Pod): boolean {
  return spec?.nodeName !== undefined && spec.nodeName !== "";
}

function phaseRank({ status }: Pod): number {
  return phaseOrder[status?.phase ?? "Pending"] ?? 0;
}

/** A deletion cost that is not an integer counts as 0. */
function costOf({ metadata }: Pod): number {
  const text = metadata.annotations?.[costAnnotation];
  return text !== undefined && /^(?:0|-?[1-9][0-9]*)$/.test(text) ? Number(text) : 0;
}

/**
 * The newer is deleted first, but only when it is newer by a factor: ages are compared by their logarithm, so that
 * among pods of about the same age the victim is not always the last one created. An unknown time counts as newest.
 * Upstream compares ages of one magnitude by UID and skips the restarts, which is not a total order: three pods can
 * form a cycle.
 */
function compareAges(a: number | undefined, b: number | undefined, nowMs: number): number {
  if (a === b) return 0;
  if (a === undefined) return -1;
  if (b === undefined) return 1;
  return magnitude(nowMs - a) - magnitude(nowMs - b);
}

function magnitude(ageMs: number): number {
  return ageMs <= 0 ? -1 : Math.floor(Math.log2(ageMs * 1_000_000));
}
