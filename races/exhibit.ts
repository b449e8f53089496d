import type { Component } from "../src/control/runtime/component.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import type { ActorSpec } from "../src/sim/actor.ts";
import type { Decision as Drawn } from "../src/sim/chance.ts";
import type { Invariant } from "../src/sim/invariant.ts";
import type { Scenario } from "../src/sim/scenario.ts";
import { kinds, plain } from "../src/sim/sceneKit.ts";

/**
 * A reported race, kept so that it can be replayed: the mistake, isolated; the invariant that catches it; and the way
 * without it. An exhibit whose mistake stops failing shows nothing any more, and fails the tests.
 */
export interface Exhibit {
  /** As in the field's list of races. */
  readonly number: number;
  readonly slug: string;
  readonly title: string;
  /** Where it was reported. */
  readonly source: string;
  /** The invariant that catches it. */
  readonly invariant: string;
  /** What happens, on one screen. */
  readonly story: string;
  /** Without the mistake. */
  readonly fixed: Variant;
  /** With it; the first is what `--buggy` means. */
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
  /** It fails within this many first seeds. */
  readonly firstSeeds: number;
  /** What chance has to decide for it to fail every time; everything else is calm. */
  readonly schedule: readonly Drawn[];
}

/**
 * What the scenes of the museum have in common. Late writes land within eight seconds, so silence is longer than that.
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
