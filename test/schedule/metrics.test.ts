import { beforeAll, describe, expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
const gpus = (quota: number) => ({
  resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free },
});

/** What KAI's dashboards read, after every action had something to do. */
describe("of the metrics there is", () => {
  let cluster: ScheduleCluster;
  let text = "";

  beforeAll(async () => {
    cluster = await ScheduleCluster.create(["h100=2"], { readsShards: true });
    await cluster.create("kai.scheduler/schedulingshards", {
      apiVersion: "kai.scheduler/v1",
      kind: "SchedulingShard",
      metadata: { name: "default" },
      spec: {
        usageDBConfig: { clientType: "own", usageParams: { fetchInterval: "10s" } },
        // One attempt for each cycle: the second job of two is not looked at.
        scenarioSearchBudgets: { maxActionSearchDuration: { preempt: "10ms" } },
      },
    });
    await cluster.queue("mine", gpus(8));
    await cluster.queue("theirs", { displayName: "Their team", ...gpus(0) });
    await cluster.queue("rock", gpus(8));
    const queue = (name: string) => ({ "kai.scheduler/queue": name });
    // One node is held by a pod that cannot be evicted, the other is borrowed, reclaimed, and then preempted.
    await cluster.pod("rock", {
      gpus: 8,
      labels: { ...queue("rock"), "kai.scheduler/preemptibility": "non-preemptible" },
    });
    await cluster.pod("a", { gpus: 8, labels: queue("theirs") });
    await cluster.run(3);
    await cluster.pod("b", { gpus: 8, labels: queue("mine") });
    await cluster.run(45);
    text = cluster.metrics.render();
    // A gang of two that needs both nodes uses up what preemption may try, so later gangs are not tried.
    const urgent = { priorityClassName: "build-preemptible", queue: "mine" };
    await cluster.group("c", { ...urgent, minMember: 2 });
    await cluster.group("d", { ...urgent, minMember: 1 });
    for (const at of [0, 1]) await cluster.pod(`c-${at}`, { gpus: 8, annotations: { "pod-group-name": "c" } });
    await cluster.run(2);
    await cluster.pod("d", { gpus: 8, annotations: { "pod-group-name": "d" } });
    await cluster.run(5);
  });

  const queueLabels = "queue_display_name queue_metadata_name queue_name";
  test.each([
    ["kai_e2e_scheduling_latency_milliseconds", "gauge", ""],
    ["kai_open_session_latency_milliseconds", "gauge", ""],
    ["kai_close_session_latency_milliseconds", "gauge", ""],
    ["kai_action_scheduling_latency_milliseconds", "gauge", "action"],
    ["kai_task_scheduling_latency_milliseconds", "histogram", ""],
    ["kai_task_bind_latency_milliseconds", "histogram", ""],
    ["kai_usage_query_latency_milliseconds", "histogram", ""],
    ["kai_podgroups_scheduled_by_action", "counter", "action"],
    ["kai_podgroups_acted_on_by_action", "counter", "action"],
    ["kai_scenarios_simulation_by_action", "counter", "action"],
    ["kai_scenarios_filtered_by_action", "counter", "action"],
    ["kai_total_preemption_attempts", "counter", ""],
    ["kai_queue_fair_share_cpu_cores", "gauge", queueLabels],
    ["kai_queue_fair_share_memory_gb", "gauge", queueLabels],
    ["kai_queue_fair_share_gpu", "gauge", queueLabels],
    ["kai_queue_cpu_usage", "gauge", queueLabels],
    ["kai_queue_memory_usage", "gauge", queueLabels],
    ["kai_queue_gpu_usage", "gauge", queueLabels],
    ["kai_pod_group_evicted_pods_total", "counter", "action namespace nodepool podgroup uid"],
    ["kai_scenario_search_jobs_total", "counter", "action reduced_budget result"],
    ["kai_scenario_search_action_budget_configured_seconds", "gauge", "action"],
    ["kai_scenario_search_job_budget_configured_seconds", "gauge", ""],
    ["kai_scenario_search_generator_budget_configured_seconds", "gauge", "generator"],
    ["kai_scenario_search_action_budget_exhausted_total", "counter", "action"],
    ["kai_scenario_search_duration_seconds", "histogram", "action generator result"],
    ["kai_scenario_search_scenarios_total", "counter", "action generator state"],
    ["kai_queue_info", "gauge", queueLabels],
    ["kai_queue_deserved_gpus", "gauge", queueLabels],
    ["kai_queue_quota_cpu_cores", "gauge", queueLabels],
    ["kai_queue_quota_memory_bytes", "gauge", queueLabels],
    ["kai_queue_allocated_gpus", "gauge", queueLabels],
    ["kai_queue_allocated_cpu_cores", "gauge", queueLabels],
    ["kai_queue_allocated_memory_bytes", "gauge", queueLabels],
  ])("%s, a %s by %s", (name, type, labels) => {
    const all = cluster.metrics.render();
    expect(all).toContain(`# TYPE ${name} ${type}\n`);
    const [, found = ""] = new RegExp(`^${name}(?:_count)?(?:\\{(.*)\\})? `, "m").exec(all) ?? [];
    expect([...found.matchAll(/(\w+)="/g)].map(([, label]) => label).join(" ")).toBe(labels);
  });

  test("no other of KAI's names", () => {
    const names = new Set([...cluster.metrics.render().matchAll(/^# TYPE (kai_\w+) /gm)].map(([, name]) => name));
    expect(names.size).toBe(33);
  });

  test("a time for every action, and bounds of times as KAI has them", () => {
    for (const action of ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]) {
      expect(text).toContain(`kai_action_scheduling_latency_milliseconds{action="${action}"}`);
    }
    expect(text).toContain('kai_task_bind_latency_milliseconds_bucket{le="5"}');
    expect(text).toContain('kai_task_bind_latency_milliseconds_bucket{le="2560"}');
    const bounds = [...text.matchAll(/kai_scenario_search_duration_seconds_bucket\{.*le="([^"]+)"/g)].map(
      ([, le]) => le,
    );
    expect([...new Set(bounds)]).toHaveLength(17);
    expect(bounds).toEqual(expect.arrayContaining(["0.001", "32.768"]));
  });

  test("a queue by what it is shown as from the scheduler, and by its name from the accounts", () => {
    const of = (name: string, shown: string) =>
      `{queue_display_name="${shown}",queue_metadata_name="theirs",queue_name="${name}"} 0`;
    expect(text).toContain(`kai_queue_gpu_usage${of("Their team", "Their team")}`);
    expect(text).toContain(`kai_queue_deserved_gpus${of("theirs", "Their team")}`);
    const mine = { queue_display_name: "mine", queue_metadata_name: "mine", queue_name: "mine" };
    expect(cluster.metrics.value("kai_queue_gpu_usage", mine)).toBe(8);
  });

  test("evicted pods by action", () => {
    expect(text).toMatch(
      /kai_pod_group_evicted_pods_total\{action="reclaim",namespace="default",nodepool="default",podgroup="pg-a-[^"]+",uid="[^"]+"\} 1/,
    );
  });

  test("what was asked for as a budget, and which action ran out of it", () => {
    const configured = (of: string, labels: Record<string, string>) =>
      cluster.metrics.value(`kai_scenario_search_${of}_budget_configured_seconds`, labels);
    expect(configured("action", { action: "preempt" })).toBe(0.01);
    expect(configured("action", { action: "reclaim" })).toBe(300);
    expect(configured("job", {})).toBe(240);
    expect(configured("generator", { generator: "NodeLocalGreedy" })).toBe(30);
    const exhausted = cluster.metrics.value("kai_scenario_search_action_budget_exhausted_total", { action: "preempt" });
    expect(exhausted).toBeGreaterThan(0);
    const solved = { action: "reclaim", result: "solved", reduced_budget: "false" };
    expect(cluster.metrics.value("kai_scenario_search_jobs_total", solved)).toBe(1);
  });
});

test("a pod's time until it is placed begins with its creation, and no eviction is counted where none happened", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("first", { gpus: 8 });
  await cluster.run(2);
  await cluster.pod("second", { gpus: 8 });
  await cluster.run(20);
  await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "first" });
  await cluster.run(5);
  expect(cluster.pod1("second").status?.phase).toBe("Running");
  const [, sum = ""] = /^kai_task_scheduling_latency_milliseconds_sum (.*)$/m.exec(cluster.metrics.render()) ?? [];
  expect(Number(sum)).toBeGreaterThan(20_000);
  expect(Number(sum)).toBeLessThan(30_000);
  expect(cluster.metrics.value("kai_total_preemption_attempts")).toBe(0);
});
