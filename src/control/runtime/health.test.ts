import { describe, expect, test } from "vitest";
import { Health, renderHealth } from "./health.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";

describe("health", () => {
  test("is `ok` while every check passes", () => {
    const health = new Health();
    health.add("ping", () => undefined);
    expect(renderHealth(health.report())).toEqual({ code: 200, text: "ok" });
    expect(renderHealth(health.report(), true).text).toBe("[+]ping ok\ncheck passed\n");
  });

  test("names the checks that fail", () => {
    const health = new Health();
    health.add("ping", () => undefined);
    health.add("caches", () => "no list yet of /pods");
    const { code, text } = renderHealth(health.report());
    expect(code).toBe(500);
    expect(text).toBe("[-]caches failed: no list yet of /pods\n[+]ping ok\ncheck failed\n");
  });
});

describe("metrics in memory", () => {
  test("are rendered as text, in order, with labels escaped", () => {
    const book = new MemoryMetrics();
    book.count("muster_reconciles_total", { controller: "b", result: "done" });
    book.count("muster_reconciles_total", { result: "done", controller: "b" }, 2);
    book.count("muster_reconciles_total", { controller: 'a"\n', result: "done" });
    book.gauge("muster_lease_held", {}, 1);
    book.observe("muster_reconcile_seconds", { controller: "b" }, 0.002);
    book.observe("muster_reconcile_seconds", { controller: "b" }, 1000);
    const lines = book.render().split("\n");
    expect(lines.slice(0, 5)).toEqual([
      "# TYPE muster_reconciles_total counter",
      'muster_reconciles_total{controller="a\\"\\n",result="done"} 1',
      'muster_reconciles_total{controller="b",result="done"} 3',
      "# TYPE muster_lease_held gauge",
      "muster_lease_held 1",
    ]);
    expect(lines).toContain('muster_reconcile_seconds_bucket{controller="b",le="0.001"} 0');
    expect(lines).toContain('muster_reconcile_seconds_bucket{controller="b",le="0.005"} 1');
    expect(lines).toContain('muster_reconcile_seconds_bucket{controller="b",le="+Inf"} 2');
    expect(lines).toContain('muster_reconcile_seconds_sum{controller="b"} 1000.002');
    expect(lines).toContain('muster_reconcile_seconds_count{controller="b"} 2');
  });
});
