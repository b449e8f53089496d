/**
 * Counters, gauges and histograms in the Prometheus text format. An API server needs few, so there is no library; names
 * and labels are upstream's, so existing dashboards work.
 */
const durationBuckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60];

interface Series {
  readonly labels: string;
  value: number;
}

interface HistogramSeries {
  readonly labels: string;
  readonly counts: number[];
  sum: number;
  count: number;
}

export class Metrics {
  private readonly help = new Map<string, { type: string; text: string }>();
  private readonly counters = new Map<string, Map<string, Series>>();
  private readonly histograms = new Map<string, { buckets: readonly number[]; series: Map<string, HistogramSeries> }>();
  private readonly appended: (() => Promise<string>)[] = [];
  private readonly gauges: { name: string; read: () => Iterable<readonly [string, number]> }[] = [];

  describe(name: string, type: "counter" | "gauge" | "histogram", text: string): void {
    this.help.set(name, { type, text });
  }

  add(name: string, labels: string, by = 1): void {
    let family = this.counters.get(name);
    if (family === undefined) {
      family = new Map();
      this.counters.set(name, family);
    }
    const series = family.get(labels);
    if (series === undefined) family.set(labels, { labels, value: by });
    else series.value += by;
  }

  observe(name: string, labels: string, value: number, buckets: readonly number[] = durationBuckets): void {
    let family = this.histograms.get(name);
    if (family === undefined) {
      family = { buckets, series: new Map() };
      this.histograms.set(name, family);
    }
    let series = family.series.get(labels);
    if (series === undefined) {
      series = { labels, counts: new Array<number>(family.buckets.length).fill(0), sum: 0, count: 0 };
      family.series.set(labels, series);
    }
    series.sum += value;
    series.count++;
    for (let at = family.buckets.length - 1; at >= 0 && value <= (family.buckets[at] as number); at--) {
      series.counts[at] = (series.counts[at] ?? 0) + 1;
    }
  }

  /** Adds the metrics of other components of the process to each scrape. */
  append(read: () => Promise<string>): void {
    this.appended.push(read);
  }

  /** The metrics of the server, then the appended ones. */
  async allText(): Promise<string> {
    const others = await Promise.all(this.appended.map((read) => read()));
    return [this.text(), ...others].join("");
  }

  /** A gauge is read at each scrape. Labels as in `resource="pods"`. */
  gauge(name: string, read: () => Iterable<readonly [string, number]>): void {
    this.gauges.push({ name, read });
  }

  text(): string {
    const lines: string[] = [];
    const head = (name: string) => {
      const known = this.help.get(name);
      if (known !== undefined) lines.push(`# HELP ${name} ${known.text}`, `# TYPE ${name} ${known.type}`);
    };
    for (const [name, family] of this.counters) {
      head(name);
      for (const { labels, value } of family.values()) lines.push(`${name}{${labels}} ${value}`);
    }
    for (const [name, { buckets, series }] of this.histograms) {
      head(name);
      for (const { labels, counts, sum, count } of series.values()) {
        const comma = labels === "" ? "" : `${labels},`;
        buckets.forEach((bound, at) => {
          lines.push(`${name}_bucket{${comma}le="${bound}"} ${counts[at]}`);
        });
        lines.push(
          `${name}_bucket{${comma}le="+Inf"} ${count}`,
          `${name}_sum{${labels}} ${sum}`,
          `${name}_count{${labels}} ${count}`,
        );
      }
    }
    for (const { name, read } of this.gauges) {
      head(name);
      for (const [labels, value] of read())
        lines.push(labels === "" ? `${name} ${value}` : `${name}{${labels}} ${value}`);
    }
    return `${lines.join("\n")}\n`;
  }
}
