/** Alerts, board and runbook speak of what the program exports, and of each other. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { prometheus } from "../../src/adapters/prometheus.ts";
import { metricWords } from "../../src/cli/cluster/metricWords.ts";

const root = join(import.meta.dirname, "../..");

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook: string };
}

const alerts = parse(readFileSync(join(root, "deploy/alerts.yaml"), "utf8")) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
};
const rules = alerts.spec.groups.flatMap((group) => group.rules);
const board = JSON.parse(readFileSync(join(root, "deploy/grafana/muster.json"), "utf8")) as {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
};

function sources(path: string): string[] {
  if (!statSync(path).isDirectory()) return path.endsWith(".ts") && !path.endsWith(".test.ts") ? [path] : [];
  return readdirSync(path).flatMap((name) => sources(join(path, name)));
}

/** Every metric that the source of the controllers counts, sets or observes. */
function counted(): Set<string> {
  // The source puts these names together.
  const budgets = ["action", "job", "generator"].map((of) => `kai_scenario_search_${of}_budget_configured_seconds`);
  const names = new Set<string>(budgets);
  for (const room of ["control", "adapters", "kubelet"]) {
    for (const file of sources(join(root, "src", room))) {
      if (file.endsWith("memoryMetrics.ts") || file.includes("/postgres/")) continue;
      for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/"((?:muster|kai|workqueue)_[a-z0-9_]+)"/g)) {
        if (!name.startsWith("muster_inventory_")) names.add(name);
      }
    }
  }
  return names;
}

/** Names in an expression, without the suffixes that histograms add. */
function metricsIn(expr: string): string[] {
  return (expr.match(/\b(muster|kai|workqueue|process)_[a-z0-9_]+/g) ?? []).map((name) =>
    name.replace(/_(bucket|sum|count)$/, ""),
  );
}

test("every metric of the controllers has a help text, and no text is about one that does not exist", () => {
  expect(Object.keys(metricWords).sort()).toEqual([...counted()].sort());
});

test("help texts are what /metrics shows", async () => {
  const metrics = prometheus({ words: metricWords, process: false });
  metrics.count("muster_api_requests_total", { verb: "get", resource: "pods", code: "200" });
  expect(await metrics.text()).toContain("# HELP muster_api_requests_total Requests to the API server by verb");
});

describe("alerts", () => {
  test.each(rules.map((rule) => [rule.alert, rule] as const))(
    "%s asks for metrics that are exported",
    (_, { expr }) => {
      const names = metricsIn(expr);
      expect(names.length).toBeGreaterThan(0);
      for (const name of names) expect(Object.keys(metricWords)).toContain(name);
    },
  );

  test.each(rules.map((rule) => [rule.alert, rule] as const))(
    "%s leads to a heading of the runbook that names it",
    (_, rule) => {
      const runbook = readFileSync(join(root, "docs/runbook.md"), "utf8");
      const sections = runbook.split(/^## /m).slice(1);
      const wanted = rule.annotations.runbook.replace("docs/runbook.md#", "");
      const section = sections.find((text) => text.split("\n")[0]?.toLowerCase().replaceAll(" ", "-") === wanted);
      expect(section).toContain(`\`${rule.alert}\``);
    },
  );

  test("page or make a ticket, and nothing else", () => {
    expect(new Set(rules.map(({ labels }) => labels.severity))).toEqual(new Set(["page", "ticket"]));
  });

  const promtool = process.env["PROMTOOL"] ?? "promtool";
  const hasPromtool = spawnSync(promtool, ["--version"]).status === 0;
  test.skipIf(!hasPromtool)("are accepted by promtool (needs promtool on the PATH, or PROMTOOL)", () => {
    const folder = mkdtempSync(join(tmpdir(), "muster-rules-"));
    try {
      writeFileSync(join(folder, "rules.yaml"), stringify(alerts.spec));
      const run = spawnSync(promtool, ["check", "rules", join(folder, "rules.yaml")], { encoding: "utf8" });
      expect(run.stdout + run.stderr).toContain("SUCCESS");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

test.each(board.panels.map((panel) => [panel.title, panel] as const))(
  "the panel %s of the board asks for metrics that are exported",
  (_, { targets }) => {
    const ofProcess = ["process_resident_memory_bytes", "process_cpu_seconds_total"];
    for (const { expr } of targets) {
      const names = metricsIn(expr);
      expect(names.length).toBeGreaterThan(0);
      for (const name of names) expect([...Object.keys(metricWords), ...ofProcess]).toContain(name);
    }
  },
);
