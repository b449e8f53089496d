import type { ActionSetting, SchedulingShardSpec } from "../../model/scheduling/schedulingShard.ts";
import { durationToMs } from "../../model/values/goDuration.ts";
import { evictingActions, type Generator, generators, type SearchBudgets } from "./eviction/searchBudget.ts";
import { readUsageSettings } from "./queues/usage.ts";
import type { ActionName, Settings } from "./settings.ts";

/** The default priorities of actions, the highest first. */
const actionPriorities: Readonly<Record<ActionName, number>> = {
  allocate: 500,
  consolidation: 400,
  reclaim: 300,
  preempt: 200,
  stalegangeviction: 100,
};

export interface ShardSettings {
  readonly settings: Settings;
  /** Invalid settings, which were ignored. */
  readonly problems: readonly string[];
}

/** The settings of a shard, with defaults for those that it does not set. */
export function settingsOfShard(
  spec: SchedulingShardSpec,
  base: Settings,
  environment: (name: string) => string | undefined = () => undefined,
): ShardSettings {
  const problems: string[] = [];
  const reader = new Reader(problems);
  const { placementStrategy, minRuntime, queueDepthPerAction, kValue } = spec;
  const argument = (plugin: string, ...names: readonly string[]): string | undefined => {
    const { enabled, arguments: given } = spec.plugins?.[plugin] ?? {};
    return enabled === false ? undefined : names.map((name) => given?.[name]).find((each) => each !== undefined);
  };
  const option = (name: string): string | undefined => spec.args?.[name] ?? spec.args?.[`--${name}`];
  const runtime = (what: string, ofShard: string | undefined, name: string, fallback: number): number =>
    reader.duration(what, ofShard ?? argument("minruntime", name), fallback);
  const isSpread = placementStrategy?.gpu === "spread" || placementStrategy?.cpu === "spread";
  const settings: Settings = {
    ...base,
    nodePool: spec.partitionLabelValue ?? "",
    // Pods of `default-scheduler` have no node pool: the scheduler of the default pool places them.
    placesPlainPods: base.placesPlainPods && (spec.partitionLabelValue ?? "") === base.nodePool,
    gpuStrategy: placementStrategy?.gpu ?? base.gpuStrategy,
    cpuStrategy: placementStrategy?.cpu ?? base.cpuStrategy,
    queueDepth: depthsOf(queueDepthPerAction ?? {}, base.queueDepth, problems),
    preemptMinRuntimeMs: runtime(
      "minRuntime.preemptMinRuntime",
      minRuntime?.preemptMinRuntime,
      "defaultPreemptMinRuntime",
      base.preemptMinRuntimeMs,
    ),
    reclaimMinRuntimeMs: runtime(
      "minRuntime.reclaimMinRuntime",
      minRuntime?.reclaimMinRuntime,
      "defaultReclaimMinRuntime",
      base.reclaimMinRuntimeMs,
    ),
    reclaimMinRuntimeMethod:
      argument("minruntime", "reclaimResolveMethod") === "queue" ? "queue" : base.reclaimMinRuntimeMethod,
    kValue: Math.max(0, kValue ?? reader.number("kValue", argument("proportion", "kValue"), base.kValue)),
    reclaimerSaturationMultiplier: Math.max(
      1,
      reader.number(
        "reclaimerSaturationMultiplier",
        // The first is how KAI spells it, the others are what its documentation and its readers write.
        argument(
          "proportion",
          "relcaimerSaturationMultiplier",
          "reclaimerSaturationMultiplier",
          "reclaimerUtilizationMultiplier",
        ),
        base.reclaimerSaturationMultiplier,
      ),
    ),
    stalenessGraceMs: reader.duration(
      "default-staleness-grace-period",
      option("default-staleness-grace-period"),
      base.stalenessGraceMs,
    ),
    stuckInReleasingMs: reader.duration(
      "stuck-in-releasing-threshold",
      option("stuck-in-releasing-threshold"),
      base.stuckInReleasingMs,
    ),
    // Pods that are spread on purpose are not consolidated.
    consolidationJobsMax: isSpread
      ? 0
      : reader.number(
          "max-consolidation-preemptees",
          option("max-consolidation-preemptees"),
          base.consolidationJobsMax,
        ),
    usesSignatures: reader.flag("use-scheduling-signatures", option("use-scheduling-signatures"), base.usesSignatures),
    reclaimMovesVictims: reader.flag(
      "allow-consolidating-reclaim",
      option("allow-consolidating-reclaim"),
      base.reclaimMovesVictims,
    ),
    marksVictims: reader.flag(
      "update-pod-eviction-condition",
      option("update-pod-eviction-condition"),
      base.marksVictims,
    ),
    searchBudgets: budgetsOf(spec.scenarioSearchBudgets ?? {}, base.searchBudgets, reader, problems),
    hasFullHierarchy: reader.flag("full-hierarchy-fairness", option("full-hierarchy-fairness"), base.hasFullHierarchy),
    restrictsNodes: reader.flag("restrict-node-scheduling", option("restrict-node-scheduling"), base.restrictsNodes),
    showsNodesInErrors: reader.flag("detailed-fit-errors", option("detailed-fit-errors"), base.showsNodesInErrors),
    usage:
      spec.usageDBConfig === undefined
        ? base.usage
        : readUsageSettings(spec.usageDBConfig as Record<string, unknown>, environment, problems),
    actions: actionsOf(spec.actions ?? {}, base.actions, problems),
  };
  return { settings, problems };
}

/** As in KAI, -1 is unlimited and 0 is no job; with a lower value KAI's scheduler exits in the first cycle. */
function depthsOf(
  given: Readonly<Record<string, number>>,
  fallback: Settings["queueDepth"],
  problems: string[],
): Settings["queueDepth"] {
  const depths: Record<string, number> = { ...fallback };
  for (const [name, depth] of Object.entries(given)) {
    const field = `queueDepthPerAction.${name}`;
    if (!Object.hasOwn(actionPriorities, name)) problems.push(`${field}: there is no such action`);
    else if (depth < withoutBound) problems.push(`${field}: ${depth} is not a valid depth; -1 is unlimited`);
    else depths[name] = depth === withoutBound ? Number.POSITIVE_INFINITY : depth;
  }
  return depths;
}

const withoutBound = -1;

/** A budget by action and by generator, and a default for those that are not named. */
function budgetsOf(
  given: NonNullable<SchedulingShardSpec["scenarioSearchBudgets"]>,
  fallback: SearchBudgets,
  reader: Reader,
  problems: string[],
): SearchBudgets {
  const { maxActionSearchDuration: ofActions = {}, maxGeneratorSearchDuration: ofGenerators = {} } = given;
  const field = (name: string, text: string | undefined, otherwise: number): number =>
    Math.max(0, reader.duration(`scenarioSearchBudgets.${name}`, text, otherwise));
  const each = <K extends string>(
    name: string,
    keys: readonly K[],
    durations: Readonly<Record<string, string>>,
    otherwise: Readonly<Record<K, number>>,
  ): Record<K, number> => {
    for (const key of Object.keys(durations)) {
      if (key !== forAll && !(keys as readonly string[]).includes(key)) {
        problems.push(`scenarioSearchBudgets.${name}: there is no ${JSON.stringify(key)}`);
      }
    }
    const read = keys.map((key) => [key, field(`${name}.${key}`, durations[key] ?? durations[forAll], otherwise[key])]);
    return Object.fromEntries(read) as Record<K, number>;
  };
  return {
    actionMs: each("maxActionSearchDuration", evictingActions, ofActions, fallback.actionMs),
    jobMs: field("maxJobSearchDuration", given.maxJobSearchDuration, fallback.jobMs),
    jobMinMs: field("minJobSearchDuration", given.minJobSearchDuration, fallback.jobMinMs),
    generatorMs: each<Generator>("maxGeneratorSearchDuration", generators, ofGenerators, fallback.generatorMs),
  };
}

const forAll = "default";

function actionsOf(
  given: Readonly<Record<string, ActionSetting>>,
  fallback: readonly ActionName[],
  problems: string[],
): readonly ActionName[] {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(actionPriorities, name)) problems.push(`there is no action ${JSON.stringify(name)}`);
  }
  const names = Object.keys(actionPriorities) as ActionName[];
  return names
    .filter((name) => given[name]?.enabled ?? fallback.includes(name))
    .map((name) => ({ name, priority: given[name]?.priority ?? actionPriorities[name] }))
    .sort((a, b) => b.priority - a.priority || names.indexOf(a.name) - names.indexOf(b.name))
    .map(({ name }) => name);
}

class Reader {
  private readonly problems: string[];

  constructor(problems: string[]) {
    this.problems = problems;
  }

  duration(name: string, text: string | undefined, fallback: number): number {
    return this.read(name, text, durationToMs(text), fallback, "no duration");
  }

  number(name: string, text: string | undefined, fallback: number): number {
    const value = text !== undefined && text.trim() !== "" ? Number(text) : undefined;
    return this.read(name, text, Number.isFinite(value) ? value : undefined, fallback, "no number");
  }

  flag(name: string, text: string | undefined, fallback: boolean): boolean {
    const value = text === "true" ? true : text === "false" ? false : undefined;
    return this.read(name, text, value, fallback, "neither true nor false");
  }

  private read<T>(name: string, text: string | undefined, value: T | undefined, fallback: T, why: string): T {
    if (text !== undefined && value === undefined) this.problems.push(`${name}: ${JSON.stringify(text)} is ${why}`);
    return value ?? fallback;
  }
}
