import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { CreateIntent, DeleteIntent } from "../../model/intent.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { AssumeCache } from "../../snapshot/assumeCache.ts";
import { KindTable } from "../../snapshot/kindTable.ts";
import { InFlightWrites, type Pace } from "./inFlightWrites.ts";
import { Writer } from "./writer.ts";

const pods = builtin.Pod;

const create = (name: string): CreateIntent => ({
  type: "create",
  target: { ...pods, namespace: "a", name },
  absentAtRevision: "5",
  object: { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "a" } },
  why: "it is wanted",
});
const decided = (...names: string[]) =>
  names.map((name) => ({ intent: create(name), effects: [{ key: name, value: "live" }] }));

/** In-flight writes with one author, over an API whose answers the test sets. */
function component(answer: (name: string) => Outcome<KubeObject>) {
  const assumeCache = new AssumeCache<string>({ "/pods": { table: new KindTable() } });
  assumeCache.applyEvent("/pods", { type: "relistBegins" });
  assumeCache.applyEvent("/pods", { type: "relistDone", revision: "5" });
  const found: KubeObject[] = [];
  let revision = 5;
  const stored = (name: string): KubeObject => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "a", uid: `u-${name}`, resourceVersion: String(++revision), creationTimestamp: "" },
  });
  const sent: string[] = [];
  const kube = partly<KubeApi>({
    create: async <T extends KubeObject>(_: Resource<T>, { metadata: { name = "" } }: Unstored<T>) => {
      sent.push(name);
      return answer(name) as Outcome<T>;
    },
    list: async <T extends KubeObject>() => succeeded({ items: found as T[], revision: String(revision) }),
  });
  let wakes = 0;
  const author = {
    name: "test",
    wake: () => {
      wakes++;
    },
  };
  const inFlight = new InFlightWrites({ kube, writer: new Writer(kube) }, assumeCache);
  const show = (object: KubeObject): void => void assumeCache.applyEvent("/pods", { type: "put", object });
  const counts = (name: string): boolean => assumeCache.snapshot().values(name).length > 0;
  return { assumeCache, inFlight, author, sent, found, stored, show, counts, wakes: () => wakes };
}

const ramp: Pace = { atOnce: 16, ramp: "all", stop: "all" };
const lost = refused("Unknown", "timed out");

describe("writes of a decision", () => {
  test("all count before the first one is sent, and those that a refusal stopped no longer count", async () => {
    const seen: boolean[] = [];
    const { inFlight, author, sent, counts, stored } = component((name) => {
      seen.push(counts("c"));
      return name === "a" ? succeeded(stored("a")) : refused("Forbidden", "quota");
    });
    const committed = await inFlight.commit(decided("a", "b", "c", "d"), { author, pace: ramp });
    expect(seen[0]).toBe(true);
    // Batches of one, then two: the fourth is not sent.
    expect(sent).toEqual(["a", "b", "c"]);
    expect(committed.map(({ intent, outcome }) => [intent.target.name, outcome.ok])).toEqual([
      ["a", true],
      ["b", false],
      ["c", false],
    ]);
    expect(["a", "b", "c", "d"].filter(counts)).toEqual(["a"]);
  });

  test("one whose call threw an exception may have been sent, and those after it are not sent", async () => {
    const { inFlight, author, assumeCache, counts, sent, stored, show } = component((name) => {
      if (name === "b") throw new Error("a client that throws");
      return succeeded(stored(name));
    });
    await expect(inFlight.commit(decided("a", "b", "c"), { author })).rejects.toThrow("a client that throws");
    expect(sent).toEqual(["a", "b"]);
    expect(assumeCache.stateOf(create("b"))).toBe("unknown");
    expect([counts("b"), counts("c")]).toEqual([true, false]);
    show(stored("b"));
    expect(counts("b")).toBe(false);
  });

  test("enqueue their author when the watch has delivered the last of them", async () => {
    const made = new Map<string, KubeObject>();
    const { inFlight, author, stored, show, wakes } = component((name) => {
      const object = stored(name);
      made.set(name, object);
      return succeeded(object);
    });
    await inFlight.commit(decided("a", "b"), { author });
    expect(await inFlight.resolveWrites(author, {})).toBe("waiting");
    show(made.get("a") as KubeObject);
    expect(wakes()).toBe(0);
    show(made.get("b") as KubeObject);
    expect(wakes()).toBe(1);
    expect(await inFlight.resolveWrites(author, {})).toBe("clear");
  });
});

describe("writes without an answer", () => {
  test("are looked up together: a write that did not happen is decided again, one that did is waited for", async () => {
    const { inFlight, author, found, stored, counts, show, wakes } = component(() => lost);
    await inFlight.commit(decided("a", "b"), { author });
    expect(inFlight.inDoubt(author)).toHaveLength(2);
    const landed = stored("a");
    found.push(landed);
    expect(await inFlight.resolveWrites(author, {})).toBe("waiting");
    expect([counts("a"), counts("b")]).toEqual([true, false]);
    expect(inFlight.inDoubt(author)).toEqual([]);
    show(landed);
    expect(wakes()).toBe(1);
  });

  test("are sent again where their author chooses that, and count all the time", async () => {
    let isBack = false;
    const { inFlight, author, sent, counts, stored, show } = component((name) =>
      isBack ? succeeded(stored(name)) : lost,
    );
    await inFlight.commit(decided("a"), { author });
    await inFlight.resolveWrites(author, { unproven: "send" });
    expect([counts("a"), inFlight.inDoubt(author).length]).toEqual([true, 1]);
    isBack = true;
    await inFlight.resolveWrites(author, { unproven: "send" });
    expect(sent).toEqual(["a", "a", "a"]);
    expect([counts("a"), inFlight.inDoubt(author).length]).toEqual([true, 0]);
    show(stored("a"));
    expect(counts("a")).toBe(false);
  });

  test("of another author are left to that one", async () => {
    const { inFlight, author, sent } = component(() => lost);
    await inFlight.commit(decided("a"), { author });
    const other = { name: "other", wake: () => {} };
    const [second] = await inFlight.commit(decided("a"), { author: other });
    expect([second?.outcome.ok, sent]).toEqual([false, ["a"]]);
  });
});

describe("removals", () => {
  const maps = builtin.ConfigMap;
  const stored = (name: string): KubeObject => ({
    apiVersion: "v1",
    kind: "",
    metadata: { name, namespace: "a", uid: `u-${name}`, resourceVersion: "5", creationTimestamp: "" },
  });
  const removal = (name: string, kind: Resource = pods) => {
    const expected = { uid: `u-${name}`, resourceVersion: "5" };
    const intent: DeleteIntent = { type: "delete", target: { ...kind, namespace: "a", name }, expected, why: "test" };
    return { intent, recheck: () => ({ still: intent }) };
  };
  /** Deletes objects of the API; `answer` is the outcome of each delete. */
  function api(names: readonly string[], answer: (name: string) => Outcome<KubeObject | undefined>) {
    const sent: string[] = [];
    const kube = partly<KubeApi>({
      list: async <T extends KubeObject>() => succeeded({ items: names.map(stored) as T[], revision: "5" }),
      delete: async ({ name }: { readonly name: string }) => {
        sent.push(name);
        return answer(name) as never;
      },
    });
    const tables = { "/pods": new KindTable(), "/configmaps": new KindTable() };
    const assumeCache = new AssumeCache<string>(
      Object.fromEntries(Object.entries(tables).map(([kind, table]) => [kind, { table }])),
    );
    for (const [kind, table] of Object.entries(tables)) {
      assumeCache.applyEvent(kind, { type: "relistBegins" });
      for (const name of names) assumeCache.applyEvent(kind, { type: "put", object: stored(name) });
      assumeCache.applyEvent(kind, { type: "relistDone", revision: "5" });
      expect(table.view().isComplete).toBe(true);
    }
    return { sent, inFlight: new InFlightWrites({ kube, writer: new Writer(kube) }, assumeCache) };
  }

  test("are reported with the index of the removal, and one that was not read is reported as well", async () => {
    const told: [string, number, boolean][] = [];
    const { inFlight } = api(["b", "c"], () => succeeded(undefined));
    const failing = { ...removal("c"), recheck: () => ({ noLongerDue: "kept" }) };
    await inFlight.remove([removal("a"), removal("b"), failing, removal("c")], {
      tell: ({ intent, outcome }, at) => told.push([intent.target.name, at, outcome.ok]),
    });
    expect(told).toEqual([
      ["b", 1, true],
      ["c", 3, true],
    ]);
    const unread = api([], () => succeeded(undefined));
    const refusals: number[] = [];
    const kube = partly<KubeApi>({ list: async () => refused("Unavailable", "no answer") });
    const inFlightOfNone = new InFlightWrites({ kube, writer: new Writer(kube) }, unread.inFlight.assumeCache);
    await inFlightOfNone.remove([removal("a"), removal("b")], { tell: (_, at) => refusals.push(at) });
    expect(refusals).toEqual([0, 1]);
  });

  test("of one verb and kind are stopped by a refusal, and those of another kind are sent", async () => {
    const pace: Pace = { atOnce: 1, ramp: "none", stop: "sort" };
    const { inFlight, sent } = api(["a", "b", "m"], (name) =>
      name === "m" ? succeeded(undefined) : refused("Forbidden", "no right to delete pods"),
    );
    const committed = await inFlight.remove([removal("a"), removal("b"), removal("m", maps)], { pace });
    expect(sent).toEqual(["a", "m"]);
    expect(committed.map(({ intent, outcome }) => [intent.target.name, outcome.ok])).toEqual([
      ["a", false],
      ["m", true],
    ]);
  });
});
