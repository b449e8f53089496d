import type { MetricLabels, Metrics } from "../../ports/metrics.ts";

interface Histogram {
  readonly bounds: readonly number[];
  readonly counts: number[];
  sum: number;
  count: number;
}

/** Upper bounds in seconds, as in controller-runtime, from a microsecond to ten minutes. */
const secondBounds = [0.000001, 0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 600];

/** Histograms in milliseconds have the buckets of KAI's dashboards: 5 ms, doubled nine times. */
const millisecondBounds = Array.from({ length: 10 }, (_, at) => 5 * 2 ** at);

/** KAI's buckets for searches: a millisecond, doubled fifteen times. */
const searchBounds = Array.from({ length: 16 }, (_, at) => 0.001 * 2 ** at);

function boundsOf(name: string): readonly number[] {
  if (name === "kai_scenario_search_duration_seconds") return searchBounds;
  return name.endsWith("_milliseconds") ? millisecondBounds : secondBounds;
}

/** Metrics in memory: for tests, for the simulator, and as text for the server of `/metrics`. */
export class MemoryMetrics implements Metrics {
  private readonly counters = new Map<string, number>();
  private readonly gauges = new Map<string, number>();
  private readonly histograms = new Map<string, Histogram>();

  count(name: string, labels: MetricLabels, by = 1): void {
    const key = seriesKey(name, labels);
    this.counters.set(key, (this.counters.get(key) ?? 0) + by);
  }

  gauge(name: string, labels: MetricLabels, value: number): void {
    this.gauges.set(seriesKey(name, labels), value);
  }

  observe(name: string, labels: MetricLabels, value: number): void {
    const key = seriesKey(name, labels);
    let histogram = this.histograms.get(key);
    if (histogram === undefined) {
      const bounds = boundsOf(name);
      histogram = { bounds, counts: bounds.map(() => 0), sum: 0, count: 0 };
      this.histograms.set(key, histogram);
    }
    histogram.sum += value;
    histogram.count++;
    const at = histogram.bounds.findIndex((bound) => value <= bound);
    if (at >= 0) histogram.counts[at] = (histogram.counts[at] ?? 0) + 1;
  }

  /** The value of a counter or gauge. */
  value(name: string, labels: MetricLabels = {}): number {
    const key = seriesKey(name, labels);
    return this.counters.get(key) ?? this.gauges.get(key) ?? 0;
  }

  /** The text format of Prometheus, in order of name. */
  render(): string {
    const lines: string[] = [];
    const typed = new Set<string>();
    const type = (key: string, kind: string): void => {
      const name = key.split("{", 1)[0] as string;
      if (typed.has(name)) return;
      typed.add(name);
      lines.push(`# TYPE ${name} ${kind}`);
    };
    for (const [key, value] of sorted(this.counters)) {
      type(key, "counter");
      lines.push(`${key} ${value}`);
    }
    for (const [key, value] of sorted(this.gauges)) {
      type(key, "gauge");
      lines.push(`${key} ${value}`);
    }
    for (const [key, { bounds, counts, sum, count }] of sorted(this.histograms)) {
      type(key, "histogram");
      let below = 0;
      counts.forEach((each, at) => {
        below += each;
        lines.push(`${withLabel(key, "_bucket", "le", String(bounds[at]))} ${below}`);
      });
      lines.push(`${withLabel(key, "_bucket", "le", "+Inf")} ${count}`);
      lines.push(`${withLabel(key, "_sum")} ${sum}`, `${withLabel(key, "_count")} ${count}`);
    }
    return `${lines.join("\n")}\n`;
  }
}

function seriesKey(name: string, labels: MetricLabels): string {
  const names = Object.keys(labels);
  if (names.length === 0) return name;
  if (names.length > 1) names.sort();
  return `${name}{${names.map((each) => `${each}="${escaped(labels[each] as string)}"`).join(",")}}`;
}

function withLabel(key: string, suffix: string, label?: string, value?: string): string {
  const brace = key.indexOf("{");
  const name = brace < 0 ? key : key.slice(0, brace);
  const inner = brace < 0 ? "" : key.slice(brace + 1, -1);
  const added = label === undefined ? "" : `${label}="${value}"`;
  const labels = [inner, added].filter((part) => part !== "").join(",");
  return labels === "" ? `${name}${suffix}` : `${name}${suffix}{${labels}}`;
}

const isSpecial = /[\\"\n]/;

function escaped(value: string): string {
  if (!isSpecial.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function sorted<V>(map: ReadonlyMap<string, V>): [string, V][] {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}
