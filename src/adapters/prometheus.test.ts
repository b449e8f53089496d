import { describe, expect, test } from "vitest";
import { type PrometheusOptions, prometheus } from "./prometheus.ts";

function begin(options: PrometheusOptions = {}) {
  const problems: string[] = [];
  const metrics = prometheus({ process: false, onProblem: ({ metric }) => problems.push(metric), ...options });
  return { metrics, problems };
}

describe("metrics for Prometheus", () => {
  test("counters add up, by label", async () => {
    const { metrics } = begin({ words: { muster_binds_total: { help: "Pods bound." } } });
    metrics.count("muster_binds_total", { queue: "a" });
    metrics.count("muster_binds_total", { queue: "a" }, 2);
    metrics.count("muster_binds_total", { queue: "b" });
    const text = await metrics.text();
    expect(text).toContain("# HELP muster_binds_total Pods bound.");
    expect(text).toContain("# TYPE muster_binds_total counter");
    expect(text).toContain('muster_binds_total{queue="a"} 3');
    expect(text).toContain('muster_binds_total{queue="b"} 1');
  });

  test("gauges keep the last value", async () => {
    const { metrics } = begin();
    metrics.gauge("muster_pending_gangs", {}, 5);
    metrics.gauge("muster_pending_gangs", {}, 3);
    expect(await metrics.text()).toMatch(/^muster_pending_gangs 3$/m);
  });

  test("histograms sort into their buckets", async () => {
    const { metrics } = begin({ words: { muster_reconcile_seconds: { help: "A turn.", buckets: [0.1, 1] } } });
    for (const seconds of [0.05, 0.5, 5]) metrics.observe("muster_reconcile_seconds", {}, seconds);
    const text = await metrics.text();
    expect(text).toContain('muster_reconcile_seconds_bucket{le="0.1"} 1');
    expect(text).toContain('muster_reconcile_seconds_bucket{le="1"} 2');
    expect(text).toContain('muster_reconcile_seconds_bucket{le="+Inf"} 3');
  });

  test("a label of a later use is left out and reported once", async () => {
    const { metrics, problems } = begin();
    metrics.count("muster_a_total", { one: "1" });
    metrics.count("muster_a_total", { one: "1", two: "2" });
    metrics.count("muster_a_total", { one: "1", two: "2" });
    expect(await metrics.text()).toContain('muster_a_total{one="1"} 3');
    expect(problems).toEqual(["muster_a_total"]);
  });

  test.each<[string, (metrics: ReturnType<typeof prometheus>) => void]>([
    ["a counter that goes down", (metrics) => metrics.count("muster_a_total", {}, -1)],
    ["a name that is none", (metrics) => metrics.count("not a name", {})],
    [
      "one name for two things",
      (metrics) => {
        metrics.count("muster_a_total", {});
        metrics.gauge("muster_a_total", {}, 1);
      },
    ],
  ])("%s is told and does not throw", (_, use) => {
    const { metrics, problems } = begin();
    use(metrics);
    expect(problems).toHaveLength(1);
  });

  test("two of them in one process do not mix", async () => {
    const one = begin().metrics;
    const other = begin().metrics;
    one.count("muster_a_total", {});
    expect(await other.text()).not.toContain("muster_a_total");
  });

  test("metrics of the process are on by default", async () => {
    expect(await prometheus().text()).toContain("process_cpu_seconds_total");
    expect(await begin().metrics.text()).not.toContain("process_");
  });
});
