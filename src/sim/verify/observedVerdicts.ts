/**
 * What a verifier says, held against what was: the numbers of a line are of one revision, and an error is never a
 * number.
 */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Invariant } from "../invariant.ts";

/** A line as it was printed. */
export interface SaidLine {
  readonly total: number;
  readonly running: number;
  readonly pending: number;
  readonly unscheduled: number;
  readonly failed: number;
  /** The revision that it says it is of; undefined when it does not say. */
  readonly revision?: string;
}

export const saidLine = "said a line";
export const saidVerdict = "said a verdict";

/** A verdict, and whether everything that it rests on could be read. */
export interface SaidVerdict {
  readonly passed: boolean;
  readonly total: number;
  readonly readErrors: number;
  /** The revision that it is about, where there was a snapshot. */
  readonly revision?: string;
}

export const numbersAddUp: Invariant = {
  id: "I6",
  fact: "all reported numbers come from one revision, and sums close",
  begin: ({ store }) => ({
    observe: (actor, what, value) => {
      if (what !== saidLine) return undefined;
      const line = value as SaidLine;
      const told = `${actor} says ${line.total} total, ${line.running} running, ${line.pending} pending (${line.unscheduled} unscheduled), ${line.failed} failed`;
      if (line.unscheduled > line.pending) return `${told}: more unscheduled than pending`;
      if (line.running + line.pending + line.failed > line.total) return `${told}: more than there are`;
      if (line.revision === undefined) return undefined;
      const was = recount(store, Number(line.revision));
      if (was === undefined) return undefined;
      for (const name of ["total", "running", "pending", "unscheduled", "failed"] as const) {
        if (was[name] !== line[name]) return `${told}: at revision ${line.revision} ${name} was ${was[name]}`;
      }
      return undefined;
    },
  }),
};

export const errorsAreUnknown: Invariant = {
  id: "I21",
  fact: "a read error is unknown: never zero, never a pass",
  begin: () => ({
    observe: (actor, what, value) => {
      if (what !== saidVerdict) return undefined;
      const { passed, total, readErrors } = value as SaidVerdict;
      if (!passed || readErrors === 0) return undefined;
      return `${actor} passes ${total} pods, and ${readErrors} of its reads had failed`;
    },
  }),
};

/** Held against the store at the revision of the verdict: what a scheduler had written by then, verify had to read. */
export const refusedPodsFail: Invariant = {
  id: "I18",
  fact: "a run does not pass while a pod that a scheduler has refused is without a node",
  begin: ({ store }) => ({
    observe: (actor, what, value) => {
      if (what !== saidVerdict) return undefined;
      const { passed, revision } = value as SaidVerdict;
      if (!passed || revision === undefined || Number(revision) < store.compactedRevision) return undefined;
      const events = [...store.collection("/events").at(Number(revision), "")].map((each) => each.object());
      const refused = new Set(
        events
          .filter((event) => event["reason"] === "FailedScheduling")
          .map((event) => (event["involvedObject"] as { uid?: string } | undefined)?.uid),
      );
      for (const version of store.collection("/pods").at(Number(revision), "")) {
        const { metadata, spec, status } = version.object() as Pod;
        const isRefused =
          refused.has(metadata.uid) ||
          status?.conditions?.some((each) => each.type === "PodScheduled" && each.reason === "Unschedulable") === true;
        if (isRefused && (spec?.nodeName ?? "") === "")
          return `${actor} passes at revision ${revision}, and ${metadata.name} was refused and has no node`;
      }
      return undefined;
    },
  }),
};

/** By hand and from the store itself; undefined when that past is forgotten. */
function recount(store: ObjectStore, revision: number): SaidLine | undefined {
  if (revision < store.compactedRevision) return undefined;
  const counts = { total: 0, running: 0, pending: 0, unscheduled: 0, failed: 0 };
  for (const version of store.collection("/pods").at(revision, "")) {
    const { spec, status } = version.object() as Pod;
    counts.total++;
    if (status?.phase === "Running") counts.running++;
    if (status?.phase === "Failed") counts.failed++;
    if (status?.phase !== "Pending") continue;
    counts.pending++;
    if ((spec?.nodeName ?? "") === "") counts.unscheduled++;
  }
  return counts;
}

const linePattern = /(\d+) total, (\d+) running, (\d+) pending \((\d+) unscheduled\), (\d+) failed/;

/** Reads the numbers back from the text that a person would see. */
export function linesIn(text: string): SaidLine[] {
  return text.split("\n").flatMap((line) => {
    const found = linePattern.exec(line);
    if (found === null) return [];
    const [total = 0, running = 0, pending = 0, unscheduled = 0, failed = 0] = found.slice(1).map(Number);
    return [{ total, running, pending, unscheduled, failed }];
  });
}

/** The last line of a result, with its revision. */
export function finalLine({ counts, snapshot }: VerifyResult): SaidLine | undefined {
  if (counts === undefined || snapshot === undefined) return undefined;
  const { total, running, pending, unscheduled, failed } = counts;
  return { total, running, pending, unscheduled, failed, revision: snapshot.resourceVersion };
}
