import { relistWaitMsMax } from "../control/cache/reflector.ts";
import type { Component } from "../control/runtime/component.ts";
import type { NewObject } from "../model/intent.ts";
import type { CustomResourceDefinition } from "../model/kubernetes.generated.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorSpec } from "./actor.ts";
import type { Invariant } from "./invariant.ts";
import type { World } from "./world.ts";

/** A world at rest: no watch of any process waits any more before it lists again. */
export const watchesRestMs = relistWaitMsMax + 5_000;

/** A small cluster with its actors, its invariants, and how long faults are on. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /**
   * Parts whose definitions are served, whose hooks are asked, and whose start objects exist. Processes are apart from
   * that.
   */
  readonly components?: readonly Component[];
  /** CustomResourceDefinitions that are served from the first moment, besides those of the components. */
  readonly definitions?: readonly NewObject<CustomResourceDefinition>[];
  /**
   * Whether the server's own loops run (garbage collection, namespaces, disruption budgets), as they do in a real one.
   */
  readonly serverLoops?: boolean;
  /**
   * How long, at most, the garbage collector takes for a dependent of a deleted owner, as on a busy server: pods, and
   * objects created after the owner was deleted, are collected within this time, everything else at once.
   */
  readonly collectMsMax?: number;
  /** Creates the initial objects. No faults yet. */
  setUp?(kube: KubeApi): Promise<void>;
  /** Called again for every run, so that no two runs share state. */
  actors(): ActorSpec[];
  readonly invariants: readonly Invariant[];
  /** Puts faults of its own kinds on the schedule, besides those of processes. */
  planFaults?(world: World): void;
  /** The kinds of fault of this scenario; all when left out. */
  readonly faults?: readonly string[];
  /** Simulated time with faults. */
  readonly faultPhaseMs: number;
  /** After the faults stop: how long everything may take to come to rest, and how long it must then be silent. */
  readonly settleMs: number;
  readonly quietMs: number;
  /** Changes of these resources do not count as noise: leases are renewed for ever. */
  readonly ignoredForQuiescence?: readonly string[];
  readonly freeze?: boolean;
}
