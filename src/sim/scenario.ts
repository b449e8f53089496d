import { relistWaitMsMax } from "../control/cache/reflector.ts";
import type { Component } from "../control/runtime/component.ts";
import type { NewObject } from "../model/intent.ts";
import type { CustomResourceDefinition } from "../model/kubernetes.generated.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorSpec } from "./actor.ts";
import type { Invariant } from "./invariant.ts";
import type { Simulation } from "./simulation.ts";

/** After this time no watch is waiting to relist any more. */
export const watchesRestMs = relistWaitMsMax + 5_000;

/** A small cluster with its actors, its invariants, and how long faults are on. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /**
   * Components whose CRDs are served, whose admission hooks are called and whose start objects exist. The processes
   * that run them are listed separately.
   */
  readonly components?: readonly Component[];
  /** CustomResourceDefinitions that are served from the first moment, besides those of the components. */
  readonly definitions?: readonly NewObject<CustomResourceDefinition>[];
  /**
   * Whether the server's own controllers run: garbage collection, namespaces, disruption budgets.
   */
  readonly serverLoops?: boolean;
  /**
   * The delay of the garbage collector, as on a busy server: pods, and objects created after their owner was deleted,
   * are collected within this time, all other dependents at once.
   */
  readonly collectMsMax?: number;
  /** Creates the initial objects. No faults yet. */
  setUp?(kube: KubeApi): Promise<void>;
  /** Called for every run, so that runs share no state. */
  actors(): ActorSpec[];
  readonly invariants: readonly Invariant[];
  /** Schedules faults of the scenario's own kinds, in addition to those of processes. */
  planFaults?(simulation: Simulation): void;
  /** The kinds of fault of this scenario; all when left out. */
  readonly faults?: readonly string[];
  /** Simulated time with faults. */
  readonly faultPhaseMs: number;
  /** After the faults stop: the time limit for quiescence, and how long no object may then change. */
  readonly settleMs: number;
  readonly quietMs: number;
  /** Changes of these resources do not prevent quiescence: leases are renewed for ever. */
  readonly ignoredForQuiescence?: readonly string[];
  readonly freeze?: boolean;
  /** Part of the message of errors in the log that the scenario plants; any other is a bug. */
  readonly plantedErrors?: string;
}
