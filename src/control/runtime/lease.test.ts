import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { SteppedClock } from "../../../testing/control/steppedClock.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { ConfigMap } from "../../model/kubernetes.generated.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { CallOptions, KubeApi } from "../../ports/kubeApi.ts";
import { fencedKube } from "./fencedKube.ts";
import { Lease } from "./lease.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";

const place = { namespace: "kube-system", name: "muster" };
const leases = "coordination.k8s.io/leases";

async function started(identities: string[], wrap: (kube: KubeApi) => KubeApi = (kube) => kube) {
  const api = await TestApi.start({ controllers: "none" });
  const user = { username: "tester", groups: ["system:masters"] };
  const history: string[] = [];
  const candidates = identities.map((identity, index) => {
    const clock = new SteppedClock(api.clock);
    const kube = new FaultyKube(wrap(inProcessKube(api.core, { user, fieldManager: identity })));
    const log = new KeptLog();
    const metrics = new MemoryMetrics();
    const lease = new Lease({ kube, clock, random: seededRandom(index), log, metrics, ...place, identity });
    const start = () =>
      lease.start({
        acquired: (epoch) => history.push(`${identity} leads in ${epoch.number}`),
        lost: () => history.push(`${identity} lost it`),
      });
    return { identity, clock, kube, log, lease, start, fenced: fencedKube(kube, lease, "muster") };
  });
  const proven = () => candidates.filter(({ lease }) => lease.isProven).map(({ identity }) => identity);
  const spec = () => api.get(leases, "kube-system/muster")?.["spec"] as Record<string, unknown>;
  const pass = async (ms: number): Promise<void> => {
    await settle();
    await api.clock.advance(ms);
  };
  return { api, pass, candidates, history, proven, spec };
}

const lostRequests = { before: () => refused("Unknown", "no route") };

describe("a lease", () => {
  test("is taken by the first, and kept while it is renewed", async () => {
    const { candidates, pass, proven, history, spec } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    await settle();
    for (let second = 0; second < 60; second++) {
      await pass(1000);
      expect(proven()).toEqual(["a"]);
    }
    expect(history).toEqual(["a leads in 0"]);
    expect(spec()).toMatchObject({ holderIdentity: "a", leaseDurationSeconds: 15, leaseTransitions: 0 });
    const named = candidates[1]?.log.lines.map(({ message, fields }) => `${message}: ${fields["holder"]}`);
    expect(named).toEqual(["another process leads: a"]);
  });

  test("is released on a stop, and the next one leads within two tries", async () => {
    const { candidates, pass, proven, history } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    await pass(5000);
    await candidates[0]?.lease.stop();
    expect(proven()).toEqual([]);
    await pass(4500);
    expect(proven()).toEqual(["b"]);
    expect(history).toEqual(["a leads in 0", "b leads in 1"]);
  });

  test("a leader that cannot renew stops writing after 10 s, before a follower takes over", async () => {
    const { candidates, pass, proven, history } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    await pass(5000);
    const [a] = candidates;
    if (a !== undefined) a.kube.faults = lostRequests;
    const led: string[] = [];
    for (let tenth = 0; tenth < 300; tenth++) {
      await pass(100);
      expect(proven().length).toBeLessThanOrEqual(1);
      const now = proven()[0] ?? "none";
      if (led.at(-1) !== now) led.push(now);
    }
    expect(led).toEqual(["a", "none", "b"]);
    expect(history).toEqual(["a leads in 0", "a lost it", "b leads in 1"]);
  });

  test("a renewal that took effect without a response does not end the leadership", async () => {
    const { candidates, pass, proven, history } = await started(["a"]);
    candidates[0]?.start();
    await pass(3000);
    const [a] = candidates;
    if (a !== undefined)
      a.kube.faults = { after: (verb) => (verb === "update" ? refused("Unknown", "reset") : undefined) };
    await pass(3000);
    if (a !== undefined) a.kube.faults = {};
    await pass(3000);
    expect(proven()).toEqual(["a"]);
    expect(history).toEqual(["a leads in 0"]);
  });

  test("a take-over that landed without an answer continues in a new epoch", async () => {
    const { candidates, pass, history } = await started(["a"]);
    const [a] = candidates;
    if (a !== undefined)
      a.kube.faults = { after: (verb) => (verb === "create" ? refused("Unknown", "reset") : undefined) };
    a?.start();
    await pass(5000);
    expect(history).toEqual(["a leads in 1"]);
  });

  test("a process that was suspended with its machine knows when it resumes that its lease may have expired", async () => {
    const { candidates, pass } = await started(["a"]);
    const [a] = candidates;
    a?.start();
    await pass(5000);
    expect(a?.lease.isProven).toBe(true);
    // Timers and the monotonic clock were suspended too: the process writes before any of its timers runs.
    a?.clock.step(20_000);
    expect(a?.lease.isProven).toBe(false);
    await pass(2500);
    expect(a?.lease.isProven).toBe(true);
  });

  test.each([
    { name: "stood still", stepMs: 0 },
    { name: "was paused while its clock was set back", stepMs: -18_000 },
  ])("a process that $name knows before it writes that others may lead", async ({ stepMs }) => {
    const { candidates, pass, proven } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    const [a] = candidates;
    await pass(5000);
    a?.clock.pauseTimers();
    await pass(20_000);
    a?.clock.step(stepMs);
    // None of its timers has run yet.
    expect(proven()).toEqual(["b"]);
    a?.clock.goOn();
    await pass(5000);
    expect(proven()).toEqual(["b"]);
  });

  test("a clock that steps back neither extends nor shortens a lease", async () => {
    const { candidates, pass, proven, history } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    const [a] = candidates;
    await pass(5000);
    if (a !== undefined) a.kube.faults = lostRequests;
    a?.clock.step(-3_600_000);
    expect(a?.lease.isProven).toBe(true);
    for (let second = 0; second < 40; second++) {
      await pass(1000);
      expect(proven().length).toBeLessThanOrEqual(1);
    }
    expect(proven()).toEqual(["b"]);
    expect(history).toEqual(["a leads in 0", "a lost it", "b leads in 1"]);
  });

  test("a follower whose clock steps ahead does not take over early", async () => {
    const { candidates, pass, history, proven } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    await pass(5000);
    candidates[1]?.clock.step(3_600_000);
    await pass(30_000);
    expect(history).toEqual(["a leads in 0"]);
    expect(proven()).toEqual(["a"]);
  });

  test("that is deleted under its leader is not taken before the leader has stopped", async () => {
    const { candidates, pass, api, proven } = await started(["a", "b"]);
    for (const { start } of candidates) start();
    await pass(5000);
    const [a] = candidates;
    if (a !== undefined) a.kube.faults = lostRequests;
    await api.delete(leases, "kube-system/muster");
    for (let tenth = 0; tenth < 250; tenth++) {
      await pass(100);
      expect(proven().length).toBeLessThanOrEqual(1);
    }
    expect(proven()).toEqual(["b"]);
  });

  test("that is deleted and created again continues its epochs", async () => {
    const { candidates, pass, api, history } = await started(["a"]);
    candidates[0]?.start();
    await pass(5000);
    await api.edit(leases, "kube-system/muster", (lease) => {
      (lease["spec"] as { leaseTransitions: number }).leaseTransitions = 6;
    });
    await pass(10_000);
    await api.delete(leases, "kube-system/muster");
    await pass(30_000);
    expect(history).toEqual(["a leads in 0", "a lost it", "a leads in 7", "a lost it", "a leads in 8"]);
  });

  test("a renewal counts from before its request was sent, however late the answer", async () => {
    let isSlow = false;
    const { candidates, pass, api, proven } = await started(["a", "b"], (kube) => ({
      ...bound(kube),
      update: async (ref, object) => {
        const outcome = await kube.update(ref, object);
        if (isSlow) await new Promise<void>((heard) => api.clock.after(7000, heard));
        return outcome;
      },
    }));
    for (const { start } of candidates) start();
    const [a] = candidates;
    await pass(3000);
    isSlow = true;
    // The next renewal lands at once and its answer arrives after 7 s; by then no write is sent.
    await pass(5000);
    if (a !== undefined) a.kube.faults = lostRequests;
    const led: string[] = [];
    for (let tenth = 0; tenth < 300; tenth++) {
      await pass(100);
      expect(proven().length).toBeLessThanOrEqual(1);
      led.push(...proven());
    }
    expect(led).toContain("b");
    expect(led.filter((who) => who === "a").length).toBeLessThanOrEqual(75);
  });

  test("that another client wrote to is read again, and stays ours", async () => {
    const { candidates, pass, api, history, proven } = await started(["a"]);
    candidates[0]?.start();
    await pass(5000);
    await api.edit(leases, "kube-system/muster", (lease) => {
      lease.metadata.annotations = { note: "hello" };
    });
    await pass(20_000);
    expect(history).toEqual(["a leads in 0"]);
    expect(proven()).toEqual(["a"]);
  });

  test("with times that do not grow is refused", async () => {
    const { candidates } = await started(["a"]);
    const options = { kube: candidates[0]?.kube as KubeApi, clock: candidates[0]?.clock as SteppedClock };
    const ports = { random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
    expect(
      () => new Lease({ ...options, ...ports, ...place, identity: "a", times: { renewDeadlineMs: 15_000 } }),
    ).toThrow("must be below");
  });

  test("never has two proven holders, whatever the network and the clocks do", async () => {
    const fault = fc.record({
      who: fc.nat(2),
      do: fc.constantFrom("lose", "unheard", "heal", "stepBack", "stepAhead", "pauseTimers", "goOn", "wait"),
      ms: fc.integer({ min: 100, max: 12_000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 5, maxLength: 25 }), fc.nat(), async (faults, seed) => {
        const random = seededRandom(seed);
        let clock: TestApi["clock"] | undefined;
        const world = await started(["a", "b", "c"], (kube) => slow(kube, () => clock, random));
        clock = world.api.clock;
        const { candidates, pass, proven } = world;
        for (const { start } of candidates) start();
        for (const { who, do: what, ms } of faults) {
          const candidate = candidates[who];
          if (candidate === undefined) continue;
          const { kube } = candidate;
          if (what === "lose") kube.faults = lostRequests;
          else if (what === "unheard") kube.faults = { after: () => refused("Unknown", "reset") };
          else if (what === "heal") kube.faults = {};
          else if (what === "stepBack") candidate.clock.step(-ms * 3);
          else if (what === "stepAhead") candidate.clock.step(ms * 3);
          else if (what === "pauseTimers") candidate.clock.pauseTimers();
          else if (what === "goOn") candidate.clock.goOn();
          for (let elapsed = 0; elapsed < ms; elapsed += 500) {
            await pass(500);
            expect(proven().length).toBeLessThanOrEqual(1);
          }
        }
        for (const { kube, clock: own } of candidates) {
          kube.faults = {};
          own.goOn();
        }
        clock = undefined;
        await pass(60_000);
        expect(proven()).toHaveLength(1);
        for (const { log } of candidates) expect(log.errors).toEqual([]);
      }),
      { numRuns: 15 },
    );
  });
});

describe("a fence", () => {
  const configMaps = builtin.ConfigMap;
  const ref = { ...configMaps, namespace: "default", name: "x" };

  test("sends no write unless the lease is proven, and always sends reads", async () => {
    const { candidates, pass } = await started(["a"]);
    const [a] = candidates;
    if (a === undefined) return;
    const object = configMapNamed("default/x") as KubeObject;
    const writes = (): Promise<Outcome<unknown>>[] => [
      a.fenced.create(configMaps, object),
      a.fenced.update(ref, object),
      a.fenced.patch(ref, { type: "merge", body: {} }),
      a.fenced.delete(ref),
      a.fenced.bind({ ...ref, plural: "pods" }, { node: "n", uid: "u" }),
      a.fenced.evict({ ...ref, plural: "pods" }),
    ];
    for (const write of writes()) expect(await write).toMatchObject({ ok: false, reason: "Fenced" });
    expect(a.kube.calls).toEqual([]);
    expect(await a.fenced.list(configMaps)).toMatchObject({ ok: true });
    a.start();
    await pass(1000);
    for (const write of writes()) expect(await write).not.toMatchObject({ reason: "Fenced" });
    a.kube.faults = lostRequests;
    await pass(10_001);
    a.kube.faults = {};
    const before = a.kube.calls.length;
    a.clock.step(-1);
    for (const write of writes()) expect(await write).toMatchObject({ ok: false, reason: "Fenced" });
    expect(a.kube.calls.length).toBe(before);
  });

  test("cancels what is queued in its client when the lease is lost, also if the process leads again by then", async () => {
    const waiting: (() => boolean)[] = [];
    const { candidates, pass, history } = await started(["a"], (kube) => ({
      ...bound(kube),
      delete: async (_, options) => {
        waiting.push(options?.maySend ?? (() => true));
        return refused("Unavailable", "no connection is free");
      },
    }));
    const [a] = candidates;
    if (a === undefined) return;
    a.start();
    await pass(1000);
    await a.fenced.delete(ref);
    const [maySend] = waiting;
    expect(maySend?.()).toBe(true);
    a.kube.faults = lostRequests;
    await pass(15_000);
    expect(maySend?.()).toBe(false);
    a.kube.faults = {};
    await pass(5000);
    expect(history.at(-1)).toBe("a leads in 1");
    expect(a.lease.isProven).toBe(true);
    expect(maySend?.()).toBe(false);
  });

  test("writes the epoch into the name of the field manager, and into an annotation of what is applied", async () => {
    const { candidates, pass, api } = await started(["a"]);
    const [a] = candidates;
    a?.start();
    await pass(1000);
    await a?.fenced.create(configMaps, {
      ...(configMapNamed("default/x") as Unstored<ConfigMap>),
      data: { k: "v" },
    });
    const data = {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "y", namespace: "default" },
      data: { k: "v" },
    };
    await a?.fenced.patch({ ...ref, name: "y" }, { type: "apply", body: data });
    const managers = (name: string) => api.get("/configmaps", `default/${name}`)?.metadata.managedFields?.[0]?.manager;
    expect([managers("x"), managers("y")]).toEqual(["muster/0.a", "muster"]);
    expect(api.get("/configmaps", "default/y")?.metadata.annotations).toEqual({ "muster.dev/epoch": "0.a" });
  });
});

/** Requests and answers are delayed. A cancelled caller does not wait for them, so a write may land later. */
function slow(kube: KubeApi, clock: () => TestApi["clock"] | undefined, random: { uint32(): number }): KubeApi {
  const later = <T>(options: CallOptions | undefined, send: () => Promise<Outcome<T>>): Promise<Outcome<T>> => {
    const time = clock();
    if (time === undefined) return send();
    const [there, back] = [random.uint32() % 5000, random.uint32() % 5000];
    const isQuick = random.uint32() % 3 > 0;
    return new Promise((resolve) => {
      options?.cancel?.onCancel(() => resolve(refused("Unknown", "gave up")));
      time.after(isQuick ? 5 : there, () => {
        void send().then((outcome) => time.after(isQuick ? 5 : back, () => resolve(outcome)));
      });
    });
  };
  return {
    ...bound(kube),
    get: (ref, options) => later(options, () => kube.get(ref)),
    create: (kind, object, options) => later(options, () => kube.create(kind, object)),
    update: (ref, object, options) => later(options, () => kube.update(ref, object)),
  };
}

function bound(kube: KubeApi): KubeApi {
  return {
    get: (...args) => kube.get(...args),
    list: (...args) => kube.list(...args),
    watch: (...args) => kube.watch(...args),
    create: (...args) => kube.create(...args),
    update: (...args) => kube.update(...args),
    patch: (...args) => kube.patch(...args),
    delete: (...args) => kube.delete(...args),
    bind: (...args) => kube.bind(...args),
    evict: (...args) => kube.evict(...args),
  };
}
