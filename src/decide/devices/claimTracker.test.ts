import { describe, expect, test } from "vitest";
import { type Intent, resourceKey } from "../../model/intent.ts";
import type { ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused, succeeded } from "../../model/outcome.ts";
import { KindTable } from "../../snapshot/kindTable.ts";
import { ClaimTracker, claimKind } from "./claimTracker.ts";

const share = (n: number) => `00000000-0000-4000-8000-00000000000${n}`;

interface Given {
  readonly version?: string;
  readonly devices?: readonly string[];
  readonly shares?: Readonly<Record<string, string>>;
  readonly consumed?: Readonly<Record<string, string>>;
  readonly isAdmin?: boolean;
  readonly finalizers?: string[];
  readonly uid?: string;
}

function claim(name: string, given: Given = {}): ResourceClaim {
  const { version = "5", devices = [], shares = {}, consumed, isAdmin, finalizers, uid = `uid-${name}` } = given;
  const results = [
    ...devices.map((device) => ({
      request: "r",
      driver: "gpu",
      pool: "p",
      device,
      ...(isAdmin && { adminAccess: true }),
    })),
    ...Object.entries(shares).map(([device, shareID]) => ({
      request: "r",
      driver: "gpu",
      pool: "p",
      device,
      shareID,
      ...(consumed && { consumedCapacity: consumed }),
    })),
  ];
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      name,
      namespace: "default",
      uid,
      resourceVersion: version,
      creationTimestamp: "2026-01-01T00:00:00Z",
      ...(finalizers && { finalizers }),
    },
    spec: {},
    ...(results.length > 0 && { status: { allocation: { devices: { results } } } }),
  };
}

/** A tracker whose watch events the test sends. */
class Watched {
  readonly table = new KindTable();
  readonly tracker: ClaimTracker;
  readonly devices: string[] = [];

  constructor(...claims: ResourceClaim[]) {
    this.table.apply({ type: "relistBegins" });
    for (const each of claims) this.table.apply({ type: "put", object: asObject(each) });
    this.table.apply({ type: "relistDone", revision: "10" });
    this.tracker = new ClaimTracker({ claims: this.table, onDevice: (device) => this.devices.push(device) });
  }

  put(each: ResourceClaim): void {
    this.tracker.observed(this.table.apply({ type: "put", object: asObject(each) }).changes);
  }

  remove(each: ResourceClaim): void {
    this.tracker.observed(this.table.apply({ type: "removed", object: asObject(each) }).changes);
  }
}

function asObject(each: ResourceClaim): KubeObject {
  return each;
}

const d = (name: string) => `gpu/p/${name}`;

describe("a decision that is not written yet", () => {
  test("empty: it is kept, with one holder", () => {
    const { tracker } = new Watched(claim("c"));
    expect(tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1")).toEqual({
      ok: true,
      is: "new",
    });
    expect(tracker.claimHasPendingAllocation("uid-c")).toBe(true);
    expect(tracker.pendingHolders("uid-c")).toEqual(["pod-1"]);
    expect(tracker.isTaken(d("d1"))).toBe(true);
  });

  test("claim-already-allocated: nothing is kept", () => {
    const { tracker } = new Watched(claim("c", { devices: ["d1"] }));
    const stale = claim("c", { devices: ["d2"] });
    expect(tracker.signalClaimPendingAllocation(stale, "pod-1")).toEqual({ ok: true, is: "allocated" });
    expect(tracker.claimHasPendingAllocation("uid-c")).toBe(false);
    expect(tracker.listAllAllocatedDevices()).toEqual([d("d1")]);
  });

  test("extended-resource-claim-not-in-cache: it is kept though the claim is not in the cache", () => {
    const { tracker } = new Watched();
    const toCreate = claim("c", { devices: ["d1"] });
    expect(tracker.signalClaimPendingAllocation(toCreate, "pod-1", { isNotCreatedYet: true })).toEqual({
      ok: true,
      is: "new",
    });
    expect(tracker.isTaken(d("d1"))).toBe(true);
  });

  test("a claim that does not exist is refused", () => {
    const { tracker } = new Watched();
    expect(tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1").ok).toBe(false);
    expect(tracker.listAllAllocatedDevices()).toEqual([]);
  });

  test("already-exists: a second pod joins, and the same pod again changes nothing", () => {
    const { tracker } = new Watched(claim("c"));
    for (const pod of ["pod-1", "pod-2", "pod-2"]) {
      tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), pod);
    }
    expect(tracker.pendingHolders("uid-c")).toEqual(["pod-1", "pod-2"]);
  });

  test("already-exists-ignores-different-claim-argument: the first decision stays", () => {
    const { tracker } = new Watched(claim("c"));
    tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1");
    tracker.signalClaimPendingAllocation(claim("c", { devices: ["d2"] }), "pod-2");
    expect(tracker.pendingAllocation("uid-c")?.devices?.results?.[0]?.device).toBe("d1");
    expect(tracker.listAllAllocatedDevices()).toEqual([d("d1")]);
  });

  test("pending empty, nil-claim, claim: nothing without a decision, nothing where the decision is empty, otherwise the allocation", () => {
    const { tracker } = new Watched(claim("c"), claim("n"));
    expect(tracker.pendingAllocation("uid-c")).toBeUndefined();
    tracker.signalClaimPendingAllocation(claim("n"), "pod-1");
    expect(tracker.pendingAllocation("uid-n")).toBeUndefined();
    tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1");
    expect(tracker.pendingAllocation("uid-c")).toEqual(claim("c", { devices: ["d1"] }).status?.allocation);
  });

  test.each([
    { name: "empty", holders: [], force: false, removed: false, left: [] },
    { name: "delete-last-sharer", holders: ["a"], force: false, removed: true, left: [] },
    { name: "force-delete-last-sharer", holders: ["a"], force: true, removed: true, left: [] },
    { name: "decrement-remaining-sharers", holders: ["a", "b"], force: false, removed: false, left: ["b"] },
    { name: "force-delete-remaining-sharers", holders: ["a", "b"], force: true, removed: true, left: [] },
  ])("maybeRemove $name", ({ holders, force, removed, left }) => {
    const { tracker } = new Watched(claim("c"));
    for (const pod of holders) tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), pod);
    expect(tracker.removeClaimPendingAllocation("uid-c", "a", { force })).toBe(removed);
    expect(tracker.pendingHolders("uid-c")).toEqual(left);
    expect(tracker.isTaken(d("d1"))).toBe(left.length > 0);
  });

  test("removing a pod twice does not remove another pod", () => {
    const { tracker } = new Watched(claim("c"));
    for (const pod of ["a", "b"]) tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), pod);
    tracker.removeClaimPendingAllocation("uid-c", "a");
    tracker.removeClaimPendingAllocation("uid-c", "a");
    expect(tracker.pendingHolders("uid-c")).toEqual(["b"]);
    expect(tracker.isTaken(d("d1"))).toBe(true);
  });
});

describe("an answer of the API", () => {
  test.each([
    { name: "success-new-higher-version", version: "6", result: { ok: true } },
    { name: "fail-new-lower-version", version: "4", result: { ok: false, reason: "OutOfSync" } },
    { name: "fail-new-bad-version", version: "x", result: { ok: false, reason: "Invalid" } },
  ])("$name", ({ version, result }) => {
    const { tracker } = new Watched(claim("c"));
    expect(tracker.assumeClaimAfterApiCall(asObject(claim("c", { version, devices: ["d1"] })))).toEqual(result);
    expect(tracker.isTaken(d("d1"))).toBe(result.ok);
    expect(tracker.get("default", "c")?.metadata.resourceVersion).toBe(result.ok ? version : "5");
    expect(tracker.counts.assumed).toBe(result.ok ? 1 : 0);
  });

  test("success-same-version: what the watch has delivered already is not assumed", () => {
    const watched = new Watched(claim("c"));
    const { tracker } = watched;
    const allocated = claim("c", { version: "12", devices: ["d1"] });
    watched.put(allocated);
    expect(tracker.assumeClaimAfterApiCall(asObject(allocated))).toEqual({ ok: true });
    expect({ assumed: tracker.counts.assumed, isTaken: tracker.isTaken(d("d1")) }).toEqual({
      assumed: 0,
      isTaken: true,
    });
    watched.put(claim("c", { version: "13" }));
    expect(tracker.isTaken(d("d1"))).toBe(false);
  });

  test.each(["12", "13"])(
    "is dropped when the watch delivers version %s of a claim that was answered as 12",
    (version) => {
      const watched = new Watched(claim("c"));
      const { tracker } = watched;
      const answer = claim("c", { version: "12", devices: ["d1"] });
      for (const _ of ["once", "twice"]) tracker.assumeClaimAfterApiCall(asObject(answer));
      expect(tracker.counts.assumed).toBe(1);
      watched.put(claim("c", { version, devices: ["d1"] }));
      expect({ assumed: tracker.counts.assumed, isTaken: tracker.isTaken(d("d1")) }).toEqual({
        assumed: 0,
        isTaken: true,
      });
    },
  );

  test("fail-old-not-found", () => {
    const { tracker } = new Watched();
    const result = tracker.assumeClaimAfterApiCall(asObject(claim("c", { devices: ["d1"] })));
    expect(result).toEqual({ ok: false, reason: "NotFound" });
    expect(tracker.listAllAllocatedDevices()).toEqual([]);
  });

  test("fail-old-bad-version", () => {
    const { tracker } = new Watched(claim("c", { version: "x" }));
    const result = tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "6", devices: ["d1"] })));
    expect(result).toEqual({ ok: false, reason: "Invalid" });
    expect(tracker.isTaken(d("d1"))).toBe(false);
  });

  test("TestAssumeRace: a caller that assumes what the watch has just delivered, and drops its decision, leaves no gap in which the device is free", () => {
    const watched = new Watched(claim("c"));
    const { tracker } = watched;
    const gaps: boolean[] = [];
    tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "a");
    const look = (step: () => unknown): void => {
      step();
      gaps.push(!tracker.isTaken(d("d1")));
    };
    look(() => watched.put(claim("c", { version: "12", devices: ["d1"] })));
    look(() => tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "12", devices: ["d1"] }))));
    look(() => tracker.removeClaimPendingAllocation("uid-c", "a"));
    expect(gaps).toEqual([false, false, false]);
  });

  test("TestEventHandlers, TestEventHandlerConcurrency: a listener that reads a device sees the state that it was notified of", () => {
    const seen: string[] = [];
    const table = new KindTable();
    table.apply({ type: "relistBegins" });
    table.apply({ type: "put", object: asObject(claim("c")) });
    table.apply({ type: "relistDone", revision: "10" });
    const tracker: ClaimTracker = new ClaimTracker({
      claims: table,
      onDevice: (device) =>
        seen.push(`${device} ${tracker.isTaken(device)} ${tracker.listAllAllocatedDevices().length}`),
    });
    tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1", "d2"] }), "a");
    tracker.removeClaimPendingAllocation("uid-c", "a");
    expect(seen).toEqual([`${d("d1")} true 1`, `${d("d2")} true 2`, `${d("d1")} false 1`, `${d("d2")} false 0`]);
  });

  test("fail-new-bad-object", () => {
    const { tracker } = new Watched(claim("c"));
    const pod = { ...asObject(claim("c")), kind: "Pod" };
    expect(tracker.assumeClaimAfterApiCall(pod)).toEqual({ ok: false, reason: "Invalid" });
  });

  test("an older event of the watch does not take it back, a later one does", () => {
    const watched = new Watched(claim("c"));
    watched.tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "30", devices: ["d1"] })));
    watched.put(claim("c", { version: "20" }));
    expect(watched.tracker.isTaken(d("d1"))).toBe(true);
    watched.put(claim("c", { version: "30", devices: ["d1"] }));
    watched.put(claim("c", { version: "40" }));
    expect(watched.tracker.isTaken(d("d1"))).toBe(false);
  });

  test("TestEvents: added, updated, assumed and deleted claims show, stale ones do not", () => {
    const watched = new Watched();
    const version = () => watched.tracker.get("default", "c")?.metadata.resourceVersion;
    watched.put(claim("c", { version: "11" }));
    expect(version()).toBe("11");
    watched.put(claim("c", { version: "12" }));
    watched.put(claim("c", { version: "11" }));
    expect(version()).toBe("12");
    watched.tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "13" })));
    expect(version()).toBe("13");
    watched.remove(claim("c", { version: "14" }));
    expect(version()).toBeUndefined();
    expect([...watched.tracker.list()]).toEqual([]);
  });

  test("TestListNoIndexer, TestListWithIndexer: listing shows the newest of each claim", () => {
    const { tracker } = new Watched(claim("a"), claim("b"));
    tracker.assumeClaimAfterApiCall(asObject(claim("b", { version: "6", devices: ["d1"] })));
    expect([...tracker.list()].map(({ metadata }) => metadata.resourceVersion)).toEqual(["5", "6"]);
  });
});

describe("allocated devices", () => {
  test.each([
    { name: "no-claims", claims: [], counts: [0, 0, 0] },
    { name: "single-allocated-claim", claims: [claim("a", { devices: ["d1"] })], counts: [1, 0, 0] },
    { name: "with-shared-device", claims: [claim("a", { shares: { d1: share(1) } })], counts: [0, 1, 0] },
    {
      name: "with-capacity",
      claims: [claim("a", { shares: { d1: share(1) }, consumed: { m: "1" } })],
      counts: [0, 1, 1],
    },
    {
      name: "mixed",
      claims: [claim("a", { devices: ["d1"] }), claim("b", { shares: { d2: share(1) }, consumed: { m: "1" } })],
      counts: [1, 1, 1],
    },
    { name: "admin", claims: [claim("a", { devices: ["d1"], isAdmin: true })], counts: [0, 0, 0] },
  ])("$name", ({ claims, counts }) => {
    const state = new Watched(...claims).tracker.gatherAllocatedState();
    expect([state.devices.length, state.sharedIds.length, state.capacity.size]).toEqual(counts);
  });

  test("disabled-inflight, disabled-with-capacity: shares count as whole devices", () => {
    const { tracker } = new Watched(claim("a", { shares: { d1: share(1) }, consumed: { m: "1" } }));
    const state = tracker.gatherAllocatedState(false);
    expect([state.devices, state.sharedIds, state.capacity.size]).toEqual([[d("d1")], [], 0]);
  });

  test("add-inflight: decisions are added, and a claim that is in both is counted once", () => {
    const given = { shares: { d2: share(2) }, consumed: { m: "2" } };
    const watched = new Watched(
      claim("a", { devices: ["d1"] }),
      claim("b", { shares: { d2: share(1) }, consumed: { m: "1" } }),
      claim("c"),
    );
    const { tracker } = watched;
    tracker.signalClaimPendingAllocation(claim("c", given), "pod-1");
    const before = tracker.gatherAllocatedState();
    expect([before.devices.length, before.sharedIds.length]).toEqual([1, 2]);
    expect(before.capacity.get(d("d2"))?.get("m")).toBe(3_000_000_000n);
    // The status write was acknowledged, then observed; the decision is dropped last. The sum never changes.
    for (const next of [
      () => tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "20", ...given }))),
      () => watched.put(claim("c", { version: "20", ...given })),
      () => tracker.removeClaimPendingAllocation("uid-c", "pod-1", { force: true }),
    ]) {
      next();
      expect(tracker.gatherAllocatedState()).toEqual(before);
    }
  });

  test("the consumed capacity follows every share that is added or removed, however often it is read", () => {
    const one = claim("a", { shares: { d1: share(1) }, consumed: { m: "1" } });
    const two = claim("b", { shares: { d1: share(2) }, consumed: { m: "2" } });
    const watched = new Watched(one, claim("b"));
    const { tracker } = watched;
    const taken = () => tracker.consumed(d("d1"))?.get("m");
    expect(taken()).toBe(1_000_000_000n);
    tracker.signalClaimPendingAllocation(two, "pod-1");
    expect(taken()).toBe(3_000_000_000n);
    tracker.removeClaimPendingAllocation("uid-b", "pod-1");
    expect(taken()).toBe(1_000_000_000n);
    watched.remove({ ...one, metadata: { ...one.metadata, resourceVersion: "21" } });
    expect(taken()).toBeUndefined();
  });

  test("an allocation that was replaced between two events frees the old device and takes the new one", () => {
    const watched = new Watched(claim("c", { devices: ["d1"] }));
    watched.put(claim("c", { version: "20", devices: ["d2"] }));
    expect(watched.tracker.listAllAllocatedDevices()).toEqual([d("d2")]);
    watched.remove(claim("c", { version: "21", devices: ["d2"] }));
    expect(watched.tracker.listAllAllocatedDevices()).toEqual([]);
  });

  test("a claim that was created again under the same name has its own devices, and the earlier one none", () => {
    const watched = new Watched(claim("c", { devices: ["d1"] }));
    watched.put(claim("c", { version: "20", uid: "another", devices: ["d2"] }));
    expect(watched.tracker.listAllAllocatedDevices()).toEqual([d("d2")]);
  });

  test("an assumed allocation survives the finalizer's own event, because the decision still counts", () => {
    const watched = new Watched(claim("c"));
    watched.tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1");
    watched.put(claim("c", { version: "20", finalizers: ["resource.kubernetes.io/delete-protection"] }));
    expect(watched.tracker.isTaken(d("d1"))).toBe(true);
  });

  test("a status write whose answer was lost counts until the claim has moved on", () => {
    const watched = new Watched(claim("c"));
    const { tracker } = watched;
    const desired = claim("c", { devices: ["d1"] });
    tracker.signalClaimPendingAllocation(desired, "pod-1");
    const intent: Intent = {
      type: "status",
      target: { ...claimKind, namespace: "default", name: "c" },
      expected: { uid: "uid-c", resourceVersion: "5" },
      object: asObject(desired),
      why: "test",
    };
    const value = { device: d("d1"), claimUid: "uid-c", shareId: undefined, consumed: undefined };
    tracker.assumeCache.decide(intent, [{ key: d("d1"), value }]);
    const attempt = tracker.assumeCache.send(intent);
    tracker.assumeCache.answer(intent, refused("Unknown", "time-out"), attempt);
    tracker.removeClaimPendingAllocation("uid-c", "pod-1");
    expect(tracker.isTaken(d("d1"))).toBe(true);
    watched.put(claim("c", { version: "20" }));
    expect(tracker.isTaken(d("d1"))).toBe(false);
    expect(succeeded(1).ok).toBe(true);
  });

  test("with the ledger, gathering never conflicts: at every step of a claim's life exactly one device is allocated", () => {
    const watched = new Watched(claim("c"));
    const { tracker } = watched;
    const seen: string[][] = [];
    const steps: (() => unknown)[] = [
      () => tracker.signalClaimPendingAllocation(claim("c", { devices: ["d1"] }), "pod-1"),
      () => tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "20", finalizers: ["f"] }))),
      () => tracker.assumeClaimAfterApiCall(asObject(claim("c", { version: "21", devices: ["d1"] }))),
      () => tracker.removeClaimPendingAllocation("uid-c", "pod-1", { force: true }),
      () => watched.put(claim("c", { version: "20", finalizers: ["f"] })),
      () => watched.put(claim("c", { version: "21", devices: ["d1"] })),
    ];
    for (const step of steps) {
      step();
      seen.push(tracker.listAllAllocatedDevices());
    }
    expect(seen).toEqual(steps.map(() => [d("d1")]));
    expect(resourceKey(claimKind)).toBe("resource.k8s.io/resourceclaims");
  });
});
