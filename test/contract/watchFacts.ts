import { expect, test } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { RefusalReason } from "../../src/model/outcome.ts";
import type { Watch, WatchOptions } from "../../src/ports/kubeApi.ts";
import { at, type ContractCluster, configMap, configMaps, needsServer, value, Watched } from "./contractCluster.ts";
import { ownNamespace } from "./ownNamespace.ts";

export function watchFacts(cluster: () => ContractCluster): void {
  const own = ownNamespace("watches", cluster);
  const labels = { ours: "yes" };
  const make = async (name: string, more: object = {}): Promise<KubeObject> =>
    value(await cluster().api.create(configMaps, configMap(own(), name, more, { labels })));
  const update = async (object: KubeObject, change: object): Promise<KubeObject> =>
    value(await cluster().api.update(at(configMaps, own(), object.metadata.name), { ...object, ...change }));
  const relabel = async (name: string, value_: string): Promise<KubeObject> => {
    const body = { metadata: { labels: { ours: value_ } } };
    return value(await cluster().api.patch(at(configMaps, own(), name), { type: "merge", body }));
  };
  const remove = async (name: string): Promise<void> => {
    value(await cluster().api.delete(at(configMaps, own(), name)));
  };
  // Every namespace has `kube-root-ca.crt`, which the facts leave out.
  const watch = (options: WatchOptions = {}): Watched =>
    new Watched(cluster(), configMaps, { namespace: own(), labelSelector: "ours=yes", ...options });

  test("a watch with initial events delivers existing objects, a bookmark when they are complete, and then changes", async () => {
    const a = await make("a");
    const b = await make("b");
    const watched = watch({ sendInitialEvents: true });
    await watched.untilComplete();
    expect(watched.events.slice(0, 2)).toEqual([
      { type: "ADDED", object: a },
      { type: "ADDED", object: b },
    ]);
    const complete = watched.events[2];
    expect(complete).toMatchObject({ type: "BOOKMARK", initialEventsEnd: true });
    if (complete?.type === "BOOKMARK") {
      expect(Number(complete.revision)).toBeGreaterThanOrEqual(Number(b.metadata.resourceVersion));
    }
    const c = await make("c");
    await watched.untilNamed("c");
    expect(watched.events[3]).toEqual({ type: "ADDED", object: c });
    watched.watch.stop();
  });

  test("a watch from a revision delivers every later change once and in order", async () => {
    const a = await make("a");
    const list = value(await cluster().api.list(configMaps, { namespace: own() }));
    const changed = await update(a, { data: { step: "2" } });
    await make("b");
    const watched = watch({ resourceVersion: list.revision });
    await remove("a");
    await make("c");
    await watched.untilNamed("c");
    expect(watched.story).toEqual(["MODIFIED a", "ADDED b", "DELETED a", "ADDED c"]);
    expect(watched.events[0]).toEqual({ type: "MODIFIED", object: changed });
    watched.watch.stop();
  });

  test("a watch resumes where another stopped, and no event is lost or delivered twice", async () => {
    const first = watch({ sendInitialEvents: true });
    await first.untilComplete();
    await make("a");
    await first.untilNamed("a");
    first.watch.stop();
    const last = first.events.at(-1);
    const resourceVersion = last !== undefined && "object" in last ? last.object.metadata.resourceVersion : "";
    await make("b");
    const second = watch({ resourceVersion });
    await second.untilNamed("b");
    expect(second.story).toEqual(["ADDED b"]);
    second.watch.stop();
  });

  test("a watch without a revision begins with existing objects", async () => {
    await make("a");
    const watched = watch();
    await watched.untilNamed("a");
    await make("b");
    await watched.untilNamed("b");
    expect(watched.story).toEqual(["ADDED a", "ADDED b"]);
    watched.watch.stop();
  });

  test("a DELETED event has the last state of the object with the revision of the deletion", async () => {
    const made = await make("a", { data: { key: "value" } });
    const watched = watch({ resourceVersion: made.metadata.resourceVersion });
    await remove("a");
    await watched.untilNamed("a");
    const [gone] = watched.events;
    expect(gone).toMatchObject({ type: "DELETED", object: { data: { key: "value" }, kind: "ConfigMap" } });
    if (gone !== undefined && "object" in gone) {
      expect(Number(gone.object.metadata.resourceVersion)).toBeGreaterThan(Number(made.metadata.resourceVersion));
    }
    watched.watch.stop();
  });

  test("an object that stops matching a selector is DELETED for its watches, and ADDED when it matches again", async () => {
    const made = await make("a");
    const watched = watch({ resourceVersion: made.metadata.resourceVersion });
    const left = await relabel("a", "no");
    const back = await relabel("a", "yes");
    await make("z");
    await watched.untilNamed("z");
    expect(watched.story).toEqual(["DELETED a", "ADDED a", "ADDED z"]);
    const [gone, returned] = watched.events;
    if (gone !== undefined && "object" in gone) {
      expect(gone.object.metadata).toMatchObject({
        labels: { ours: "yes" },
        resourceVersion: left.metadata.resourceVersion,
      });
    }
    expect(returned).toEqual({ type: "ADDED", object: back });
    watched.watch.stop();
  });

  test("a watch by name delivers only that object", async () => {
    const made = await make("a");
    const resourceVersion = made.metadata.resourceVersion;
    const watched = watch({ resourceVersion, fieldSelector: "metadata.name=b" });
    await update(made, { data: { step: "2" } });
    await make("b");
    await watched.untilNamed("b");
    expect(watched.story).toEqual(["ADDED b"]);
    watched.watch.stop();
  });

  test("bookmarks are sent to a watch that allows them, and to no other", async ({ skip }) => {
    needsServer(cluster(), skip);
    const { resourceVersion } = (await make("a")).metadata;
    const informed = watch({ resourceVersion, allowBookmarks: true });
    const plain = watch({ resourceVersion });
    await make("b");
    await informed.untilNamed("b");
    await plain.untilNamed("b");
    cluster().sendBookmarks();
    await informed.until(({ events }) => events.at(-1)?.type === "BOOKMARK");
    const bookmark = informed.events.at(-1);
    expect(bookmark).toMatchObject({ type: "BOOKMARK", initialEventsEnd: false });
    if (bookmark?.type === "BOOKMARK") expect(Number(bookmark.revision)).toBeGreaterThan(Number(resourceVersion));
    await make("c");
    await plain.untilNamed("c");
    expect(plain.story).toEqual(["ADDED b", "ADDED c"]);
    informed.watch.stop();
    plain.watch.stop();
  });

  test("a watch resumes from a bookmark", async () => {
    const watched = watch({ sendInitialEvents: true });
    await watched.untilComplete();
    const complete = watched.events.find((event) => event.type === "BOOKMARK");
    watched.watch.stop();
    await make("a");
    const resumed = watch({ resourceVersion: complete?.type === "BOOKMARK" ? complete.revision : "" });
    await resumed.untilNamed("a");
    expect(resumed.story).toEqual(["ADDED a"]);
    resumed.watch.stop();
  });

  test("a watch from a compacted revision ends as Expired, once and without events", async ({ skip }) => {
    needsServer(cluster(), skip);
    const { resourceVersion } = (await make("a")).metadata;
    await make("b");
    cluster().compact();
    const watched = watch({ resourceVersion });
    await watched.until(({ ends }) => ends.length > 0);
    expect(watched.ends).toMatchObject([{ ok: false, reason: "Expired" }]);
    expect(watched.events).toEqual([]);
  });

  test("a watch that times out ends cleanly, once, and after all its events", async ({ skip }) => {
    needsServer(cluster(), skip);
    const watched = watch({ sendInitialEvents: true });
    await watched.untilComplete();
    await make("a");
    cluster().closeWatches();
    await watched.until(({ ends }) => ends.length > 0);
    expect(watched.ends).toEqual([undefined]);
    expect(watched.story.filter((words) => words !== "BOOKMARK")).toEqual(["ADDED a"]);
  });

  test("after stop() nothing is delivered, not even the end", async ({ skip }) => {
    needsServer(cluster(), skip);
    const stopped = watch({ sendInitialEvents: true });
    const other = watch({ sendInitialEvents: true });
    await stopped.untilComplete();
    await other.untilComplete();
    const told = stopped.events.length;
    const writing = make("a");
    stopped.watch.stop();
    const toldAtStop = stopped.events.length;
    await writing;
    await make("b");
    await other.untilNamed("b");
    cluster().closeWatches();
    await other.until(({ ends }) => ends.length > 0);
    expect(stopped.events).toHaveLength(toldAtStop);
    expect(toldAtStop - told).toBeLessThanOrEqual(1);
    expect(stopped.ends).toEqual([]);
  });

  test("a watch that is stopped at once delivers nothing", async () => {
    await make("a");
    const stopped = watch({ sendInitialEvents: true });
    stopped.watch.stop();
    stopped.watch.stop();
    const other = watch({ sendInitialEvents: true });
    await other.untilComplete();
    other.watch.stop();
    expect(stopped.events).toEqual([]);
    expect(stopped.ends).toEqual([]);
  });

  test.each<[string, (before: string) => WatchOptions]>([
    ["while it begins with what exists", () => ({ sendInitialEvents: true })],
    ["while it catches up", (before) => ({ resourceVersion: before })],
  ])("a sink may stop its watch from within %s, and that event is its last", async (_, options) => {
    const before = value(await cluster().api.list(configMaps, { namespace: own() })).revision;
    await make("a");
    await make("b");
    const names: string[] = [];
    const held: { watch?: Watch } = {};
    const stopped = new Promise<void>((resolve) => {
      held.watch = cluster().api.watch(
        configMaps,
        { namespace: own(), labelSelector: "ours=yes", ...options(before) },
        {
          event: (event) => {
            if ("object" in event) names.push(event.object.metadata.name);
            held.watch?.stop();
            resolve();
          },
          ended: () => names.push("ended"),
        },
      );
    });
    const other = watch({ sendInitialEvents: true });
    await other.untilComplete();
    await stopped;
    other.watch.stop();
    expect(names).toEqual(["a"]);
  });

  test("a watch delivers each write of concurrent writers, in order of revision", async () => {
    const watched = watch({ sendInitialEvents: true });
    await watched.untilComplete();
    const writers = Array.from({ length: 6 }, async (_, writer) => {
      let object = await make(`w${writer}`, { data: { step: "0" } });
      for (let step = 1; step < 6; step++) object = await update(object, { data: { step: String(step) } });
      await remove(`w${writer}`);
    });
    await Promise.all(writers);
    await watched.until(({ story }) => story.filter((words) => words.startsWith("DELETED")).length === 6);
    const live = watched.events.flatMap((event) => ("object" in event ? [event] : []));
    expect(live).toHaveLength(6 * 7);
    const revisions = live.map(({ object }) => Number(object.metadata.resourceVersion));
    expect(revisions).toEqual([...revisions].sort((one, other) => one - other));
    for (let writer = 0; writer < 6; writer++) {
      const steps = live
        .filter(({ object }) => object.metadata.name === `w${writer}`)
        .map(({ type, object }) => `${type} ${(object["data"] as { step: string }).step}`);
      expect(steps).toEqual([
        "ADDED 0",
        "MODIFIED 1",
        "MODIFIED 2",
        "MODIFIED 3",
        "MODIFIED 4",
        "MODIFIED 5",
        "DELETED 5",
      ]);
    }
    watched.watch.stop();
  });

  test.each<[string, RefusalReason, Resource, WatchOptions]>([
    ["a kind that is not there", "NotFound", { ...configMaps, plural: "nothings" }, {}],
    ["a label selector that cannot be read", "Invalid", configMaps, { labelSelector: "a in (" }],
    ["a field that cannot be selected by", "Invalid", configMaps, { fieldSelector: "spec.colour=red" }],
  ])("a watch for %s ends as %s", async (_, reason, kind, options) => {
    const watched = new Watched(cluster(), kind, options);
    await watched.until(({ ends }) => ends.length > 0);
    expect(watched.ends).toMatchObject([{ ok: false, reason }]);
    expect(watched.events).toEqual([]);
  });

  test("a watch from a revision that is no number ends, and not as Expired: a new list would not help", async () => {
    const watched = new Watched(cluster(), configMaps, { resourceVersion: "soon" });
    await watched.until(({ ends }) => ends.length > 0);
    // kube-apiserver gives no reason.
    const [end] = watched.ends;
    expect(end?.ok === false && ["Invalid", "Unknown"].includes(end.reason)).toBe(true);
    expect(watched.events).toEqual([]);
  });

  test("a watch by a user without the right ends as Forbidden", async () => {
    const watched = new Watched(cluster(), configMaps, { namespace: own() }, cluster().stranger);
    await watched.until(({ ends }) => ends.length > 0);
    expect(watched.ends).toMatchObject([{ ok: false, reason: "Forbidden" }]);
  });
}
