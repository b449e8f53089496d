import { nextBindStep } from "../../src/decide/devices/claims/bindClaim.ts";
import { ClaimTracker } from "../../src/decide/devices/claimTracker.ts";
import { usesOf } from "../../src/decide/devices/search/deviceUse.ts";
import { applyIntent } from "../../src/intents/applyIntent.ts";
import { assert } from "../../src/model/assert.ts";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { claimsKey, deviceGivenOnce } from "../../src/sim/devices/invariants.ts";
import { makeClaim, podsRef } from "../../src/sim/devices/scenario.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, person, pod } from "../../src/sim/sceneKit.ts";
import type { KindChange, KindTable } from "../../src/snapshot/kindTable.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const claims = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" };
/** A process whose cache feeds a tracker; others of the scene may ask for it. */
function trackerProcess(make: (table: KindTable) => ClaimTracker): { spec: ActorSpec; tracker: () => ClaimTracker } {
  let tracker: ClaimTracker | undefined;
  const spec = controllersProcess("cache", (controllers, ports) => {
    const cache = controllers.cache(claims);
    const made = make(cache.table);
    tracker = made;
    cache.onChanges((changes, isNewList) => void made.observed(changes, isNewList));
    ports.observe("given", () => made.listAllAllocatedDevices());
  });
  const wait = (): ClaimTracker => {
    assert(tracker !== undefined, "the cache has synced before the first question");
    return tracker;
  };
  return { spec, tracker: wait };
}

/** The bug: users are counted, and a failed one is subtracted twice: at the failure and at the clean-up. */
class CountedSharers extends ClaimTracker {
  private readonly sharers = new Map<string, number>();

  override signalClaimPendingAllocation(
    ...given: Parameters<ClaimTracker["signalClaimPendingAllocation"]>
  ): ReturnType<ClaimTracker["signalClaimPendingAllocation"]> {
    const [claim] = given;
    this.sharers.set(claim.metadata.uid, (this.sharers.get(claim.metadata.uid) ?? 0) + 1);
    return super.signalClaimPendingAllocation(...given);
  }

  override removeClaimPendingAllocation(uid: string, holder: string): boolean {
    const left = (this.sharers.get(uid) ?? 0) - 1;
    this.sharers.set(uid, left);
    return left <= 0 && super.removeClaimPendingAllocation(uid, holder, { force: true });
  }
}

function on(claim: ResourceClaim, device: string): ResourceClaim {
  const results = [{ request: "gpu", driver: "gpu.example.com", pool: "n0", device }];
  return { ...claim, status: { ...claim.status, allocation: { devices: { results } } } };
}

async function carryOut(ports: ActorPorts, decided: ResourceClaim, user: string): Promise<void> {
  const podFound = await ports.kube.get(at(podsRef, user));
  if (!podFound.ok) return;
  for (let attempt = 0; attempt < 20; attempt++) {
    const found = await ports.kube.get(at(claims, decided.metadata.name));
    if (!found.ok) return;
    const step = nextBindStep({
      claim: found.value as unknown as ResourceClaim,
      uid: decided.metadata.uid,
      allocation: decided.status?.allocation,
      pod: podFound.value as unknown as Pod,
      nowMs: ports.clock.nowMs(),
    });
    if (step.kind !== "write") return;
    await applyIntent(ports.kube, step.intent);
  }
}

const sharedPlay = (variant: string, about: string, make: (table: KindTable) => ClaimTracker) =>
  scene({
    slug: "released-twice",
    variant,
    about,
    faults: ["slow-call"],
    invariants: [deviceGivenOnce],
    setUp: async (kube) => {
      for (const name of ["a", "b", "q"]) await kube.create(podsRef, pod(name));
      for (const name of ["shared", "other"]) await makeClaim(kube, name);
    },
    actors: () => {
      const cache = trackerProcess(make);
      return [
        cache.spec,
        person("scheduler", async (ports) => {
          await ports.sleep(200);
          const tracker = cache.tracker();
          const shared = tracker.get("default", "shared");
          const other = tracker.get("default", "other");
          if (shared === undefined || other === undefined) return;
          // Two pods of a gang share a claim whose allocation is assumed and not written yet.
          const decided = on(shared, "d0");
          for (const holder of ["a", "b"]) tracker.signalClaimPendingAllocation(decided, holder);
          // Pod a cannot be bound: its claim is released at the failure, and again at the clean-up.
          for (let time = 0; time < 2; time++) tracker.removeClaimPendingAllocation(shared.metadata.uid, "a");
          // The claim of another pod gets the first free device while pod b is being bound.
          const device = tracker.isTaken("gpu.example.com/n0/d0") ? "d1" : "d0";
          const given = on(other, device);
          tracker.signalClaimPendingAllocation(given, "q");
          await Promise.all([carryOut(ports, decided, "b"), carryOut(ports, given, "q")]);
        }),
      ];
    },
  });

export const releasedTwice: Exhibit = {
  number: 7,
  slug: "released-twice",
  title: "One pod of a gang releases the shared claim twice, and the device of the other is allocated again",
  source: "kubernetes/kubernetes#139418, #140269",
  invariant: "I1",
  story: `
  pod a                        claim S (in flight)          pod b              pod q
  shares S                     sharers 1
                               sharers 2                    shares S
  cannot be bound: lets go     sharers 1
  cleans up: lets go           sharers 0: S is dropped
                                                                               D is free: q's claim gets it
                               S is written with D     <--  goes on                              <-- D twice
  Holders are a set of UIDs: who leaves twice has left once.`,
  fixed: {
    name: "fixed",
    about: "users of a claim are a set",
    scenario: sharedPlay("fixed", "the product's tracker", (claimsTable) => new ClaimTracker({ claims: claimsTable })),
  },
  buggy: [
    {
      name: "counted",
      about: "users of a claim are a counter",
      scenario: sharedPlay(
        "counted",
        "a counter of sharers",
        (claimsTable) => new CountedSharers({ claims: claimsTable }),
      ),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};

/** The bug: the devices to release at a deletion are read from the restored object, which has none. */
class NewerOnly extends ClaimTracker {
  private readonly held = new Set<string>();
  private readonly latest = new Map<string, ResourceClaim>();

  override assumeClaimAfterApiCall(
    claim: Parameters<ClaimTracker["assumeClaimAfterApiCall"]>[0],
  ): ReturnType<ClaimTracker["assumeClaimAfterApiCall"]> {
    this.take(claim as unknown as ResourceClaim);
    return super.assumeClaimAfterApiCall(claim);
  }

  /** As upstream does after a failed bind. The product does not restore objects. */
  restore(namespace: string, name: string): void {
    const known = this.latest.get(`${namespace}/${name}`);
    if (known !== undefined) {
      // Restored without its allocation, with the resourceVersion of the API.
      const { allocation: _allocation, ...status } = known.status ?? {};
      this.latest.set(`${namespace}/${name}`, { ...known, status });
    }
  }

  override observed(changes: readonly KindChange[], isNewList = false): ReturnType<ClaimTracker["observed"]> {
    const ended = super.observed(changes, isNewList);
    for (const change of changes) {
      if (change.type === "deleted") {
        for (const { device } of usesOf(this.latest.get(change.key) ?? (change.object as unknown as ResourceClaim)))
          this.held.delete(device);
        this.latest.delete(change.key);
        continue;
      }
      const known = this.latest.get(change.key);
      const isNewer =
        known === undefined || Number(change.object.metadata.resourceVersion) > Number(known.metadata.resourceVersion);
      if (isNewer) this.take(change.object as unknown as ResourceClaim);
    }
    return ended;
  }

  override listAllAllocatedDevices(): string[] {
    return [...this.held].sort();
  }

  private take(claim: ResourceClaim): void {
    for (const { device } of usesOf(claim)) this.held.add(device);
    this.latest.set(`${claim.metadata.namespace}/${claim.metadata.name}`, claim);
  }
}

const noGhosts: Invariant = {
  id: "I10",
  fact: "at rest the devices that are counted as allocated are those of existing claims",
  begin: ({ store }) => {
    let given: (() => readonly string[]) | undefined;
    return {
      observe: (_actor, what, value) => {
        if (what === "given") given = value as () => readonly string[];
        return undefined;
      },
      atRest: () => {
        const there = [...store.collection(claimsKey).all()].flatMap((version) =>
          usesOf(version.object() as unknown as ResourceClaim),
        );
        const wanted = there
          .map(({ device }) => device)
          .sort()
          .join(" ");
        const counted = given?.().join(" ") ?? "";
        return counted === wanted
          ? undefined
          : `${counted || "nothing"} is counted; the claims have ${wanted || "nothing"}`;
      },
    };
  },
};

const ghostPlay = (variant: string, about: string, make: (table: KindTable) => ClaimTracker) =>
  scene({
    slug: "ghost-allocation",
    variant,
    about,
    faults: ["slow-call", "watch-delay"],
    invariants: [noGhosts],
    setUp: async (kube) => {
      await kube.create(podsRef, pod("p"));
      await makeClaim(kube, "c");
    },
    actors: () => {
      const cache = trackerProcess(make);
      return [
        cache.spec,
        person("scheduler", async (ports) => {
          await ports.sleep(200);
          const tracker = cache.tracker();
          const claim = tracker.get("default", "c");
          if (claim === undefined) return;
          await carryOut(ports, on(claim, "d0"), "p");
          const written = await ports.kube.get(at(claims, "c"));
          if (!written.ok) return;
          tracker.assumeClaimAfterApiCall(written.value);
          // The bind failed: the assumed claim is restored, although the API already has the allocation.
          if (tracker instanceof NewerOnly) tracker.restore("default", "c");
          await ports.sleep(500);
          const fresh = await ports.kube.get(at(claims, "c"));
          if (!fresh.ok) return;
          const { allocation: _a, reservedFor: _r, ...status } = (fresh.value as unknown as ResourceClaim).status ?? {};
          await ports.kube.update({ ...at(claims, "c"), subresource: "status" }, { ...fresh.value, status });
          await ports.kube.patch(at(claims, "c"), { type: "merge", body: { metadata: { finalizers: null } } });
          await ports.kube.delete(at(claims, "c"));
        }),
      ];
    },
  });

export const ghostAllocation: Exhibit = {
  number: 10,
  slug: "ghost-allocation",
  title: "A claim that is restored after a failed bind leaks its device",
  source: "kai-scheduler/KAI-Scheduler#1091",
  invariant: "I10",
  story: `
  scheduler                       API                    what is counted
  C is written with D        -->  C@v5 has D
  answer: assume C@v5                                    D
  bind fails: take back C,
  at v5, without D                                       D, by no claim
                                  C@v5 is shown          not newer than v5: ignored
                                  C is deleted           releases what the last C had: nothing
                                                         D, for ever                   <-- leaked
  Usage is recounted from its holders, and never counted up and down: no holder, no device.`,
  fixed: {
    name: "fixed",
    about: "a device is counted while a claim holds it",
    scenario: ghostPlay("fixed", "the product's tracker", (claimsTable) => new ClaimTracker({ claims: claimsTable })),
  },
  buggy: [
    {
      name: "newer-only",
      about: "devices are added to and removed from a set",
      scenario: ghostPlay("newer-only", "counted up and down", (claimsTable) => new NewerOnly({ claims: claimsTable })),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};
