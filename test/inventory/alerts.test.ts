import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { InventoryWorld } from "./inventoryWorld.ts";

/** Alerts ask for what is really counted, and also fire when nothing is. */
const root = join(import.meta.dirname, "../..");
const world = new InventoryWorld();
beforeAll(() => world.start());
beforeEach(() => world.fresh());
afterAll(() => world.stop());

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook: string };
}

function rulesOf(file: string): Rule[] {
  const text = readFileSync(join(root, "deploy", file), "utf8");
  return (parse(text) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules);
}

const files = ["inventory-alerts.yaml", "inventory-alerts-cronjob.yaml"];

/** What kube-state-metrics has of CronJobs and Jobs, as far as the rules use it. */
const ofClusterState = new Set([
  "kube_cronjob_info",
  "kube_cronjob_spec_suspend",
  "kube_cronjob_status_last_successful_time",
  "kube_job_created",
  "kube_job_status_active",
  "kube_job_status_failed",
  "kube_job_status_start_time",
]);

test("every metric of the rules is one that Muster or kube-state-metrics has", async () => {
  world.pool("h100", 1);
  world.cloud.createVolume({ id: "v1", tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  await world.run();
  world.clusterDown = "503";
  await world.run();
  const served = world.metrics.render();
  for (const { alert, expr } of files.flatMap(rulesOf)) {
    const names = expr.match(/\b(muster|kube)_[a-z_]+/g) ?? [];
    expect(names.length, alert).toBeGreaterThan(0);
    for (const name of names) {
      if (name.startsWith("kube_")) expect([...ofClusterState], alert).toContain(name);
      else expect(served, alert).toContain(name);
    }
  }
});

test("a partial run is not a success", async () => {
  world.pool("h100", 1);
  world.clusterDown = "503";
  expect(await world.run()).toMatchObject({ status: "partial" });
  const time = /^muster_inventory_last_success_timestamp_seconds.*$/m;
  const before = time.exec(world.metrics.render())?.[0];
  await world.run();
  expect(time.exec(world.metrics.render())?.[0]).toBe(before);
  world.clusterDown = "";
  await world.run();
  expect(time.exec(world.metrics.render())?.[0]).not.toBe(before);
});

describe.each(files)("%s", (file) => {
  test("fires when no run ever succeeded, and when there is nothing to ask", () => {
    const never = rulesOf(file).filter(({ expr }) => /absent\(|unless/.test(expr));
    expect(never.map(({ alert }) => alert)).toContain("InventoryNeverSucceeded");
    expect(never.some(({ expr }) => expr.startsWith("absent("))).toBe(true);
  });

  test("leads to headings that the runbook has", () => {
    const headings = readFileSync(join(root, "docs/inventory.md"), "utf8").match(/^#+ .*$/gm) ?? [];
    const anchors = new Set(headings.map((line) => line.replace(/^#+ /, "").toLowerCase().replaceAll(" ", "-")));
    for (const { alert, annotations } of rulesOf(file)) {
      expect([...anchors], alert).toContain(annotations.runbook.replace("docs/inventory.md#", ""));
    }
  });

  const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;
  test.skipIf(!hasPromtool)("is accepted by promtool (needs promtool on the PATH)", () => {
    const checked = spawnSync("promtool", ["check", "rules", join(root, "deploy", file)], { encoding: "utf8" });
    expect(checked.stdout + checked.stderr).toContain("SUCCESS");
  });
});
