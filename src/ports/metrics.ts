/** Numbers for operators. Names are few and stable: `muster_reconcile_seconds`. */
export interface Metrics {
  /** Adds to a counter. */
  count(name: string, labels: MetricLabels, by?: number): void;
  /** Sets a gauge. */
  gauge(name: string, labels: MetricLabels, value: number): void;
  /** Adds an observation to a histogram. */
  observe(name: string, labels: MetricLabels, value: number): void;
}

export type MetricLabels = Readonly<Record<string, string>>;
