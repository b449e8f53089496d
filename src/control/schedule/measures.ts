import type { DeviceClaims, DeviceFit } from "../../decide/schedule/cluster/deviceClaims.ts";
import type { NodeState } from "../../decide/schedule/cluster/nodeState.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import {
  evictingActions,
  type Generator,
  generators,
  type SearchBudgets,
} from "../../decide/schedule/eviction/searchBudget.ts";
import type { SearchCounts } from "../../decide/schedule/eviction/searchCounts.ts";
import type { CycleObserver } from "../../decide/schedule/session.ts";
import type { ActionName } from "../../decide/schedule/settings.ts";
import { defaultSchedulerName } from "../../model/scheduling/keys.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { DeviceReport } from "../devices/deviceReport.ts";

/** The durations of the stages of a cycle, under the names of KAI's metrics. */
export class CycleDurations implements CycleObserver {
  private readonly clock: Clock;
  private readonly metrics: Metrics;
  private readonly startedMs: number;
  private lastMs: number;
  private searchStartedMs = 0;

  constructor(clock: Clock, metrics: Metrics) {
    this.clock = clock;
    this.metrics = metrics;
    this.startedMs = clock.monotonicMs();
    this.lastMs = this.startedMs;
  }

  readonly searchStarted = (): void => {
    this.searchStartedMs = this.clock.monotonicMs();
  };

  readonly searchEnded = (action: ActionName, generator: Generator, isSolved: boolean): void => {
    const labels = { action, generator, result: isSolved ? "solved" : "unsolved" };
    const tookMs = this.clock.monotonicMs() - this.searchStartedMs;
    this.metrics.observe("kai_scenario_search_duration_seconds", labels, tookMs / 1000);
  };

  readonly stageEnded = (stage: ActionName | "open"): void => {
    const tookMs = this.lap();
    if (stage === "open") this.metrics.gauge("kai_open_session_latency_milliseconds", {}, tookMs);
    else this.metrics.gauge("kai_action_scheduling_latency_milliseconds", { action: stage }, tookMs);
  };

  /** After the cycle. Since the last action it has found reasons and rolled back the statement. */
  close(): void {
    this.metrics.gauge("kai_close_session_latency_milliseconds", {}, this.lap());
    this.metrics.gauge("kai_e2e_scheduling_latency_milliseconds", {}, this.lastMs - this.startedMs);
  }

  private lap(): number {
    const nowMs = this.clock.monotonicMs();
    const tookMs = nowMs - this.lastMs;
    this.lastMs = nowMs;
    return tookMs;
  }
}

export function measureSearch(metrics: Metrics, action: ActionName, counts: SearchCounts): void {
  const count = (name: string, labels: Record<string, string>, by: number): void => {
    if (by > 0) metrics.count(name, { action, ...labels }, by);
  };
  count("kai_scenarios_simulation_by_action", {}, counts.simulated);
  count("kai_scenarios_filtered_by_action", {}, counts.filtered);
  for (const { end, isReduced, count: jobs } of counts.jobs) {
    count("kai_scenario_search_jobs_total", { result: end, reduced_budget: String(isReduced) }, jobs);
  }
  if (counts.isCutShort) count("kai_scenario_search_action_budget_exhausted_total", {}, 1);
  for (const generator of generators) {
    const { emitted, simulated, rejected } = counts.scenarios[generator];
    count("kai_scenario_search_scenarios_total", { generator, state: "emitted" }, emitted);
    count("kai_scenario_search_scenarios_total", { generator, state: "simulated" }, simulated);
    count("kai_scenario_search_scenarios_total", { generator, state: "validator_rejected" }, rejected);
  }
}

/** The configured budgets, in seconds. */
export function measureBudgets(metrics: Metrics, { actionMs, jobMs, generatorMs }: SearchBudgets): void {
  const name = (of: string): string => `kai_scenario_search_${of}_budget_configured_seconds`;
  for (const action of evictingActions) metrics.gauge(name("action"), { action }, actionMs[action] / 1000);
  metrics.gauge(name("job"), {}, jobMs / 1000);
  for (const generator of generators) metrics.gauge(name("generator"), { generator }, generatorMs[generator] / 1000);
}

/** The same answers about devices, with the time that each search takes as a metric. */
export function measuredDevices(devices: DeviceClaims, report: DeviceReport, clock: Clock): DeviceClaims {
  return {
    begin: (nowMs, releasing) => devices.begin(nowMs, releasing),
    gpusOf: (task) => devices.gpusOf(task),
    gpuClassesOf: (task) => devices.gpuClassesOf(task),
    problemOf: (task) => devices.problemOf(task),
    fit(task: Task, node: NodeState): DeviceFit {
      const startedMs = clock.monotonicMs();
      const fit = devices.fit(task, node);
      report.searched(schedulerOf(task), clock.monotonicMs() - startedMs);
      return fit;
    },
    assume: (task, node, fit) => devices.assume(task, node, fit),
    release: (task) => devices.release(task),
    checkpoint: () => devices.checkpoint(),
    rollback: (checkpoint) => devices.rollback(checkpoint),
    unitsOn: (node) => devices.unitsOn(node),
  };
}

export function schedulerOf({ pod }: Task): string {
  return pod.spec?.schedulerName ?? defaultSchedulerName;
}
