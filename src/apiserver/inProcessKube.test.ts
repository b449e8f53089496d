/** What is special about calling the API in process; what it shares with other ways is in the contract of the port. */
import { describe, expect, test } from "vitest";
import { ManualClock, settle } from "../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { Outcome } from "../model/outcome.ts";
import { builtin } from "../model/resources.generated.ts";
import type { KubeApi, ObjectRef, Watch, WatchEvent } from "../ports/kubeApi.ts";
import type { Store } from "../ports/store.ts";
import { createApi } from "./createApi.ts";
import { inProcessKube } from "./inProcessKube.ts";

const maps = builtin.ConfigMap;
const ref = (name: string): ObjectRef => ({ ...maps, namespace: "default", name });
const map = (name: string, more: object = {}): KubeObject =>
  ({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "default", name }, ...more }) as KubeObject;
const caller = { user: { username: "me", groups: ["system:masters"] }, fieldManager: "tests" };

describe("in process", () => {
  test("every reader of an object gets the store's own", async () => {
    const { core } = await TestApi.start();
    const kube = inProcessKube(core, caller);
    const events: WatchEvent[] = [];
    kube.watch(maps, { labelSelector: "x" }, { event: (event) => events.push(event), ended: () => {} });
    await settle();
    const object = map("a");
    object.metadata.labels = { x: "y" };
    const made = await kube.create(maps, object);
    const stored = core.store.get("/configmaps", "default", "a")?.object();
    const list = await kube.list(maps, { labelSelector: "x" });
    const read = await kube.get(ref("a"));
    const [event] = events;
    expect(made.ok && made.value).toBe(stored);
    expect(read.ok && read.value).toBe(stored);
    expect(list.ok && list.value.items[0]).toBe(stored);
    expect(event !== undefined && "object" in event && event.object).toBe(stored);
  });

  test("a write has taken effect when the call returns, and is watched before it is answered", async () => {
    const { core } = await TestApi.start();
    const kube = inProcessKube(core, caller);
    const story: string[] = [];
    const sink = {
      event: (event: WatchEvent) => void story.push("object" in event ? event.object.metadata.name : event.type),
      ended: () => {},
    };
    kube.watch(maps, { fieldSelector: "metadata.name=a", sendInitialEvents: true }, sink);
    await settle();
    const writing = kube.create(maps, map("a"));
    expect(core.store.get("/configmaps", "default", "a")).toBeDefined();
    expect(story).toEqual(["BOOKMARK", "a"]);
    expect((await writing).ok).toBe(true);
  });

  test("a list by node looks at that node's pods only, also with a write while it is planned", async () => {
    const { core } = await TestApi.start();
    const kube = inProcessKube(core, caller);
    const pods = builtin.Pod;
    const pod = (name: string, nodeName: string) =>
      map(name, { kind: "Pod", spec: { nodeName, containers: [{ name: "c", image: "i" }] } });
    for (let at = 0; at < 20; at++) await kube.create(pods, pod(`p${at}`, `n${at % 10}`));
    const collection = core.store.collection("/pods");
    let walks = 0;
    const at = collection.at.bind(collection);
    collection.at = (...given) => {
      walks++;
      return at(...given);
    };
    const listing = kube.list(pods, { fieldSelector: "spec.nodeName=n3" });
    const writing = kube.create(pods, pod("late", "n3"));
    const listed = await listing;
    await writing;
    expect(listed.ok && listed.value.items.map(({ metadata }) => metadata.name)).toEqual(["late", "p13", "p3"]);
    expect(walks).toBe(0);
  });

  test("a sink may write, and the event of its write follows in order", async () => {
    const { core } = await TestApi.start();
    const kube = inProcessKube(core, caller);
    const names: string[] = [];
    const outcomes: Promise<Outcome<unknown>>[] = [];
    const sink = {
      event: (event: WatchEvent) => {
        if (!("object" in event)) return;
        names.push(event.object.metadata.name);
        if (names.length < 4) outcomes.push(kube.create(maps, map(`n${names.length}`)));
      },
      ended: () => {},
    };
    kube.watch(maps, { namespace: "default", resourceVersion: String(core.store.revision) }, sink);
    await settle();
    await kube.create(maps, map("n0"));
    expect(names).toEqual(["n0", "n1", "n2", "n3"]);
    for (const outcome of await Promise.all(outcomes)) expect(outcome.ok).toBe(true);
  });

  test("without an authoriser everything is allowed, with one what it allows", async () => {
    const { core, api } = await TestApi.start();
    const nobody = { user: { username: "nobody", groups: [] }, fieldManager: "tests" };
    expect((await inProcessKube(core, nobody).list(maps)).ok).toBe(true);
    const watched = inProcessKube(core, nobody, { authorizer: api.rbac });
    expect(await watched.list(maps)).toMatchObject({ ok: false, reason: "Forbidden" });
  });

  test.each<[string, (kube: KubeApi) => unknown, object]>([
    ["get", (kube) => kube.get(ref("a")), { verb: "get", resource: "configmaps", namespace: "default", name: "a" }],
    [
      "get of a part",
      (kube) => kube.get({ ...ref("a"), group: "apps", plural: "deployments", subresource: "scale" }),
      { verb: "get", group: "apps", resource: "deployments", subresource: "scale", namespace: "default", name: "a" },
    ],
    [
      "get of a namespace, which is in itself",
      (kube) => kube.get({ ...maps, plural: "namespaces", namespace: "", name: "team" }),
      { verb: "get", resource: "namespaces", namespace: "team", name: "team" },
    ],
    ["list", (kube) => kube.list(maps), { verb: "list", namespace: "", name: "" }],
    [
      "list of one name",
      (kube) => kube.list(maps, { namespace: "default", fieldSelector: "metadata.name=a" }),
      { verb: "list", namespace: "default", name: "a" },
    ],
    [
      "watch",
      (kube) => kube.watch(maps, { namespace: "default" }, { event: () => {}, ended: () => {} }),
      { verb: "watch", namespace: "default", name: "" },
    ],
    ["create", (kube) => kube.create(maps, map("a")), { verb: "create", namespace: "default", name: "" }],
    ["update", (kube) => kube.update(ref("a"), map("a")), { verb: "update", namespace: "default", name: "a" }],
    [
      "patch",
      (kube) => kube.patch(ref("a"), { type: "merge", body: {} }),
      { verb: "patch", namespace: "default", name: "a" },
    ],
    ["delete", (kube) => kube.delete(ref("a")), { verb: "delete", namespace: "default", name: "a" }],
    [
      "bind",
      (kube) => kube.bind({ ...ref("p"), plural: "pods" }, { node: "n", uid: "u" }),
      { verb: "create", resource: "pods", subresource: "binding", namespace: "default", name: "p" },
    ],
    [
      "evict",
      (kube) => kube.evict({ ...ref("p"), plural: "pods" }),
      { verb: "create", resource: "pods", subresource: "eviction", namespace: "default", name: "p" },
    ],
  ])("%s asks for exactly the right that it needs", async (_, call, access) => {
    const { core } = await TestApi.start();
    const asked: unknown[] = [];
    const authorizer = {
      authorize: (_: unknown, what: unknown) => {
        asked.push(what);
        return { allowed: false, reason: "" };
      },
    };
    call(inProcessKube(core, caller, { authorizer }));
    await settle();
    expect(asked).toMatchObject([access]);
  });

  test("a watch that is stopped while it begins leaves nothing behind", async () => {
    const { core } = await TestApi.start();
    const kube = inProcessKube(core, caller);
    const before = core.hub.size;
    const sink = { event: () => {}, ended: () => {} };
    const stopped = kube.watch(maps, { sendInitialEvents: true }, sink);
    await Promise.resolve();
    await Promise.resolve();
    stopped.stop();
    kube.watch(maps, { resourceVersion: "1" }, sink).stop();
    const held: { watch?: Watch } = {};
    held.watch = kube.watch(maps, { resourceVersion: "1" }, { event: () => held.watch?.stop(), ended: () => {} });
    await settle();
    expect(core.hub.size).toBe(before);
  });

  test("a write that is accepted with doubts calls the caller's warn", async () => {
    const { core } = await TestApi.start();
    const warnings: string[] = [];
    const kube = inProcessKube(core, caller, { warn: (text) => warnings.push(text) });
    expect((await kube.create(maps, map("a", { colour: "red" }))).ok).toBe(true);
    expect(warnings).toEqual(['unknown field "colour"']);
  });

  test("reviews are not served in process", async () => {
    const { core } = await TestApi.start();
    const reviews = builtin.SelfSubjectAccessReview;
    const question = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", metadata: {}, spec: {} };
    const outcome = await inProcessKube(core, caller).create(reviews, question);
    expect(outcome).toMatchObject({ ok: false, reason: "Invalid" });
  });
});

describe("with a disk", () => {
  /** A disk whose syncs a test ends or fails. */
  class SlowDisk implements Store {
    private waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
    private slow = false;

    open = async () => ({ revision: 0, snapshotRevision: 0, cutBytes: 0 });
    append(): void {}
    synced(): Promise<void> {
      if (!this.slow) return Promise.resolve();
      return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
    }
    wantsSnapshot = () => false;
    snapshot = async () => {};
    close = async () => {};

    hold(): void {
      this.slow = true;
    }
    release(error?: Error): void {
      this.slow = false;
      for (const { resolve, reject } of this.waiting.splice(0)) {
        if (error === undefined) resolve();
        else reject(error);
      }
    }
  }

  async function onDisk() {
    const disk = new SlowDisk();
    const { core } = await createApi({
      clock: new ManualClock(),
      random: seededRandom(1),
      log: disk,
      controllers: "none",
    });
    await settle();
    return { disk, core, kube: inProcessKube(core, caller) };
  }

  test("a write is answered when it is safe", async () => {
    const { disk, kube } = await onDisk();
    disk.hold();
    let answered = false;
    const writing = kube.create(maps, map("a")).then((outcome) => {
      answered = true;
      return outcome;
    });
    await settle();
    expect(answered).toBe(false);
    disk.release();
    expect((await writing).ok).toBe(true);
  });

  test("a caller that cancels meanwhile gets the outcome Unknown", async () => {
    const { disk, kube } = await onDisk();
    disk.hold();
    const listeners = new Set<() => void>();
    const cancel = {
      cancelled: false,
      onCancel: (run: () => void) => {
        listeners.add(run);
        return () => void listeners.delete(run);
      },
    };
    const writing = kube.create(maps, map("a"), { cancel });
    await settle();
    for (const run of [...listeners]) run();
    expect(await writing).toMatchObject({ ok: false, reason: "Unknown" });
    disk.release();
    await settle();
    expect((await kube.get(ref("a"))).ok).toBe(true);
    expect(listeners.size).toBe(0);
  });

  test("a disk that fails makes writes Unknown and reads Unavailable, and watches end as Unavailable", async () => {
    const { disk, kube } = await onDisk();
    disk.hold();
    const writing = kube.create(maps, map("a"));
    await settle();
    disk.release(new Error("ENOSPC"));
    expect(await writing).toMatchObject({ ok: false, reason: "Unknown" });
    expect(await kube.get(ref("a"))).toMatchObject({ ok: false, reason: "Unavailable" });
    expect(await kube.create(maps, map("b"))).toMatchObject({ ok: false, reason: "Unknown" });
    const ends: unknown[] = [];
    kube.watch(maps, { sendInitialEvents: true }, { event: () => {}, ended: (why) => ends.push(why) });
    await settle();
    expect(ends).toMatchObject([{ ok: false, reason: "Unavailable" }]);
  });
});
