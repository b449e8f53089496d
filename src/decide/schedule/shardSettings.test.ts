import { describe, expect, test } from "vitest";
import type { SchedulingShardSpec } from "../../model/scheduling/schedulingShard.ts";
import { defaultSettings } from "./settings.ts";
import { settingsOfShard } from "./shardSettings.ts";

const of = (spec: SchedulingShardSpec) => settingsOfShard(spec, defaultSettings);

describe("a SchedulingShard", () => {
  test("without settings changes nothing", () => {
    expect(of({})).toEqual({ settings: defaultSettings, problems: [] });
  });

  test.each([
    ["spreads", { placementStrategy: { gpu: "spread" } }, { gpuStrategy: "spread", consolidationJobsMax: 0 }],
    ["bounds how far it looks", { queueDepthPerAction: { reclaim: 5 } }, { queueDepth: { reclaim: 5 } }],
    [
      "looks as far as it can, where it says -1, and at nobody, where it says 0",
      { queueDepthPerAction: { reclaim: -1, preempt: 0 } },
      { queueDepth: { reclaim: Number.POSITIVE_INFINITY, preempt: 0 } },
    ],
    [
      "protects what has just begun",
      { minRuntime: { preemptMinRuntime: "5m", reclaimMinRuntime: "1h" } },
      { preemptMinRuntimeMs: 300_000, reclaimMinRuntimeMs: 3_600_000 },
    ],
    [
      "resolves it by queue",
      { plugins: { minruntime: { arguments: { reclaimResolveMethod: "queue", defaultPreemptMinRuntime: "2s" } } } },
      { reclaimMinRuntimeMethod: "queue", preemptMinRuntimeMs: 2_000 },
    ],
    ["weighs the past", { kValue: 0.5 }, { kValue: 0.5 }],
    ["never weighs the past below nothing", { kValue: -3 }, { kValue: 0 }],
    [
      "keeps a distance when it reclaims, however that is spelled",
      { plugins: { proportion: { arguments: { relcaimerSaturationMultiplier: "1.5" } } } },
      { reclaimerSaturationMultiplier: 1.5 },
    ],
    [
      "has options as a command line has them",
      {
        args: {
          "default-staleness-grace-period": "-1s",
          "--max-consolidation-preemptees": "3",
          "use-scheduling-signatures": "false",
          "full-hierarchy-fairness": "false",
          "restrict-node-scheduling": "true",
          "detailed-fit-errors": "true",
          "stuck-in-releasing-threshold": "10s",
          "allow-consolidating-reclaim": "false",
          "update-pod-eviction-condition": "true",
        },
      },
      {
        stalenessGraceMs: -1_000,
        consolidationJobsMax: 3,
        usesSignatures: false,
        hasFullHierarchy: false,
        restrictsNodes: true,
        showsNodesInErrors: true,
        stuckInReleasingMs: 10_000,
        reclaimMovesVictims: false,
        marksVictims: true,
      },
    ],
    [
      "bounds the search for victims by action, job and generator",
      {
        scenarioSearchBudgets: {
          maxActionSearchDuration: { default: "1m", reclaim: "10s" },
          maxJobSearchDuration: "5s",
          minJobSearchDuration: "100ms",
          maxGeneratorSearchDuration: { MultiNodeGang: "0s" },
        },
      },
      {
        searchBudgets: {
          actionMs: { consolidation: 60_000, reclaim: 10_000, preempt: 60_000 },
          jobMs: 5_000,
          jobMinMs: 100,
          generatorMs: { NodeLocalGreedy: 30_000, MultiNodeGang: 0 },
        },
      },
    ],
    [
      "leaves actions out and changes their order",
      { actions: { consolidation: { enabled: false }, preempt: { priority: 450 } } },
      { actions: ["allocate", "preempt", "reclaim", "stalegangeviction"] },
    ],
    [
      "of another pool leaves plain pods to the first",
      { partitionLabelValue: "gold" },
      { nodePool: "gold", placesPlainPods: false },
    ],
  ] as const)("%s", (_, spec, expected) => {
    expect(of(spec as SchedulingShardSpec)).toMatchObject({ settings: expected, problems: [] });
  });

  test("a setting that cannot be parsed is reported and left as it was", () => {
    const { settings, problems } = of({
      minRuntime: { preemptMinRuntime: "soon" },
      args: { "restrict-node-scheduling": "perhaps", "max-consolidation-preemptees": "many" },
      actions: { pray: { enabled: true } },
      queueDepthPerAction: { allocate: -5, pray: 3 },
      scenarioSearchBudgets: { maxJobSearchDuration: "long", maxGeneratorSearchDuration: { Oracle: "1s" } },
    });
    expect(settings).toEqual(defaultSettings);
    expect(problems).toEqual([
      "queueDepthPerAction.allocate: -5 is not a valid depth; -1 is unlimited",
      "queueDepthPerAction.pray: there is no such action",
      'minRuntime.preemptMinRuntime: "soon" is no duration',
      'max-consolidation-preemptees: "many" is no number',
      'scenarioSearchBudgets.maxJobSearchDuration: "long" is no duration',
      'scenarioSearchBudgets.maxGeneratorSearchDuration: there is no "Oracle"',
      'restrict-node-scheduling: "perhaps" is neither true nor false',
      'there is no action "pray"',
    ]);
  });
});
