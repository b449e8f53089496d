/**
 * A client that watches through every accident: cut connections, streams that end, a past that was forgotten. It keeps
 * what it heard as stretches: from a known state at one revision, all events up to another.
 */
import type { KubeJson, WatchLine, WatchReader } from "../httpCaller.ts";
import type { Filter } from "./history.ts";
import { collection, kinds, type ModelKind, namespaces, within } from "./kinds.ts";
import { pick, type Run } from "./run.ts";

export interface Stretch {
  /** The state it began with. */
  state: KubeJson[];
  since: number;
  events: WatchLine[];
  /** How far it is known to be complete. */
  upTo: number;
}

export class Watcher {
  readonly kind: ModelKind;
  readonly filter: Filter;
  readonly stretches: Stretch[] = [];
  /** Refusals because of a forgotten past, with the oldest revision that the server had then. */
  readonly expiries: { asked: number; compacted: number }[] = [];
  readonly problems: string[] = [];
  resumes = 0;
  bookmarks = 0;
  private readonly run: Run;
  private readonly path: string;
  private readonly watchList: boolean;
  private reader: WatchReader | undefined;

  constructor(run: Run) {
    this.run = run;
    this.kind = pick(run, kinds);
    const namespace = pick(run, ["", ...namespaces]);
    const filter = pick(run, this.kind.filters);
    this.filter = within(filter, namespace);
    this.path = `${collection(this.kind, namespace)}?${filter.query}`;
    this.watchList = run.below(2) === 0;
  }

  /** Breaks the connection, as a network would. */
  cut(): void {
    this.reader?.destroy();
  }

  /** Watches until the run is finished and everything up to its end was heard. */
  async watch(): Promise<void> {
    for (;;) {
      const stretch = await this.begin();
      if (stretch === undefined) continue;
      this.stretches.push(stretch);
      if ((await this.follow(stretch)) === "finished") return;
    }
  }

  /** A fresh state: by a list, or by a watch that sends it. Undefined when the connection broke meanwhile. */
  private async begin(): Promise<Stretch | undefined> {
    if (!this.watchList) {
      const list = await this.run.caller.get(this.path);
      const since = Number(list.json.metadata.resourceVersion);
      return { state: list.json.items, since, events: [], upTo: since };
    }
    const options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    const reader = await this.run.caller.watch(`${this.path}&${options}`);
    this.reader = reader;
    const state: KubeJson[] = [];
    for (;;) {
      const line = await reader.next();
      if (line === undefined) return undefined;
      if (line.type === "ADDED") state.push(line.object);
      else if (line.type === "BOOKMARK") {
        const annotations = line.object.metadata["annotations"] as Record<string, string> | undefined;
        if (annotations?.["k8s.io/initial-events-end"] !== "true") {
          this.problems.push("a bookmark came before the initial events had ended");
        }
        reader.destroy();
        const since = Number(line.object.metadata.resourceVersion);
        return { state, since, events: [], upTo: since };
      } else {
        this.problems.push(`${line.type} among the initial events: ${JSON.stringify(line.object)}`);
        return undefined;
      }
    }
  }

  private async follow(stretch: Stretch): Promise<"finished" | "expired"> {
    for (;;) {
      const last = this.run.finished;
      const reader = await this.run.caller.watch(
        `${this.path}&watch=1&resourceVersion=${stretch.upTo}&allowWatchBookmarks=true`,
      );
      this.reader = reader;
      // Nothing more is written: a bookmark now says that all has been said.
      if (last) this.run.server.core.hub.sendBookmarks();
      // The end came while this watch was being opened, too late to be closed with the others.
      else if (this.run.finished) reader.destroy();
      for (;;) {
        const line = await reader.next();
        if (line === undefined) break;
        if (line.type === "ERROR") {
          this.expiries.push({ asked: stretch.upTo, compacted: this.run.server.core.store.compactedRevision });
          if (line.object.code !== 410) this.problems.push(`ERROR ${JSON.stringify(line.object)}`);
          return "expired";
        }
        const revision = Number(line.object.metadata.resourceVersion);
        if (line.type !== "BOOKMARK") {
          stretch.events.push(line);
          stretch.upTo = revision;
          continue;
        }
        this.bookmarks++;
        if (revision < stretch.upTo) this.problems.push(`a bookmark went back from ${stretch.upTo} to ${revision}`);
        stretch.upTo = revision;
        if (last && revision >= this.run.server.core.store.revision) {
          reader.destroy();
          return "finished";
        }
      }
      this.resumes++;
    }
  }
}
