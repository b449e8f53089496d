/** A client that lists at exact revisions and page by page while others write. */
import type { KubeJson } from "../httpCaller.ts";
import type { Filter } from "./history.ts";
import { collection, kinds, type ModelKind, namespaces, within } from "./kinds.ts";
import { afterAnswers, pick, type Run } from "./run.ts";

export interface Listing {
  kind: ModelKind;
  filter: Filter;
  /** The revision that the answer claims. */
  revision: number;
  items: KubeJson[];
  pages: number;
}

export interface Readings {
  listings: Listing[];
  /** Refusals for a forgotten past: the revision asked for, and the oldest one that the server still had. */
  expired: { asked: number; compacted: number }[];
  problems: string[];
}

type Read = { kind: ModelKind; filter: Filter; path: string };

export async function readRandomly(run: Run, readings: Readings): Promise<void> {
  while (!run.finished) {
    const kind = pick(run, kinds);
    const namespace = pick(run, ["", ...namespaces]);
    const filter = pick(run, kind.filters);
    const path = `${collection(kind, namespace)}?${filter.query}`;
    const read = { kind, filter: within(filter, namespace), path };
    if (run.below(2) === 0) await readExactly(run, readings, read);
    else await readPages(run, readings, read);
    await afterAnswers(run, 1 + run.below(6));
  }
}

async function readExactly(run: Run, readings: Readings, { kind, filter, path }: Read): Promise<void> {
  const { store } = run.server.core;
  const revision = Math.max(1, store.durableRevision - run.below(120));
  const answer = await run.caller.get(`${path}&resourceVersion=${revision}&resourceVersionMatch=Exact`);
  if (answer.code === 410) {
    readings.expired.push({ asked: revision, compacted: store.compactedRevision });
    return;
  }
  if (answer.code !== 200 || answer.json.metadata.resourceVersion !== String(revision)) {
    readings.problems.push(`an exact list at ${revision} got ${answer.code} ${answer.text.slice(0, 200)}`);
    return;
  }
  readings.listings.push({ kind, filter, revision, items: answer.json.items, pages: 1 });
}

async function readPages(run: Run, readings: Readings, { kind, filter, path }: Read): Promise<void> {
  const limit = 1 + run.below(3);
  const items: KubeJson[] = [];
  let revision = 0;
  let token = "";
  for (let pages = 1; ; pages++) {
    const answer = await run.caller.get(`${path}&limit=${limit}${token === "" ? "" : `&continue=${token}`}`);
    const { metadata } = answer.json;
    if (answer.code === 410) {
      readings.expired.push({ asked: revision, compacted: run.server.core.store.compactedRevision });
      await readRest(run, readings, { path, limit, token: String(metadata["continue"]), after: items.at(-1) });
      return;
    }
    if (answer.code !== 200) {
      readings.problems.push(`page ${pages} got ${answer.code} ${answer.text.slice(0, 200)}`);
      return;
    }
    if (pages === 1) revision = Number(metadata.resourceVersion);
    else if (revision !== Number(metadata.resourceVersion)) {
      readings.problems.push(`page ${pages} is at ${metadata.resourceVersion}, the first was at ${revision}`);
    }
    items.push(...answer.json.items);
    token = (metadata["continue"] as string | undefined) ?? "";
    if (token === "") {
      if (metadata["remainingItemCount"] !== undefined) readings.problems.push("items remain after the last page");
      readings.listings.push({ kind, filter, revision, items, pages });
      return;
    }
    if (answer.json.items.length !== limit)
      readings.problems.push(`a page of ${answer.json.items.length} for ${limit}`);
    await afterAnswers(run, run.below(4));
  }
}

/** After 410 the token in the answer leads on, in the present state, behind what was read. */
async function readRest(
  run: Run,
  readings: Readings,
  from: { path: string; limit: number; token: string; after: KubeJson | undefined },
): Promise<void> {
  let { token } = from;
  let last = from.after === undefined ? "" : keyOf(from.after);
  while (token !== "") {
    const answer = await run.caller.get(`${from.path}&limit=${from.limit}&continue=${token}`);
    if (answer.code === 410) {
      token = String(answer.json.metadata["continue"]);
      continue;
    }
    if (answer.code !== 200) {
      readings.problems.push(`the rest after 410 got ${answer.code} ${answer.text.slice(0, 200)}`);
      return;
    }
    for (const item of answer.json.items) {
      if (keyOf(item) <= last) readings.problems.push(`${keyOf(item)} came after ${last}`);
      last = keyOf(item);
    }
    token = (answer.json.metadata["continue"] as string | undefined) ?? "";
  }
}

function keyOf(object: KubeJson): string {
  return `${object.metadata.namespace}/${object.metadata.name}`;
}
