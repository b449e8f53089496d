/**
 * Compares the output of a verifier with the store: the numbers of a line are of one revision, and an error is never a
 * number.
 */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Invariant } from "../invariant.ts";

/** A line as it was printed. */
export interface ReportedLine {
  readonly total: number;
  readonly running: number;
  readonly pending: number;
  readonly unscheduled: number;
  readonly failed: number;
  /** The revision in the line; undefined when it has none. */
  readonly revision?: string;
}

export const reportedLine = "reported a line";
export const reportedVerdict = "reported a verdict";

/** A verdict, and whether everything that it rests on could be read. */
export interface ReportedVerdict {
  readonly passed: boolean;
  readonly total: number;
  readonly readErrors: number;
  /** The revision that it is about, where there was a snapshot. */
  readonly revision?: string;
}

export const numbersAddUp: Invariant = {
  id: "I6",
  fact: "all reported numbers are of one revision, and the parts of a total add up to it",
  begin: ({ store }) => ({
    observe: (actor, what, value) => {
      if (what !== reportedLine) return undefined;
      const line = value as ReportedLine;
      const text = `${actor} says ${line.total} total, ${line.running} running, ${line.pending} pending (${line.unscheduled} unscheduled), ${line.failed} failed`;
      if (line.unscheduled > line.pending) return `${text}: more unscheduled than pending`;
      if (line.running + line.pending + line.failed > line.total) return `${text}: more than there are`;
      if (line.revision === undefined) return undefined;
      const was = recount(store, Number(line.revision));
      if (was === undefined) return undefined;
      for (const name of ["total", "running", "pending", "unscheduled", "failed"] as const) {
        if (was[name] !== line[name]) return `${text}: at revision ${line.revision} ${name} was ${was[name]}`;
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
      if (what !== reportedVerdict) return undefined;
      const { passed, total, readErrors } = value as ReportedVerdict;
      if (!passed || readErrors === 0) return undefined;
      return `${actor} passes ${total} pods, and ${readErrors} of its reads had failed`;
    },
  }),
};

/**
 * Compared with the store at the revision of the verdict: verify must have read what a scheduler had written by then.
 */
export const refusedPodsFail: Invariant = {
  id: "I18",
  fact: "a run does not pass while a pod that a scheduler found unschedulable has no node",
  begin: ({ store }) => ({
    observe: (actor, what, value) => {
      if (what !== reportedVerdict) return undefined;
      const { passed, revision } = value as ReportedVerdict;
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
          return `${actor} passes at revision ${revision}, and ${metadata.name} was unschedulable and has no node`;
      }
      return undefined;
    },
  }),
};

/** Counts pods in the store at a revision; undefined when the revision is compacted. */
function recount(store: ObjectStore, revision: number): ReportedLine | undefined {
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

/** Parses the numbers from the printed text. */
export function linesIn(text: string): ReportedLine[] {
  return text.split("\n").flatMap((line) => {
    const found = linePattern.exec(line);
    if (found === null) return [];
    const [total = 0, running = 0, pending = 0, unscheduled = 0, failed = 0] = found.slice(1).map(Number);
    return [{ total, running, pending, unscheduled, failed }];
  });
}

/** The last line of a result, with its revision. */
export function finalLine({ counts, snapshot }: VerifyResult): ReportedLine | undefined {
  if (counts === undefined || snapshot === undefined) return undefined;
  const { total, running, pending, unscheduled, failed } = counts;
  return { total, running, pending, unscheduled, failed, revision: snapshot.resourceVersion };
}
