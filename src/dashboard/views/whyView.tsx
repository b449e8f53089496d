import { useEffect, useState } from "preact/hooks";
import type { JobRow } from "../../model/window/parts.ts";
import type { WhyFindings } from "../../model/window/why.ts";
import { get } from "../api.ts";
import { Cures, Evidence, Holders, Places } from "../pieces/evidence.tsx";
import { Swatch } from "../pieces/swatch.tsx";
import { WaitingList } from "../pieces/waitingList.tsx";
import { href, route } from "../route.ts";
import { freshness, isPast, momentMs, shown } from "../state.ts";
import { bareName, count, gpus, name, plural, span } from "../words.ts";

/** Why a job waits. */
export function WhyView() {
  const jobs = shown.value?.jobs.jobs;
  const asked = route.value.path.slice(0, 2).join("/");
  const job = jobs?.find(({ id }) => id === asked) ?? (asked === "" ? jobs?.[0] : undefined);
  return (
    <div class={asked === "" ? "why-view" : "why-view selected"}>
      <div class="why-list">
        <div class="side-head">
          <h2>Waiting</h2>
          <span>{count(jobs?.length)}, in the order of the line</span>
        </div>
        {jobs?.length === 0 ? (
          <p class="empty">Nothing waits.</p>
        ) : (
          <WaitingList {...(job === undefined ? {} : { current: job.id })} />
        )}
      </div>
      <div class="why-main">
        <div class="why-inner">
          {job === undefined ? <NoJob asked={asked} isRead={jobs !== undefined} /> : <Reason key={job.id} job={job} />}
        </div>
      </div>
    </div>
  );
}

function NoJob({ asked, isRead }: { readonly asked: string; readonly isRead: boolean }) {
  if (!isRead) return <h1 class="headline">{"–"}</h1>;
  if (asked === "") return <h1 class="headline">Nothing waits.</h1>;
  return (
    <>
      <h1 class="headline">{name(asked)} does not wait.</h1>
      <p class="sentence">At this revision it has its places, or it does not exist.</p>
    </>
  );
}

function Reason({ job }: { readonly job: JobRow }) {
  const { id, queue, priority, pods, placed, gpus: milli, since, line, head, reason, message, cure, state } = job;
  const sentence = cure === "" ? message : `${message}. To run: ${cure}`;
  const rest = pods - placed;
  const why = useFindings(id);
  const [chosen, choose] = useState("");
  const more = why?.cures.find((each) => each.id === chosen)?.nodes ?? [];
  return (
    <>
      <div class="crumb">
        <Swatch queue={queue} />
        <span>{queue === "" ? "no queue" : name(queue)}</span>
        <span class="faint sep">/</span>
        <b class="mono">{bareName(id)}</b>
        <span class="faint sep">·</span>
        <span>
          {plural(pods, "pod")}
          {rest > 0 && milli > 0 ? ` × ${gpus(milli / rest)} GPUs` : ""}
        </span>
        <span class="faint sep">·</span>
        <span>priority {priority}</span>
        <span class="faint sep">·</span>
        <span>waits {span(momentMs.value - Date.parse(since))}</span>
        {queue !== "" && (
          <>
            <span class="faint sep">·</span>
            <span>
              {line} in line in {name(queue)}
            </span>
          </>
        )}
        <span class="fill" />
        <span class="wide">
          <button type="button" class="btn small" onClick={() => void navigator.clipboard?.writeText(sentence)}>
            Copy sentence
          </button>{" "}
          <a class="btn small" href={href("wall", [], queue === "" ? {} : { queue })}>
            Show on the wall
          </a>
        </span>
      </div>
      <h1 class="headline">{head}</h1>
      {reason !== "" && (
        <p class="sentence">
          <span class={state === "Nominated" ? "chip ok" : "chip warn"}>{reason}</span>
          {"  "}
          <span data-sentence>{sentence}</span>. <span class="faint">The same words are in the pod's condition.</span>
        </p>
      )}
      {why !== undefined && (
        <>
          <Places why={why} more={more} />
          <div class="why-grid">
            <section>
              <div class="sec">
                <h2>{plural(why.total, "node")}, each with its reason</h2>
                {/Over/.test(reason) && <span>if its queue let it</span>}
              </div>
              <Evidence why={why} more={more} />
            </section>
            <section>
              <div class="sec">
                <h2>What would make it run</h2>
                <span>tried on this snapshot</span>
              </div>
              <Cures why={why} cure={cure} chosen={chosen} choose={choose} />
            </section>
            <section>
              <div class="sec">
                <h2>What holds what it needs</h2>
              </div>
              <Holders why={why} />
            </section>
          </div>
        </>
      )}
      <p class="faint mono">$ muster why {name(id)}</p>
    </>
  );
}

/** Worked out by the server on demand: read anew when the job changes, and every few seconds while it is looked at. */
function useFindings(id: string): WhyFindings | undefined {
  const [found, keep] = useState<WhyFindings | undefined>(undefined);
  const isLive = !isPast.value && freshness.value !== "stale";
  useEffect(() => {
    if (!isLive) {
      keep(undefined);
      return undefined;
    }
    let isOver = false;
    const read = (): void => {
      const [namespace = "", bare = ""] = [id.slice(0, id.indexOf("/")), id.slice(id.indexOf("/") + 1)];
      get<WhyFindings>(`why/${encodeURIComponent(namespace)}/${encodeURIComponent(bare)}`).then(
        (answer) => {
          if (!isOver) keep(answer);
        },
        () => {
          if (!isOver) keep(undefined);
        },
      );
    };
    read();
    const timer = setInterval(read, 5_000);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [id, isLive]);
  return found;
}
