/** Completion indexes of an Indexed Job, and the text form in which a status keeps many of them: `0-4,7,9`. */
import type { Job, Pod } from "../../model/kubernetes.generated.ts";

export const indexKey = "batch.kubernetes.io/job-completion-index";
export const failureCountKey = "batch.kubernetes.io/job-index-failure-count";

export function isIndexed({ spec }: Job): boolean {
  return spec?.completionMode === "Indexed";
}

/** The index that the pod works on; undefined if it has none that counts. */
export function indexOf(job: Job, { metadata }: Pod): number | undefined {
  const text = metadata.annotations?.[indexKey];
  if (text === undefined || !/^[0-9]+$/.test(text)) return undefined;
  const index = Number(text);
  return index < (job.spec?.completions ?? 0) ? index : undefined;
}

/** Reads the text; indexes at or beyond `end` are left out, as after a Job was made smaller. */
export function parseIndexes(text: string | undefined, end: number): Set<number> {
  const indexes = new Set<number>();
  if (text === undefined || text === "") return indexes;
  for (const part of text.split(",")) {
    const [first = "", last = first] = part.split("-");
    if (!/^[0-9]+$/.test(first) || !/^[0-9]+$/.test(last)) continue;
    for (let index = Number(first); index <= Number(last) && index < end; index++) indexes.add(index);
  }
  return indexes;
}

/** Sorted, with neighbours as ranges: `1,3-4,6-9`. */
export function formatIndexes(indexes: ReadonlySet<number>): string {
  const sorted = [...indexes].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; i++) {
    const first = sorted[i] ?? 0;
    while (sorted[i + 1] === (sorted[i] ?? 0) + 1) i++;
    const last = sorted[i] ?? first;
    parts.push(first === last ? String(first) : `${first}-${last}`);
  }
  return parts.join(",");
}

export function countOf({ metadata }: Pod, key: string): number {
  const text = metadata.annotations?.[key];
  return text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : 0;
}
