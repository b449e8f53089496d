/** Server-sent events by fetch, so that the token is in a header; differences are applied in one piece. */
import { apply, type Delta } from "../model/window/delta.ts";
import { type PartName, type Parts, partNames, type ReadModel } from "../model/window/parts.ts";
import { type ApiError, errorOf, get, headers } from "./api.ts";
import { type About, about, behindMs, confirmedMs, link, live, offsetMs } from "./state.ts";

const retriesMs = [500, 1000, 2000, 4000, 5000];
/** The server sends at least a heartbeat every 2 s; without one for this long the connection is closed. */
const silenceMs = 10_000;

/** For tests: how often a stream restarted, and how many differences were applied. */
export const counters = { resets: 0, deltas: 0, snapshots: 0, connects: 0 };

let lastEventId = "";
let pending: Partial<Parts> = {};

export async function follow(): Promise<void> {
  let retries = 0;
  for (;;) {
    try {
      await measureClock();
      if (about.value?.mode === "file") {
        await readOnce();
        return;
      }
      await connect(() => {
        retries = 0;
      });
    } catch (error) {
      const { status } = error as Partial<ApiError>;
      if (status === 401 || status === 429) {
        link.value = { kind: "refused", status, message: (error as Error).message };
        if (status === 401) return;
      }
    }
    if (link.value.kind !== "refused") {
      const sinceMs = link.value.kind === "cut" ? link.value.sinceMs : Date.now();
      link.value = { kind: "cut", sinceMs, retries };
    }
    await new Promise((done) => setTimeout(done, retriesMs[Math.min(retries, retriesMs.length - 1)]));
    retries++;
  }
}

async function measureClock(): Promise<void> {
  const startedMs = Date.now();
  const found = await get<About>("about");
  const endedMs = Date.now();
  offsetMs.value = Date.parse(found.clock) - (startedMs + endedMs) / 2;
  about.value = found;
}

async function readOnce(): Promise<void> {
  const read = await Promise.all(partNames.map((part) => get<{ rev: number; at: string }>(part)));
  const [first] = read;
  if (first === undefined) return;
  const parts: Partial<Parts> = Object.fromEntries(partNames.map((part, at) => [part, read[at]]));
  live.value = { rev: first.rev, at: first.at, ...(parts as Parts) };
  confirmedMs.value = Date.parse(first.at);
  link.value = { kind: "live" };
}

async function connect(onOpen: () => void): Promise<void> {
  const abort = new AbortController();
  let timer = setTimeout(() => abort.abort(), silenceMs);
  const heard = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(), silenceMs);
  };
  const resume: Record<string, string> = lastEventId === "" ? {} : { "last-event-id": lastEventId };
  try {
    counters.connects++;
    const response = await fetch(`/api/v1/stream?parts=${partNames.join(",")}`, {
      headers: headers(resume),
      signal: abort.signal,
    });
    if (!response.ok || response.body === null) throw await errorOf(response);
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const texts = (rest + value).split("\n\n");
      rest = texts.pop() ?? "";
      for (const text of texts) take(text);
    }
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

function take(text: string): void {
  let event = "";
  let id = "";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (event === "snapshot") takeSnapshot(JSON.parse(data) as { part: PartName; rev: number; at: string }, id);
  else if (event === "delta") takeDelta(JSON.parse(data) as Delta, id);
  else if (event === "at") {
    const { at, behindMs: behind } = JSON.parse(data) as { at: string; behindMs: number };
    confirmed(at);
    behindMs.value = behind;
  } else if (event === "reset") {
    counters.resets++;
    pending = {};
    lastEventId = "";
  }
}

/** The current model is shown until all parts have arrived. */
function takeSnapshot({ part, rev, at, ...rest }: { part: PartName; rev: number; at: string }, id: string): void {
  counters.snapshots++;
  pending = { ...pending, [part]: rest };
  if (partNames.some((each) => pending[each] === undefined)) return;
  live.value = { rev, at, ...(pending as Parts) };
  pending = {};
  lastEventId = id;
  confirmed(at);
}

function takeDelta(delta: Delta, id: string): void {
  const before: ReadModel | undefined = live.value;
  if (before === undefined || before.rev !== delta.from) {
    // Of another epoch: the full model is read.
    lastEventId = "";
    throw new Error("a difference of another revision");
  }
  counters.deltas++;
  live.value = apply(before, delta);
  lastEventId = id;
  confirmed(delta.at);
}

function confirmed(at: string): void {
  confirmedMs.value = Date.parse(at);
  if (link.value.kind !== "live") link.value = { kind: "live" };
}
