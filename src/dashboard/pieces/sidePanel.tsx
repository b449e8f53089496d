import type { JobRow } from "../../model/window/parts.ts";
import { href } from "../route.ts";
import { momentMs, shown } from "../state.ts";
import { count, gpus, name, plural, span } from "../words.ts";
import { WaitingList } from "./waitingList.tsx";

/** Beside the wall: what waits, and what needs a person. */
export function SidePanel({ isolate }: { readonly isolate: (job: JobRow | undefined) => void }) {
  const model = shown.value;
  const jobs = model?.jobs.jobs;
  const asked = jobs?.reduce((sum, job) => sum + job.gpus, 0);
  return (
    <>
      <div class="side-head">
        <h2>Waiting</h2>
        <span>
          {count(jobs?.length)} for {gpus(asked)} GPUs
        </span>
      </div>
      {jobs?.length === 0 ? (
        <p class="empty">
          Nothing waits. Try a gang that cannot fit:
          <code>kubectl apply -f examples/kai/10-queues.yaml -f examples/kai/30-gang-that-cannot-fit.yaml</code>
        </p>
      ) : (
        <WaitingList isolate={isolate} />
      )}
      <NeedsAPerson />
    </>
  );
}

function NeedsAPerson() {
  const model = shown.value;
  if (model === undefined) return null;
  const { wall, gangs } = model;
  const breaches = gangs.gangs.filter(({ breach, ending }) => breach !== "" || ending !== "");
  const silent = wall.nodes.filter(([, , , health]) => health === "unknown");
  const broken = wall.gpus.filter(([state]) => state === "x").length;
  let at = 0;
  let brokenNodes = 0;
  let firstBroken: readonly string[] = [];
  for (const [node, , , , many] of wall.nodes) {
    const place = wall.gpus.slice(at, at + many).findIndex(([state]) => state === "x");
    at += many;
    if (place < 0) continue;
    brokenNodes++;
    if (firstBroken.length === 0) firstBroken = [node, String(place)];
  }
  return (
    <>
      <div class="side-head ruled">
        <h2>Needs a person</h2>
        {breaches.length + silent.length + broken === 0 && <span>nothing</span>}
      </div>
      <ul class="plain">
        {breaches.slice(0, 5).map(({ namespace, name: bare, ready, minimum, endsAt, ending }) => (
          <li key={`${namespace}/${bare}`}>
            <a href={href("gangs", [namespace, bare])}>
              <span class="chip bad">
                {ending !== "" ? "ending" : endsAt === "" ? "breach" : span(Date.parse(endsAt) - momentMs.value)}
              </span>
              <span>
                {name(bare)} {ending !== "" || endsAt !== "" ? "ends" : "is short"}, {ready} of {minimum} ready
              </span>
            </a>
          </li>
        ))}
        {silent.slice(0, 5).map(([node, , , , , since]) => (
          <li key={node}>
            <a href={href("wall", [node])}>
              <span class="chip">unknown</span>
              <span>
                {name(node)} {since === "" ? "is silent" : `silent for ${span(momentMs.value - Date.parse(since))}`}
              </span>
            </a>
          </li>
        ))}
        {broken > 0 && (
          <li>
            <a href={href("wall", firstBroken)}>
              <span class="chip bad">broken</span>
              <span>
                {plural(broken, "GPU")} on {plural(brokenNodes, "node")}
              </span>
            </a>
          </li>
        )}
      </ul>
    </>
  );
}
