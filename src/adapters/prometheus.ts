import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { MetricLabels, Metrics } from "../ports/metrics.ts";

/** The declaration of a metric. */
export interface MetricWords {
  readonly help: string;
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
}

export interface PrometheusOptions {
  /** Declarations by name. A metric without one has its name as help text. */
  readonly words?: Readonly<Record<string, MetricWords>>;
  /** Also export memory, CPU and event loop of this process; default true. */
  readonly process?: boolean;
  /** Called once per metric that was used inconsistently. */
  readonly onProblem?: (problem: { readonly metric: string; readonly message: string }) => void;
}

/** Metrics, and the text that a Prometheus server scrapes. */
export interface Prometheus extends Metrics {
  readonly contentType: string;
  text(): Promise<string>;
}

/** From a millisecond to a minute: reconciles, calls, binds. */
const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** KAI's: 5 ms, doubled nine times. */
const millisecondsBuckets = Array.from({ length: 10 }, (_, at) => 5 * 2 ** at);

/**
 * Metrics for Prometheus. A metric is created on first use and keeps the labels of that use: a label that only later
 * uses have is left out and reported to `onProblem`. Counting never throws; a wrong metric must not stop a controller.
 */
export function prometheus(options: PrometheusOptions = {}): Prometheus {
  const registry = new Registry();
  if (options.process !== false) collectDefaultMetrics({ register: registry });
  const words = options.words ?? {};
  const known = new Map<string, Known>();
  const complained = new Set<string>();

  const complain = (metric: string, message: string): void => {
    if (complained.has(metric)) return;
    complained.add(metric);
    options.onProblem?.({ metric, message });
  };
  const use = (kind: Known["kind"], name: string, labels: MetricLabels, value: number): void => {
    try {
      let metric = known.get(name);
      if (metric === undefined) {
        metric = make(kind, name, Object.keys(labels), words[name]);
        registry.registerMetric(metric.collector);
        known.set(name, metric);
      }
      if (metric.kind !== kind) throw new Error(`used as a ${kind}, but it is a ${metric.kind}`);
      const { fitting, extra } = fit(labels, metric.labels);
      if (extra !== undefined) complain(name, `the label ${extra} is not a label of the metric's first use`);
      metric.add(fitting, value);
    } catch (error) {
      complain(name, error instanceof Error ? error.message : String(error));
    }
  };
  return {
    count: (name, labels, by = 1) => use("counter", name, labels, by),
    gauge: (name, labels, value) => use("gauge", name, labels, value),
    observe: (name, labels, value) => use("histogram", name, labels, value),
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
}

interface Known {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: ReadonlySet<string>;
  readonly collector: Counter | Gauge | Histogram;
  add(labels: Record<string, string>, value: number): void;
}

function make(kind: Known["kind"], name: string, labelNames: string[], words: MetricWords | undefined): Known {
  const labels = new Set(labelNames);
  // The caller registers it in its own registry, not in the global one of prom-client.
  const about = { name, help: words?.help ?? name, labelNames, registers: [] };
  switch (kind) {
    case "counter": {
      const collector = new Counter(about);
      return { kind, labels, collector, add: (at, value) => collector.inc(at, value) };
    }
    case "gauge": {
      const collector = new Gauge(about);
      return { kind, labels, collector, add: (at, value) => collector.set(at, value) };
    }
    case "histogram": {
      const usual = name.endsWith("_milliseconds") ? millisecondsBuckets : secondsBuckets;
      const collector = new Histogram({ ...about, buckets: [...(words?.buckets ?? usual)] });
      return { kind, labels, collector, add: (at, value) => collector.observe(at, value) };
    }
  }
}

function fit(
  labels: MetricLabels,
  wanted: ReadonlySet<string>,
): { fitting: Record<string, string>; extra: string | undefined } {
  const fitting: Record<string, string> = {};
  let extra: string | undefined;
  for (const [name, value] of Object.entries(labels)) {
    if (wanted.has(name)) fitting[name] = value;
    else extra = name;
  }
  return { fitting, extra };
}
