import { ClaimTracker, type ClaimTrackerOptions } from "../../src/decide/devices/claimTracker.ts";
import { usesOf } from "../../src/decide/devices/search/deviceUse.ts";
import type { ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { addAllocators, allocatorComponents } from "../../src/sim/devices/allocators.ts";
import { deviceGivenOnce } from "../../src/sim/devices/invariants.ts";
import { kubelet, type NodeMemory } from "../../src/sim/devices/kubelet.ts";
import { makeClaim, makePod, setUp } from "../../src/sim/devices/scenario.ts";
import { person } from "../../src/sim/sceneKit.ts";
import type { KindChange } from "../../src/snapshot/kindTable.ts";
import type { Ended } from "../../src/snapshot/ledger.ts";
import { type Exhibit, scene } from "../exhibit.ts";

type Assumed = ReturnType<ClaimTracker["assumeClaimAfterApiCall"]>;

/**
 * A tracker like upstream's: an index of observed claims, and a separate map of claims in flight. No write shows how
 * the two get out of sync, so the tracker adds notes to the timeline.
 */
abstract class TwoMaps extends ClaimTracker {
  protected readonly ports: ActorPorts;
  protected readonly index = new Map<string, Set<string>>();
  protected readonly inFlight = new Map<string, ResourceClaim>();
  private readonly missed = new Set<string>();

  constructor(options: ClaimTrackerOptions, ports: ActorPorts) {
    super(options);
    this.ports = ports;
  }

  /** Whether a device is taken; a wrong answer is noted in the timeline once. */
  protected checked(device: string, isTaken: boolean, where: string): boolean {
    if (!isTaken && super.isTaken(device) && !this.missed.has(device)) {
      this.missed.add(device);
      this.ports.note(`reader: ${where} ${nameOf(device)}`);
    }
    return isTaken;
  }

  override signalClaimPendingAllocation(
    ...given: Parameters<ClaimTracker["signalClaimPendingAllocation"]>
  ): ReturnType<ClaimTracker["signalClaimPendingAllocation"]> {
    const [claim] = given;
    this.inFlight.set(claim.metadata.uid, claim);
    return super.signalClaimPendingAllocation(...given);
  }

  override removeClaimPendingAllocation(...given: Parameters<ClaimTracker["removeClaimPendingAllocation"]>): boolean {
    const claim = this.inFlight.get(given[0]);
    if (claim !== undefined) this.ports.note(`binder: ${claim.metadata.name} is out of flight`);
    this.inFlight.delete(given[0]);
    return super.removeClaimPendingAllocation(...given);
  }

  protected enter(claim: ResourceClaim): void {
    for (const { device } of usesOf(claim)) {
      const holders = this.index.get(device) ?? new Set<string>();
      holders.add(claim.metadata.uid);
      this.index.set(device, holders);
    }
  }

  protected forget(claim: ResourceClaim): void {
    for (const [device, holders] of this.index) {
      holders.delete(claim.metadata.uid);
      if (holders.size === 0) this.index.delete(device);
    }
  }

  protected follow(changes: readonly KindChange[]): void {
    for (const change of changes) {
      const claim = change.object as unknown as ResourceClaim;
      this.forget(claim);
      if (change.type !== "deleted") this.enter(claim);
    }
  }

  protected isInFlight(device: string): boolean {
    return [...this.inFlight.values()].some((claim) => usesOf(claim).some((use) => use.device === device));
  }
}

function nameOf(device: string): string {
  return device.slice(device.lastIndexOf("/") + 1);
}

/** `claim@version with devices`, or undefined where it has none. */
function described(claim: ResourceClaim): string | undefined {
  const devices = usesOf(claim).map(({ device }) => nameOf(device));
  const { name, resourceVersion } = claim.metadata;
  return devices.length === 0 ? undefined : `${name}@${resourceVersion} with ${devices.join(", ")}`;
}

/**
 * The event was taken from the queue, and its handler has not run yet; an assume of the same state does not wait for
 * it.
 */
class LateHandler extends TwoMaps {
  override observed(changes: readonly KindChange[], isNewList = false): readonly Ended[] {
    const ended = super.observed(changes, isNewList);
    for (const { object } of changes) {
      const what = described(object as unknown as ResourceClaim);
      if (what !== undefined) this.ports.note(`informer: ${what} is in the cache; the handler has not run`);
    }
    this.ports.clock.after(handlerMs, () => this.follow(changes));
    return ended;
  }

  override assumeClaimAfterApiCall(claim: KubeObject): Assumed {
    const before = this.get(claim.metadata.namespace ?? "", claim.metadata.name);
    // The allocation is unchanged, so the tracker leaves the index to the handler.
    const isNews = before?.status?.allocation === undefined;
    const result = super.assumeClaimAfterApiCall(claim);
    if (isNews) this.enter(claim as unknown as ResourceClaim);
    const what = described(claim as unknown as ResourceClaim);
    if (what !== undefined) {
      this.ports.note(`binder: assumes ${what}: ${isNews ? "into the index" : "the cache has it, nothing to do"}`);
    }
    return result;
  }

  override isTaken(device: string): boolean {
    return this.checked(device, this.index.has(device) || this.isInFlight(device), "neither indexed nor in flight:");
  }
}

const handlerMs = 40;

/** The index is copied first and the map in flight is read later: a claim that moves in between is in neither. */
class TornRead extends TwoMaps {
  private copy: ReadonlySet<string> = new Set();
  private isCopying = false;

  override observed(changes: readonly KindChange[], isNewList = false): readonly Ended[] {
    const ended = super.observed(changes, isNewList);
    this.follow(changes);
    return ended;
  }

  override assumeClaimAfterApiCall(claim: KubeObject): Assumed {
    const result = super.assumeClaimAfterApiCall(claim);
    this.enter(claim as unknown as ResourceClaim);
    const what = described(claim as unknown as ResourceClaim);
    if (what !== undefined) this.ports.note(`binder: assumes ${what}: into the index`);
    return result;
  }

  override isTaken(device: string): boolean {
    // A reader that started some milliseconds ago still uses its copy.
    if (!this.isCopying) {
      this.isCopying = true;
      this.copy = new Set(this.index.keys());
      this.ports.note(`reader: copies the index: ${[...this.copy].map(nameOf).join(", ") || "nothing"}`);
      this.ports.clock.after(20, () => {
        this.isCopying = false;
      });
    }
    return this.checked(device, this.copy.has(device) || this.isInFlight(device), "neither in the copy nor in flight:");
  }
}

/** The allocation is assumed on the cached version; the event of the finalizer is newer and removes it. */
class AssumedTooEarly extends TwoMaps {
  private readonly assumed = new Map<string, ResourceClaim>();

  override signalClaimPendingAllocation(
    ...given: Parameters<ClaimTracker["signalClaimPendingAllocation"]>
  ): ReturnType<ClaimTracker["signalClaimPendingAllocation"]> {
    const [claim] = given;
    if (!this.claimHasPendingAllocation(claim.metadata.uid)) this.assumed.set(claim.metadata.uid, claim);
    return super.signalClaimPendingAllocation(...given);
  }

  override observed(changes: readonly KindChange[], isNewList = false): readonly Ended[] {
    const ended = super.observed(changes, isNewList);
    this.follow(changes);
    for (const { object } of changes) {
      if (!this.assumed.delete(object.metadata.uid)) continue;
      const { name, resourceVersion } = object.metadata;
      this.ports.note(`informer: ${name}@${resourceVersion} is newer than what was assumed, which is forgotten`);
    }
    return ended;
  }

  override isTaken(device: string): boolean {
    const isAssumed = [...this.assumed.values()].some((claim) => usesOf(claim).some((use) => use.device === device));
    return this.checked(device, this.index.has(device) || isAssumed, "neither seen nor assumed:");
  }
}

type Make = (options: ClaimTrackerOptions, ports: ActorPorts) => ClaimTracker;

/** `byName`: the user creates the claims; those from a template are created with their finalizer. */
const play = (slug: string, variant: string, about: string, make: Make | undefined, byName = false) =>
  scene({
    slug,
    variant,
    about,
    components: allocatorComponents,
    faults: ["slow-call", "watch-delay", "timeout-after"],
    invariants: [deviceGivenOnce],
    ignoredForQuiescence: ["/events"],
    setUp: async (kube) => {
      await setUp(kube, { nodes: 1, devices: 8 });
    },
    actors: () => {
      const memory: NodeMemory = { prepared: new Map(), running: new Map() };
      return [
        controllersProcess("scheduler", (controllers, ports) => {
          const makeTracker =
            make === undefined ? {} : { makeTracker: (options: ClaimTrackerOptions) => make(options, ports) };
          addAllocators(controllers, makeTracker);
        }),
        kubelet("kubelet", memory, { stopMs: 400 }),
        person("user", async (ports) => {
          for (let i = 0; i < 8; i++) {
            await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 40)) + 4);
            if (byName) await makeClaim(ports.kube, `c${i}`);
            await makePod(ports, `p${i}`, byName ? `c${i}` : undefined);
          }
        }),
      ];
    },
  });

export const lateHandler: Exhibit = {
  number: 1,
  slug: "late-handler",
  title: "An assumed claim overtakes the handler that would have indexed its device",
  source: "kubernetes/kubernetes#136269 (first root cause)",
  invariant: "I1",
  story: `
  informer                      binder of pod p                scheduler of pod q
  claim C has device D (v2)
  takes the event, and has      answer: C has D (v2)
  not run its handler           assume C@v2: same allocation,
                                nothing to do; returns
                                C is out of flight
                                                               cached: no D.  in flight: no D.
                                                               D is free: q's claim gets it   <-- D twice
  handler: D is taken
  What counts must count from one place at one moment; here it is one ledger, and nothing waits in between.`,
  fixed: {
    name: "fixed",
    about: "claims, answers and decisions are counted in one place",
    scenario: play("late-handler", "fixed", "the product", undefined),
  },
  buggy: [
    {
      name: "handler-runs-later",
      about: "the index lags behind the cache, and assume does not wait for it",
      scenario: play(
        "late-handler",
        "handler-runs-later",
        "an index behind the cache",
        (options, ports) => new LateHandler(options, ports),
      ),
      firstSeeds: 30,
      schedule: [],
    },
  ],
};

export const tornRead: Exhibit = {
  number: 2,
  slug: "torn-read",
  title: "A claim moves from one map to the other while a reader is between them",
  source: "kubernetes/kubernetes#136269 (second root cause)",
  invariant: "I1",
  story: `
  reader (pod q)                writer (pod p)
  copies the cache: no D
                                assume: D is in the cache
                                C is out of flight
  reads what is in flight: no D
  D is free: q's claim gets it                                <-- D twice
  One revision for both, or a reader that cannot be interrupted: here decisions are taken without waiting.`,
  fixed: {
    name: "fixed",
    about: "a decision reads one consistent state",
    scenario: play("torn-read", "fixed", "the product", undefined),
  },
  buggy: [
    {
      name: "copy-then-read",
      about: "the index is copied, then the map in flight is read",
      scenario: play(
        "torn-read",
        "copy-then-read",
        "two maps read one after the other",
        (options, ports) => new TornRead(options, ports),
      ),
      firstSeeds: 30,
      schedule: [],
    },
  ],
};

export const assumedTooEarly: Exhibit = {
  number: 3,
  slug: "assumed-too-early",
  title: "The finalizer's own event overwrites an allocation that was assumed too early",
  source: "kubernetes/kubernetes#123516",
  invariant: "I1",
  story: `
  scheduler                          API                        scheduler's cache
  assume: C@v1 has D                                            C@v1 + D
  add the finalizer to C        -->  C@v2, no allocation yet
                                                                C@v2 arrives: newer, D is gone
  decide for q: D is free                                       <-- D twice
  write C's allocation          -->  C@v3 has D
  A decision counts until the write that carries it has been seen, whatever else happens to the object.`,
  fixed: {
    name: "fixed",
    about: "an allocation counts until its own write has ended",
    scenario: play("assumed-too-early", "fixed", "the product", undefined, true),
  },
  buggy: [
    {
      name: "newer-version-wins",
      about: "the assumed claim is dropped when any newer version of it is observed",
      scenario: play(
        "assumed-too-early",
        "newer-version-wins",
        "assumed on the old version",
        (options, ports) => new AssumedTooEarly(options, ports),
        true,
      ),
      firstSeeds: 30,
      schedule: [{ key: "scheduler|watch|scheduling.run.ai/bindrequests#1|MODIFIED|p0#1|watch-delay", value: 982_666 }],
    },
  ],
};
