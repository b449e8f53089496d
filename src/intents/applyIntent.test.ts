import { describe, expect, test } from "vitest";
import { podNamed, TestApi } from "../../testing/apiserver/testApi.ts";
import { inProcessKube } from "../apiserver/inProcessKube.ts";
import type { BindIntent, DeleteIntent, EvictIntent, Intent, NewObject, PatchIntent } from "../model/intent.ts";
import { expectedOf } from "../model/intent.ts";
import type { KubeObject } from "../model/objects/object.ts";
import { builtin } from "../model/resources.generated.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import { applyIntent } from "./applyIntent.ts";
import { destroyAfterLooking, lookAgain } from "./lookAgain.ts";
import { mergeFrom } from "./mergeFrom.ts";

const pods = builtin.Pod;
const target = { ...pods, namespace: "default", name: "p" };
const why = "a test wants it";

async function started(): Promise<{ api: TestApi; kube: KubeApi; pod: KubeObject }> {
  const api = await TestApi.start({ controllers: "none" });
  await api.create("/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } });
  const kube = inProcessKube(api.core, {
    user: { username: "tester", groups: ["system:masters"] },
    fieldManager: "test",
  });
  const pod = await api.create("/pods", podNamed("default/p"));
  return { api, kube, pod };
}

/** Every kind of write on a pod that exists, decided on the given state of it. */
function writesOn(pod: KubeObject): Intent[] {
  const expected = expectedOf(pod);
  const labelled = { ...pod, metadata: { ...pod.metadata, labels: { a: "b" } } };
  const running = { ...pod, status: { phase: "Running" } };
  return [
    { type: "update", target, expected, object: labelled, why },
    { type: "status", target, expected, object: running, why },
    { type: "patch", target, expected, patch: { metadata: { labels: { a: "b" } } }, why },
    { type: "patch", target, expected, patch: { status: { phase: "Running" } }, subresource: "status", why },
    {
      type: "apply",
      target,
      expected,
      fields: { apiVersion: "v1", kind: "Pod", metadata: { labels: { c: "d" } } },
      why,
    },
    { type: "bind", target, expected, node: "n1", annotations: { note: "x" }, why },
    { type: "evict", target, expected, why },
    { type: "delete", target, expected, gracePeriodSeconds: 0, why },
  ];
}

describe("an intent", () => {
  test("takes effect on the version that it was decided on, and returns the revision where the API does", async () => {
    for (let index = 0; index < 8; index++) {
      const { kube, pod, api } = await started();
      const intent = writesOn(pod)[index] as Intent;
      const outcome = await applyIntent(kube, intent);
      expect(outcome, intent.type).toMatchObject({ ok: true });
      const now = api.get("/pods", "default/p");
      if (outcome.ok && outcome.value.revision !== undefined) {
        expect(outcome.value.revision).toBe(now?.metadata.resourceVersion);
      }
      expect(now?.metadata.resourceVersion).not.toBe(pod.metadata.resourceVersion);
    }
  });

  test("is a conflict on a later version of the object, whatever the verb", async () => {
    for (let index = 0; index < 8; index++) {
      const { kube, pod, api } = await started();
      await api.edit("/pods", "default/p", (now) => {
        now.metadata.labels = { touched: "yes" };
      });
      const before = api.get("/pods", "default/p");
      const intent = writesOn(pod)[index] as Intent;
      expect(await applyIntent(kube, intent), intent.type).toMatchObject({ ok: false, reason: "Conflict" });
      expect(api.get("/pods", "default/p")).toBe(before);
    }
  });

  test("never touches another pod of the same name", async () => {
    for (let index = 0; index < 8; index++) {
      const { kube, pod, api } = await started();
      await api.delete("/pods", "default/p", { gracePeriodSeconds: 0 });
      await api.create("/pods", podNamed("default/p"));
      const before = api.get("/pods", "default/p");
      const intent = writesOn(pod)[index] as Intent;
      expect(await applyIntent(kube, intent), intent.type).toMatchObject({ ok: false, reason: "Conflict" });
      expect(api.get("/pods", "default/p")).toBe(before);
    }
  });

  test("to create is refused when the name is taken", async () => {
    const { kube } = await started();
    const object = podNamed("default/p") as never;
    const outcome = await applyIntent(kube, { type: "create", target, absentAtRevision: "1", object, why });
    expect(outcome).toMatchObject({ ok: false, reason: "AlreadyExists" });
  });

  test("cannot be written without its precondition", () => {
    // @ts-expect-error a delete needs the version that it was decided on
    const blind: DeleteIntent = { type: "delete", target, why };
    // @ts-expect-error a UID alone is not a version
    const half: DeleteIntent = { type: "delete", target, expected: { uid: "u" }, why };
    // @ts-expect-error an eviction is a delete
    const evict: EvictIntent = { type: "evict", target, why };
    // @ts-expect-error a bind needs a version, too
    const bind: BindIntent = { type: "bind", target, node: "n1", why };
    // @ts-expect-error and so does a patch
    const patch: PatchIntent = { type: "patch", target, patch: {}, why };
    // @ts-expect-error names are derived, never generated
    const drawn: NewObject = { apiVersion: "v1", kind: "Pod", metadata: { generateName: "drawn-", name: "x" } };
    expect([blind, half, evict, bind, patch, drawn]).toHaveLength(6);
  });
});

describe("the difference between two states", () => {
  const state = (fields: object): KubeObject => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", uid: "u", resourceVersion: "1", creationTimestamp: "" },
    ...fields,
  });

  test.each([
    { name: "nothing", before: { spec: { a: 1 } }, after: { spec: { a: 1 } }, patch: undefined },
    { name: "a value", before: { spec: { a: 1, b: 1 } }, after: { spec: { a: 2, b: 1 } }, patch: { spec: { a: 2 } } },
    {
      name: "a removed field",
      before: { spec: { a: 1, b: 1 } },
      after: { spec: { b: 1 } },
      patch: { spec: { a: null } },
    },
    { name: "an added field", before: {}, after: { status: { x: { y: 1 } } }, patch: { status: { x: { y: 1 } } } },
    { name: "a list, as a whole", before: { l: [1, 2] }, after: { l: [1, 3] }, patch: { l: [1, 3] } },
    { name: "an object that became a value", before: { s: { a: 1 } }, after: { s: 1 }, patch: { s: 1 } },
    { name: "an object that became empty", before: { s: { a: 1 } }, after: { s: {} }, patch: { s: { a: null } } },
  ])("has $name", ({ before, after, patch }) => {
    expect(mergeFrom(state(before), state(after))).toEqual(patch);
  });

  test("leaves out identity and revision, which are the precondition's", () => {
    const after = state({});
    after.metadata = { ...after.metadata, resourceVersion: "2", labels: { a: "b" } };
    expect(mergeFrom(state({}), after)).toEqual({ metadata: { labels: { a: "b" } } });
  });

  test("brings the server to the other state", async () => {
    const { kube, pod, api } = await started();
    const after: KubeObject = { ...pod, metadata: { ...pod.metadata, labels: { a: "b" }, annotations: { c: "d" } } };
    const patch = mergeFrom(pod, after) ?? {};
    await applyIntent(kube, { type: "patch", target, expected: expectedOf(pod), patch, why });
    const now = api.get("/pods", "default/p") as KubeObject;
    expect([now.metadata.labels, now.metadata.annotations]).toEqual([{ a: "b" }, { c: "d" }]);
    const back = mergeFrom(now, { ...now, metadata: { ...now.metadata, labels: {}, annotations: {} } }) ?? {};
    await applyIntent(kube, { type: "patch", target, expected: expectedOf(now), patch: back, why });
    expect(api.get("/pods", "default/p")?.metadata.labels ?? {}).toEqual({});
  });
});

describe("a second look", () => {
  test("returns an absence with its revision", async () => {
    const { kube, api } = await started();
    await api.delete("/pods", "default/p", { gracePeriodSeconds: 0 });
    const outcome = await lookAgain(kube, target, { atLeast: "1" });
    expect(outcome).toEqual({ ok: true, value: { object: undefined, revision: String(api.core.store.revision) } });
  });

  test("refuses a list that is older than the required revision", async () => {
    const { kube } = await started();
    expect(await lookAgain(kube, target, { atLeast: "999999" })).toMatchObject({ ok: false, reason: "Unavailable" });
  });

  test("keeps an object that has got a holder since", async () => {
    const { kube, pod, api } = await started();
    await api.edit("/pods", "default/p", (now) => {
      now.metadata.annotations = { "muster.dev/holders": "u7" };
    });
    const intent: DeleteIntent = { type: "delete", target, expected: expectedOf(pod), why };
    const outcome = await destroyAfterLooking(
      kube,
      intent,
      ({ object }) =>
        object?.metadata.annotations?.["muster.dev/holders"] === undefined
          ? { still: intent }
          : { noLongerDue: "it has a holder" },
      { atLeast: pod.metadata.resourceVersion },
    );
    expect(outcome).toEqual({ ok: true, value: { noLongerDue: "it has a holder" } });
    expect(api.get("/pods", "default/p")).toBeDefined();
  });

  test("keeps another object of the same name without a recheck", async () => {
    const { kube, pod, api } = await started();
    await api.delete("/pods", "default/p", { gracePeriodSeconds: 0 });
    await api.create("/pods", podNamed("default/p"));
    const intent: DeleteIntent = { type: "delete", target, expected: expectedOf(pod), why };
    const outcome = await destroyAfterLooking(kube, intent, () => ({ still: intent }), { atLeast: "1" });
    expect(outcome).toMatchObject({ ok: true, value: { noLongerDue: expect.stringContaining("does not exist") } });
    expect(api.get("/pods", "default/p")).toBeDefined();
  });

  test("deletes with the version that was just read as the precondition", async () => {
    const { kube, pod, api } = await started();
    await api.edit("/pods", "default/p", (now) => {
      now.metadata.labels = { touched: "yes" };
    });
    const intent: DeleteIntent = { type: "delete", target, expected: expectedOf(pod), gracePeriodSeconds: 0, why };
    const recheck = ({ object }: { object: KubeObject | undefined }) => ({
      still: { ...intent, expected: expectedOf(object as KubeObject) },
    });
    expect(await destroyAfterLooking(kube, intent, recheck, { atLeast: "1" })).toMatchObject({ ok: true });
    expect(api.get("/pods", "default/p")).toBeUndefined();
  });
});
