import { useEffect, useRef, useState } from "preact/hooks";
import type { JobRow } from "../../model/window/parts.ts";
import { href } from "../route.ts";
import { momentMs, shown } from "../state.ts";
import { bareName, gpus, name, shortSpan } from "../words.ts";
import { queueColour } from "./swatch.tsx";

/**
 * What waits. While the pointer or the focus is in the list its rows keep their places: changes are counted, and
 * applied on leaving or with `.`.
 */
export function WaitingList({
  current,
  isolate,
}: {
  readonly current?: string;
  readonly isolate?: (job: JobRow | undefined) => void;
}) {
  const jobs = shown.value?.jobs.jobs;
  const box = useRef<HTMLDivElement>(null);
  const [isHeld, hold] = useState(false);
  const kept = useRef<{ readonly jobs: readonly JobRow[]; changes: number; seen: readonly JobRow[] } | undefined>(
    undefined,
  );
  if (!isHeld || jobs === undefined) kept.current = undefined;
  else if (kept.current === undefined) kept.current = { jobs, changes: 0, seen: jobs };
  else if (kept.current.seen !== jobs) {
    kept.current.changes += changesBetween(kept.current.seen, jobs);
    kept.current.seen = jobs;
  }
  useEffect(() => {
    const release = (event: KeyboardEvent): void => {
      if (event.key !== "." || isTyping(event)) return;
      kept.current = undefined;
      hold(false);
    };
    addEventListener("keydown", release);
    return () => removeEventListener("keydown", release);
  }, []);
  if (jobs === undefined) return <p class="empty">{"–"}</p>;
  const now = new Map(jobs.map((job) => [job.id, job]));
  const rows = kept.current?.jobs ?? jobs;
  const changes = kept.current?.changes ?? 0;
  return (
    <div
      ref={box}
      class="waiting"
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold(box.current?.contains(document.activeElement) === true)}
      onFocusIn={() => hold(true)}
      onFocusOut={(event) => {
        if (box.current?.contains(event.relatedTarget as Node | null) !== true) hold(false);
      }}
    >
      {changes > 0 && (
        <button type="button" class="btn small held-changes" data-changes={changes} onClick={() => hold(false)}>
          {changes} {changes === 1 ? "change" : "changes"} <kbd>.</kbd>
        </button>
      )}
      <ul class="items">
        {rows.map((row) => {
          const job = now.get(row.id);
          const { id, queue, gpus: milli, short, since } = job ?? row;
          const [namespace = "", bare = ""] = [id.slice(0, id.indexOf("/")), id.slice(id.indexOf("/") + 1)];
          return (
            <li key={id}>
              <a
                class={job === undefined ? "item ended" : "item"}
                data-job={id}
                href={href("why", [namespace, bare])}
                aria-current={current === id ? "true" : undefined}
                onPointerEnter={() => isolate?.(job)}
                onPointerLeave={() => isolate?.(undefined)}
              >
                <i style={{ background: queueColour(queue) }} aria-hidden="true" />
                <span>
                  <span class="name" title={name(id)}>
                    {bareName(id)}
                  </span>
                  <span class="why">{job === undefined ? "no longer waits" : short}</span>
                </span>
                <span>
                  <span class="amount num">{gpus(milli)}</span>
                  <span class="age num">{shortSpan(momentMs.value - Date.parse(since))}</span>
                </span>
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** Rows that came, went or say something else. */
function changesBetween(before: readonly JobRow[], after: readonly JobRow[]): number {
  const old = new Map(before.map((job) => [job.id, job]));
  let changes = 0;
  for (const job of after) {
    if (old.get(job.id) !== job) changes++;
    old.delete(job.id);
  }
  return changes + old.size;
}

export function isTyping({ target }: Event): boolean {
  return (
    target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement
  );
}
