import type { Component } from "../src/control/runtime/component.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import type { ActorSpec } from "../src/sim/actor.ts";
import type { Decision as Drawn } from "../src/sim/chance.ts";
import type { Invariant } from "../src/sim/invariant.ts";
import type { Scenario } from "../src/sim/scenario.ts";
import { kinds, plain } from "../src/sim/sceneKit.ts";

/**
 * A reported race that can be replayed: the bug in isolation, the invariant that catches it, and the fix. The tests
 * fail when a buggy variant stops violating its invariant.
 */
export interface Exhibit {
  /** The number of the race in the museum. */
  readonly number: number;
  readonly slug: string;
  readonly title: string;
  /** Where it was reported. */
  readonly source: string;
  /** The invariant that catches it. */
  readonly invariant: string;
  /** The schedule as a diagram. */
  readonly story: string;
  /** The variant without the bug. */
  readonly fixed: Variant;
  /** The variants with the bug; `--buggy` runs the first. */
  readonly buggy: readonly BuggyVariant[];
}

export interface Variant {
  readonly name: string;
  readonly about: string;
  readonly scenario: Scenario;
}

export interface BuggyVariant extends Variant {
  /** The invariant that catches it, where that is not the exhibit's. */
  readonly invariant?: string;
  /** The variant fails within this number of seeds. */
  readonly firstSeeds: number;
  /** Decisions with which the variant always fails, without any other fault. */
  readonly schedule: readonly Drawn[];
}

/**
 * The common settings of the scenarios of the museum. Late writes take effect within eight seconds, so quiescence takes
 * longer than that.
 */
export function scene(options: {
  slug: string;
  variant: string;
  about: string;
  faults: readonly string[];
  invariants: readonly Invariant[];
  actors: () => ActorSpec[];
  setUp?: (kube: KubeApi) => Promise<void>;
  ignoredForQuiescence?: readonly string[];
  components?: readonly Component[];
}): Scenario {
  const { slug, variant, about, faults, invariants, actors, setUp, ignoredForQuiescence, components } = options;
  return {
    name: `race/${slug}/${variant}`,
    about,
    faults,
    invariants,
    actors,
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
      await setUp?.(kube);
    },
    faultPhaseMs: 4_000,
    settleMs: 20_000,
    quietMs: 8_500,
    ...(ignoredForQuiescence === undefined ? {} : { ignoredForQuiescence }),
    ...(components === undefined ? {} : { components }),
  };
}
