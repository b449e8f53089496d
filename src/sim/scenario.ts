import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorSpec } from "./actor.ts";
import type { Invariant } from "./invariant.ts";

/** A small world with a story: who is in it, what must hold, and for how long it is shaken. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** Makes what is there from the first moment. Nothing goes wrong yet. */
  setUp?(kube: KubeApi): Promise<void>;
  /** Called anew for every run, so that no two runs share state. */
  actors(): ActorSpec[];
  readonly invariants: readonly Invariant[];
  /** The kinds of fault that this story is about; all when left out. */
  readonly faults?: readonly string[];
  /** Simulated time with faults. */
  readonly shakenMs: number;
  /** After the faults stop: how long everything may take to come to rest, and how long it must then be silent. */
  readonly settleMs: number;
  readonly quietMs: number;
  /** Changes of these resources do not count as noise: leases are renewed for ever. */
  readonly humming?: readonly string[];
  readonly freeze?: boolean;
}
