import type { ComponentChildren } from "preact";
import { goWith, href, route, type View, views } from "../route.ts";
import {
  about,
  ageMs,
  confirmedMs,
  forgotten,
  freshness,
  link,
  momentMs,
  offsetMs,
  openSums,
  seconds,
  serverNowMs,
  shown,
  toggleTheme,
} from "../state.ts";
import { count, gpus, shortSpan, span } from "../words.ts";
import { openFinder } from "./finder.tsx";

const labels: Readonly<Record<View, string>> = { wall: "Wall", why: "Why", queues: "Queues", gangs: "Gangs" };

/** How much of a view needs a look; nothing when there is nothing. */
function badgeOf(view: View): { readonly text: string; readonly tone: "warn" | "bad" } | undefined {
  const model = shown.value;
  if (model === undefined) return undefined;
  const waiting = model.jobs.jobs.length;
  if (view === "why" && waiting > 0) return { text: count(waiting), tone: "warn" };
  const breaches = model.gangs.gangs.filter(({ breach, ending }) => breach !== "" || ending !== "").length;
  if (view === "gangs" && breaches > 0) return { text: count(breaches), tone: "bad" };
  return undefined;
}

export function TopBar() {
  const { view } = route.value;
  return (
    <header class="top">
      <a class="brand" href={href("wall")} aria-label="Muster">
        <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
          <g fill="currentColor">
            <rect x="1" y="1" width="5" height="18" rx="1.5" />
            <rect x="7.5" y="6" width="5" height="13" rx="1.5" />
            <rect x="14" y="1" width="5" height="18" rx="1.5" />
          </g>
        </svg>
        Muster
      </a>
      <nav class="nav" aria-label="views">
        {views.map((each) => {
          const badge = badgeOf(each);
          return (
            <a key={each} href={href(each)} aria-current={each === view ? "page" : undefined}>
              {labels[each]}
              {badge !== undefined && <b class={badge.tone}>{badge.text}</b>}
            </a>
          );
        })}
      </nav>
      <span class="fill" />
      <div class="tools">
        {about.value?.isDemo === true && (
          <span class="demo" title="embedded API server, simulated nodes">
            demo cluster
          </span>
        )}
        {about.value?.mode === "file" && <span class="demo">saved snapshot</span>}
        <button type="button" class="find" aria-label="find" onClick={openFinder}>
          <svg
            width="13"
            height="13"
            viewBox="0 0 14 14"
            fill="none"
            stroke="currentColor"
            stroke-width="1.5"
            aria-hidden="true"
          >
            <circle cx="6" cy="6" r="4.2" />
            <path d="M9.2 9.2L13 13" />
          </svg>
          <span>Find</span>
          <span class="fill" />
          <kbd>/</kbd>
        </button>
        <RevisionChip />
        <button type="button" class="icon" aria-label="dark or light" onClick={toggleTheme}>
          <svg width="15" height="15" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
            <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
          </svg>
        </button>
      </div>
    </header>
  );
}

/** Which revision everything on the screen is of, and how old that is. */
function RevisionChip() {
  const state = freshness.value;
  const rev = shown.value?.rev;
  const age =
    state === "reading"
      ? "–"
      : state === "past"
        ? `${shortSpan(serverNowMs.value - momentMs.value)} ago`
        : state === "file"
          ? `${shortSpan(serverNowMs.value - confirmedMs.value)} old`
          : ageMs.value < 10_000
            ? `${(ageMs.value / 1000).toFixed(1)} s`
            : `${shortSpan(ageMs.value)} old`;
  return (
    <button
      type="button"
      class={`rev ${state}`}
      data-rev={rev ?? ""}
      data-state={state}
      title={state === "past" ? "back to live" : "copy a link to this revision"}
      onClick={() => (state === "past" ? goWith({ rev: "" }) : copyLink(rev))}
    >
      <i aria-hidden="true" />
      <span>@{count(rev)}</span>
      <span class="age num">{age}</span>
    </button>
  );
}

function copyLink(rev: number | undefined): void {
  if (rev === undefined) return;
  const address = new URL(location.href);
  address.searchParams.set("rev", String(rev));
  void navigator.clipboard?.writeText(address.toString());
}

/** What is wrong with what is shown; each says its part, and nothing is hidden. */
export function Stripes() {
  const rev = shown.value?.rev;
  const sums = openSums.value;
  const lost = forgotten.value;
  const silentMs = seconds.value + offsetMs.value - confirmedMs.value;
  return (
    <div class="stripes">
      <div role="status">
        {freshness.value === "stale" && (
          <div class="stripe" data-stripe="stale">
            {link.value.kind === "refused"
              ? `${link.value.message}.`
              : `The server has not answered for ${span(silentMs)}.`}{" "}
            Everything here is as of revision {count(rev)}.
          </div>
        )}
      </div>
      {sums !== undefined && (
        <div class="stripe red" role="alert" data-stripe="sums">
          The sums do not close: {gpus(sums.total)} GPUs, and the parts come to {gpus(sums.right)} at revision{" "}
          {count(rev)}.
          <button
            type="button"
            onClick={() => void navigator.clipboard?.writeText(JSON.stringify({ rev, ...shown.value?.wall }))}
          >
            copy report
          </button>
        </div>
      )}
      {lost !== undefined && (
        <div class="stripe" role="alert" data-stripe="forgotten">
          Revision {count(lost.rev)} is no longer known. The oldest is {count(lost.oldest)}.
          <button type="button" onClick={() => goWith({ rev: String(lost.oldest) })}>
            show the oldest
          </button>
          <button type="button" onClick={() => goWith({ rev: "" })}>
            go to live
          </button>
        </div>
      )}
    </div>
  );
}

const icons: Readonly<Record<View, ComponentChildren>> = {
  wall: (
    <>
      <rect x="2" y="2" width="5" height="5" />
      <rect x="9" y="2" width="5" height="5" />
      <rect x="2" y="9" width="5" height="5" />
      <rect x="9" y="9" width="5" height="5" />
    </>
  ),
  why: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.8v3.6l2.2 1.6" />
    </>
  ),
  queues: <path d="M2 4h12M2 8h8M2 12h5" />,
  gangs: (
    <>
      <circle cx="4" cy="8" r="2" />
      <circle cx="12" cy="4" r="2" />
      <circle cx="12" cy="12" r="2" />
      <path d="M6 7l4-2M6 9l4 2" />
    </>
  ),
};

/** On a phone the views are below. */
export function Tabs() {
  const { view } = route.value;
  return (
    <nav class="tabs" aria-label="views, below">
      {views.map((each) => (
        <a key={each} href={href(each)} aria-current={each === view ? "page" : undefined}>
          <svg
            width="18"
            height="18"
            viewBox="0 0 16 16"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
            aria-hidden="true"
          >
            {icons[each]}
          </svg>
          <span>{labels[each]}</span>
        </a>
      ))}
    </nav>
  );
}

/** The server refuses this tab. */
export function Refused() {
  const state = link.value;
  if (state.kind !== "refused" || shown.value !== undefined) return null;
  return (
    <div class="page">
      <div class="page-head">
        <h1>{state.status === 401 ? "The token is missing or wrong" : "The server refuses this page"}</h1>
      </div>
      <p class="dim">
        {state.status === 401
          ? "Open the address that `muster up` printed: it carries the token behind #."
          : state.message}
      </p>
    </div>
  );
}
