import type { SearchCounts } from "../../decide/schedule/session.ts";
import type { ActionName } from "../../decide/schedule/settings.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Metrics } from "../../ports/metrics.ts";

/** How long the parts of one cycle take, under the names that dashboards of KAI know. */
export class Stages {
  private readonly clock: Clock;
  private readonly metrics: Metrics;
  private readonly startedMs: number;
  private lastMs: number;

  constructor(clock: Clock, metrics: Metrics) {
    this.clock = clock;
    this.metrics = metrics;
    this.startedMs = clock.monotonicMs();
    this.lastMs = this.startedMs;
  }

  ended(stage: ActionName | "open"): void {
    const tookMs = this.lap();
    if (stage === "open") this.metrics.gauge("kai_open_session_latency_milliseconds", {}, tookMs);
    else this.metrics.gauge("kai_action_scheduling_latency_milliseconds", { action: stage }, tookMs);
  }

  /** Reasons are found and everything tried is taken back: that is the end of it. */
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

/** KAI calls the search node by node and the search over all nodes so. */
const generators = { simulatedByNode: "NodeLocalGreedy", simulatedTogether: "MultiNodeGang" } as const;

export function measureSearch(metrics: Metrics, action: ActionName, counts: SearchCounts): void {
  const count = (name: string, labels: Record<string, string>, by: number): void => {
    if (by > 0) metrics.count(name, { action, ...labels }, by);
  };
  count("kai_scenarios_simulation_by_action", {}, counts.simulatedByNode + counts.simulatedTogether);
  count("kai_scenarios_filtered_by_action", {}, counts.filtered);
  count("kai_scenario_search_jobs_total", { result: "solved", reduced_budget: "false" }, counts.solved);
  count("kai_scenario_search_jobs_total", { result: "unsolved", reduced_budget: "false" }, counts.failed);
  for (const key of ["simulatedByNode", "simulatedTogether"] as const) {
    const generator = generators[key];
    count("kai_scenario_search_scenarios_total", { generator, state: "simulated" }, counts[key]);
  }
}
