import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BindIntent, type CreateIntent, type Intent, intentId, type PatchIntent } from "../model/intent.ts";
import type { KubeObject } from "../model/objects/object.ts";
import { refused, succeeded } from "../model/outcome.ts";
import { builtin } from "../model/resources.generated.ts";
import { AssumeCache } from "./assumeCache.ts";
import { type KindEvent, KindTable } from "./kindTable.ts";
import { type Attempt, transitions } from "./ledger.ts";

const pods = "/pods";
const requests = "x/requests";
const creationTimestamp = "2026-01-01T00:00:00Z";

interface Thing {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly rv: number;
  readonly pod: string;
  readonly node: string;
}

function objectOf({ kind, name, uid, rv, pod, node }: Thing): KubeObject {
  const metadata = { name, namespace: "a", uid, resourceVersion: String(rv), creationTimestamp };
  return { apiVersion: "v1", kind: kind === pods ? "Pod" : "Request", metadata, pod, node };
}

/** A pod that is on a node, and a request for one, hold the pod's place. */
function placeOf(object: KubeObject): { key: string; value: string }[] {
  const node = object["node"] as string;
  return node === "" ? [] : [{ key: `place/${object["pod"] as string}`, value: node }];
}

function newAssumeCache(): AssumeCache<string> {
  return new AssumeCache<string>({
    [pods]: { table: new KindTable({ freeze: true }), effects: placeOf },
    [requests]: { table: new KindTable({ freeze: true }), effects: placeOf },
  });
}

interface Write {
  intent: Intent;
  thing: Thing;
  /** What it makes true, or may: a create that is decided again may name another node. */
  nodes: string[];
  /** What the client knows of each attempt, oldest first. */
  attempts: ("waiting" | "done" | "refused" | "unknown")[];
  /** When a consistent read showed that it is over. */
  overAt?: number;
  revision: number | undefined;
}

interface Request {
  readonly write: Write;
  readonly node: string;
  readonly thing: Thing;
  readonly token: Attempt;
  readonly attempt: number;
  result: { ok: boolean; rv?: number } | undefined;
  /** The one who asked is still there to hear it. */
  isHeard: boolean;
}

/** A server, a network and a client's watch; every step is one thing that may happen. */
class World {
  revision = 10;
  readonly things = new Map<string, Thing>();
  readonly events: { kind: string; rv: number; event: KindEvent; thing: Thing; isGone: boolean }[] = [];
  readonly net: Request[] = [];
  readonly delivered: Record<string, number> = { [pods]: 0, [requests]: 0 };
  assumeCache = newAssumeCache();
  /** What the watch has shown so far, kept the simple way. */
  shown = new Map<string, Thing>();
  shownRevision: Record<string, number> = { [pods]: 0, [requests]: 0 };
  /**
   * The newest state or deletion of each request that the watch has shown; a new list jumps over what came and went.
   */
  lastShown = new Map<string, number>();
  writes: Write[] = [];
  lives = 0;
  /** How often each id was entered, less how often it ended. */
  readonly balance = new Map<string, number>();

  constructor() {
    for (const name of ["p0", "p1", "p2"]) this.put({ kind: pods, name, pod: "", node: "", uid: "", rv: 0 }, true);
    this.relist(pods);
    this.relist(requests);
  }

  put(thing: Thing, isNew = false): Thing {
    const uid = isNew ? `u${this.lives++}` : thing.uid;
    const stored = { ...thing, uid, rv: ++this.revision, pod: thing.pod === "" ? uid : thing.pod };
    this.things.set(`${thing.kind} ${thing.name}`, stored);
    this.log(stored, false);
    return stored;
  }

  remove(thing: Thing): void {
    this.things.delete(`${thing.kind} ${thing.name}`);
    this.log({ ...thing, rv: ++this.revision }, true);
  }

  private log(thing: Thing, isGone: boolean): void {
    const event: KindEvent = { type: isGone ? "removed" : "put", object: objectOf(thing) };
    this.events.push({ kind: thing.kind, rv: thing.rv, event, thing, isGone });
  }

  observe(kind: string): void {
    const next = this.events.find((each) => each.kind === kind && each.rv > (this.shownRevision[kind] as number));
    if (next === undefined) {
      this.say(kind, { type: "bookmark", revision: String(this.revision) }, this.revision);
      return;
    }
    if (next.isGone) this.shown.delete(`${kind} ${next.thing.name}`);
    else this.shown.set(`${kind} ${next.thing.name}`, next.thing);
    this.lastShown.set(next.thing.name, next.rv);
    this.say(kind, next.event, next.rv);
  }

  private say(kind: string, event: KindEvent, revision: number): void {
    this.shownRevision[kind] = revision;
    this.end(this.assumeCache.applyEvent(kind, event).ended);
  }

  relist(kind: string): void {
    this.assumeCache.applyEvent(kind, { type: "relistBegins" });
    for (const key of [...this.shown.keys()]) if (key.startsWith(`${kind} `)) this.shown.delete(key);
    for (const [key, thing] of this.things) {
      if (thing.kind !== kind) continue;
      this.shown.set(key, thing);
      this.lastShown.set(thing.name, thing.rv);
      this.assumeCache.applyEvent(kind, { type: "put", object: objectOf(thing) });
    }
    this.say(kind, { type: "relistDone", revision: String(this.revision) }, this.revision);
  }

  decideBind(name: string, node: string): void {
    const thing = this.shown.get(`${pods} ${name}`);
    if (thing === undefined || thing.node !== "") return;
    const target = { ...builtin.Pod, namespace: "a", name };
    const expected = { uid: thing.uid, resourceVersion: String(thing.rv) };
    const intent: BindIntent = { type: "bind", target, expected, node, why: "it fits" };
    this.decide({ intent, thing, nodes: [node], attempts: [], revision: undefined });
  }

  /** A write of what is there already: it succeeds, and the object keeps its revision. */
  decideIdle(name: string): void {
    const thing = this.shown.get(`${pods} ${name}`);
    if (thing === undefined) return;
    const target = { ...builtin.Pod, namespace: "a", name };
    const expected = { uid: thing.uid, resourceVersion: String(thing.rv) };
    const intent: PatchIntent = { type: "patch", target, expected, patch: {}, why: "it is so already" };
    this.decide({ intent, thing, nodes: [], attempts: [], revision: undefined });
  }

  decideCreate(name: string, node: string): void {
    const pod = this.shown.get(`${pods} ${name}`);
    if (pod === undefined || this.things.has(`${requests} ${pod.uid}`)) return;
    const target = { group: "x", version: "v1", plural: "requests", namespace: "a", name: pod.uid };
    const absentAtRevision = String(this.revision);
    const object = { apiVersion: "x/v1", kind: "Request", metadata: { name: pod.uid, namespace: "a" } };
    const intent: CreateIntent = { type: "create", target, absentAtRevision, object, why: "it fits" };
    const thing = { kind: requests, name: pod.uid, uid: "", rv: this.revision, pod: pod.uid, node };
    this.decide({ intent, thing, nodes: [node], attempts: [], revision: undefined });
  }

  private decide(write: Write): void {
    const { pod } = write.thing;
    const [node] = write.nodes;
    const effects = node === undefined ? [] : [{ key: `place/${pod}`, value: node }];
    const verdict = this.assumeCache.decide(write.intent, effects);
    const known = this.writes.find((other) => intentId(other.intent) === intentId(write.intent) && this.isLive(other));
    if (verdict === "counted" && known !== undefined && [undefined, "unknown"].includes(known.attempts.at(-1))) {
      known.intent = write.intent;
      known.thing = write.thing;
      known.nodes.push(...write.nodes);
    }
    if (verdict !== "decided") return;
    this.count(intentId(write.intent), 1);
    this.writes.push(write);
  }

  send(write: Write): void {
    const last = write.attempts.at(-1);
    // A create is not sent twice: its name may have been used and freed in between.
    if (last !== undefined && (last !== "unknown" || write.intent.type === "create")) return;
    const token = this.assumeCache.send(write.intent);
    if (token === undefined) return;
    write.attempts.push("waiting");
    const node = write.nodes.at(-1) ?? "";
    const { thing } = write;
    this.net.push({ write, node, thing, token, attempt: write.attempts.length - 1, result: undefined, isHeard: true });
  }

  /** The server works on a request, whether its client still waits for it or not. */
  commit(request: Request): void {
    if (request.result !== undefined) return;
    const { thing, node } = request;
    const { intent } = request.write;
    const current = this.things.get(`${thing.kind} ${thing.name}`);
    if (intent.type === "create") {
      request.result = current === undefined ? { ok: true, rv: this.put({ ...thing, node }, true).rv } : { ok: false };
    } else {
      const fits = current?.uid === thing.uid && current.rv === thing.rv;
      if (fits && intent.type === "patch") request.result = { ok: true, rv: current.rv };
      else request.result = fits ? { ok: true, rv: this.put({ ...current, node }).rv } : { ok: false };
    }
  }

  answer(request: Request, tellsRevision: boolean): void {
    const { write, result, attempt, token } = request;
    if (result === undefined || !request.isHeard) return;
    request.isHeard = false;
    write.attempts[attempt] = result.ok ? "done" : "refused";
    if (result.ok && tellsRevision) write.revision = result.rv;
    const answer = tellsRevision ? { revision: String(result.rv) } : { isChange: write.intent.type === "bind" };
    const outcome = result.ok ? succeeded(answer) : refused("Conflict", "moved on");
    this.end(this.assumeCache.answer(write.intent, outcome, token));
  }

  timeOut(request: Request): void {
    if (!request.isHeard) return;
    request.isHeard = false;
    request.write.attempts[request.attempt] = "unknown";
    this.end(this.assumeCache.answer(request.write.intent, refused("Unknown", "timed out"), request.token));
  }

  read(write: Write): void {
    const thing = this.things.get(`${write.thing.kind} ${write.thing.name}`);
    const object = thing === undefined ? undefined : objectOf(thing);
    const hasMovedOn = thing === undefined ? write.intent.type !== "create" : thing.rv > write.thing.rv;
    // What was never sent and can no longer succeed is dropped at once.
    if (hasMovedOn && write.attempts.length === 0) this.writes = this.writes.filter((other) => other !== write);
    if (hasMovedOn) write.overAt = this.revision;
    this.end(this.assumeCache.read(write.intent, { object, revision: String(this.revision) }));
  }

  /** Everything in memory is lost; what was sent is durable, and its answers are lost. */
  restart(restoreFirst: boolean): void {
    for (const request of this.net) request.isHeard = false;
    this.writes = this.writes.filter((write) => write.attempts.length > 0 && this.isLive(write));
    for (const write of this.writes) write.attempts = ["unknown"];
    for (const write of this.writes) {
      write.revision = undefined;
      delete write.overAt;
    }
    this.assumeCache = newAssumeCache();
    this.balance.clear();
    this.shown = new Map();
    this.lastShown = new Map();
    this.shownRevision = { [pods]: 0, [requests]: 0 };
    const restore = (): void => {
      for (const { intent, thing, nodes } of this.writes) {
        const effects = nodes.map((value) => ({ key: `place/${thing.pod}`, value }));
        const verdict = this.assumeCache.restore(intent, effects);
        if (verdict === "unknown") this.count(intentId(intent), 1);
      }
    };
    if (restoreFirst) restore();
    this.relist(pods);
    this.relist(requests);
    if (!restoreFirst) restore();
  }

  private end(ended: readonly { id: string; end: string }[]): void {
    for (const { id } of ended) this.count(id, -1);
  }

  private count(id: string, by: number): void {
    const balance = (this.balance.get(id) ?? 0) + by;
    expect(balance).toBeOneOf([0, 1]);
    this.balance.set(id, balance);
  }

  /** From the whole history, not step by step: may this write still be true without the watch saying so? */
  isLive(write: Write): boolean {
    const { thing, attempts, intent } = write;
    const shown = this.shown.get(`${thing.kind} ${thing.name}`);
    const shownTo = this.shownRevision[thing.kind] as number;
    if (write.revision !== undefined && shownTo >= write.revision) return false;
    if (write.overAt !== undefined && shownTo >= write.overAt) return false;
    if (attempts.at(-1) === "refused" && !attempts.includes("unknown")) return false;
    if (intent.type === "create") {
      return (this.lastShown.get(thing.name) ?? 0) <= thing.rv;
    }
    if (shown === undefined || shown.uid !== thing.uid || shown.rv > thing.rv) return false;
    return !this.writes.some(
      (rival) =>
        rival !== write &&
        rival.intent.type !== "patch" &&
        rival.thing.uid === thing.uid &&
        rival.attempts.includes("done"),
    );
  }

  /** What counts for a pod according to the simple model. */
  expected(pod: string): string[] {
    const live = this.writes.filter((write) => write.thing.pod === pod && this.isLive(write));
    const places = live.flatMap(({ nodes }) => nodes);
    for (const [key, thing] of this.shown) {
      const isReplaced = live.some(
        (write) =>
          write.nodes.length > 0 &&
          `${write.thing.kind} ${write.thing.name}` === key &&
          write.attempts.includes("done"),
      );
      if (thing.pod === pod && thing.node !== "" && !isReplaced) places.push(thing.node);
    }
    return [...new Set(places)].sort();
  }

  check(): void {
    const snapshot = this.assumeCache.snapshot();
    for (let life = 0; life < this.lives; life++) {
      expect([...snapshot.values(`place/u${life}`)].sort()).toEqual(this.expected(`u${life}`));
    }
    // What our own writes made true at the server, and what they may still make true, counts.
    for (const { write, result, thing, node } of this.net) {
      const { intent } = write;
      const current = this.things.get(`${thing.kind} ${thing.name}`);
      const mayLand =
        result === undefined &&
        (intent.type === "create" ? current === undefined : current?.uid === thing.uid && current.rv === thing.rv);
      const isTrue = result?.ok === true && current?.rv === result.rv;
      if (write.nodes.length > 0 && (mayLand || isTrue)) expect(snapshot.values(`place/${thing.pod}`)).toContain(node);
    }
    expect(snapshot.revision).toBe(String(Math.min(...Object.values(this.shownRevision))));
  }
}

const index = fc.nat(7);
const step = fc.oneof(
  fc.record({ do: fc.constantFrom("decideBind", "decideCreate", "decideIdle"), pod: fc.nat(2), node: fc.nat(2) }),
  fc.record({ do: fc.constantFrom("send", "commit", "answer", "timeOut", "read"), pod: index, node: fc.nat(1) }),
  fc.record({ do: fc.constantFrom("send", "commit", "answer", "observe"), pod: index, node: fc.nat(1) }),
  fc.record({ do: fc.constantFrom("touch", "deletePod", "recreate", "deleteRequest"), pod: fc.nat(2), node: index }),
  fc.record({ do: fc.constantFrom("relist", "restart"), pod: fc.nat(9), node: fc.nat(1) }),
);

function play(world: World, { do: what, pod, node }: { do: string; pod: number; node: number }): void {
  const name = `p${pod}`;
  const write = world.writes.at(-1 - pod);
  const request = world.net.at(-1 - pod);
  const current = world.things.get(`${pods} ${name}`);
  const kind = node % 2 === 0 ? pods : requests;
  if (what === "decideBind") world.decideBind(name, `n${node}`);
  else if (what === "decideIdle") world.decideIdle(name);
  else if (what === "decideCreate") world.decideCreate(name, `n${node}`);
  else if (what === "send" && write !== undefined) world.send(write);
  else if (what === "commit" && request !== undefined) world.commit(request);
  else if (what === "answer" && request !== undefined) world.answer(request, node === 1);
  else if (what === "timeOut" && request !== undefined) world.timeOut(request);
  else if (what === "read" && write !== undefined) world.read(write);
  else if (what === "observe") world.observe(kind);
  else if (what === "touch" && current !== undefined) world.put(current);
  else if (what === "deletePod" && current !== undefined) world.remove(current);
  else if (what === "recreate" && current === undefined) {
    world.put({ kind: pods, name, pod: "", node: "", uid: "", rv: 0 }, true);
  } else if (what === "deleteRequest") {
    const found = [...world.things.values()].filter((thing) => thing.kind === requests)[node];
    if (found !== undefined) world.remove(found);
  } else if (what === "relist") world.relist(kind);
  else if (what === "restart" && pod === 0) world.restart(node === 1);
}

describe("a assumeCache with a ledger", () => {
  test("at every step what counts is what is true or may be true, once, whatever the order of events", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: "max" }), (steps) => {
        const world = new World();
        for (const each of steps) {
          play(world, each);
          world.check();
        }
        // Faults stop: answers arrive, who relies on nothing writes once more, and the watch catches up.
        for (const request of world.net) world.timeOut(request);
        for (const thing of [...world.things.values()]) world.put(thing);
        for (const request of world.net) world.commit(request);
        for (const kind of [pods, requests])
          while ((world.shownRevision[kind] as number) < world.revision) world.observe(kind);
        world.check();
        // A request that came and went within one gap of the watch was never seen: only its owner can end that intent.
        const open = world.writes.filter(
          (write) => write.attempts.length > 0 && write.intent.type !== "create" && world.isLive(write),
        );
        expect(open).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("the steps of the property reach every state of an intent", () => {
    const reached = new Set<string>();
    for (const steps of fc.sample(fc.array(step, { minLength: 60, maxLength: 120, size: "max" }), {
      numRuns: 3000,
      seed: 1,
    })) {
      const world = new World();
      for (const each of steps) {
        play(world, each);
        for (const { intent } of world.writes) reached.add(world.assumeCache.stateOf(intent) ?? "ended");
      }
    }
    const all = Object.keys(transitions).filter((state) => !["observed", "rejected", "abandoned"].includes(state));
    expect([...reached].sort()).toEqual([...all, "ended"].sort());
  });

  test("a snapshot does not change after it was taken, and an unchanged assumeCache has one snapshot", () => {
    const world = new World();
    world.decideBind("p0", "n1");
    const before = world.assumeCache.snapshot();
    expect(world.assumeCache.snapshot()).toBe(before);
    world.send(world.writes[0]!);
    world.commit(world.net[0]!);
    world.observe(pods);
    expect([...before.counted()]).toEqual([["place/u0", ["n1"]]]);
    expect(before.kind(pods).objects.get("a/p0")?.["node"]).toBe("");
    expect(world.assumeCache.snapshot().kind(pods).objects.get("a/p0")?.["node"]).toBe("n1");
  });

  test("a assumeCache is of no revision until every kind has had its list", () => {
    const assumeCache = newAssumeCache();
    assumeCache.applyEvent(pods, { type: "relistBegins" });
    assumeCache.applyEvent(pods, { type: "relistDone", revision: "7" });
    expect(assumeCache.snapshot()).toMatchObject({ isComplete: false, revision: "0" });
    assumeCache.applyEvent(requests, { type: "relistBegins" });
    assumeCache.applyEvent(requests, { type: "relistDone", revision: "5" });
    expect(assumeCache.snapshot()).toMatchObject({ isComplete: true, revision: "5" });
  });
});
