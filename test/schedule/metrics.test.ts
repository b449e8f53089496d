import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };

test("what KAI's dashboards read is there after work was done", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.queue("mine", {
    resources: { gpu: { quota: 8, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free },
  });
  await cluster.queue("theirs", {
    displayName: "Their team",
    resources: { gpu: { quota: 0, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free },
  });
  await cluster.pod("a", { gpus: 8, labels: { "kai.scheduler/queue": "theirs" } });
  await cluster.run(3);
  await cluster.pod("b", { gpus: 8, labels: { "kai.scheduler/queue": "mine" } });
  await cluster.run(60);
  const text = cluster.metrics.render();
  const names = new Set([...text.matchAll(/^# TYPE (kai_\w+) (\w+)$/gm)].map(([, name, type]) => `${name} ${type}`));
  expect([...names].sort()).toEqual([
    "kai_action_scheduling_latency_milliseconds gauge",
    "kai_close_session_latency_milliseconds gauge",
    "kai_e2e_scheduling_latency_milliseconds gauge",
    "kai_open_session_latency_milliseconds gauge",
    "kai_pod_group_evicted_pods_total counter",
    "kai_podgroups_acted_on_by_action counter",
    "kai_podgroups_scheduled_by_action counter",
    "kai_queue_allocated_cpu_cores gauge",
    "kai_queue_allocated_gpus gauge",
    "kai_queue_allocated_memory_bytes gauge",
    "kai_queue_cpu_usage gauge",
    "kai_queue_deserved_gpus gauge",
    "kai_queue_fair_share_cpu_cores gauge",
    "kai_queue_fair_share_gpu gauge",
    "kai_queue_fair_share_memory_gb gauge",
    "kai_queue_gpu_usage gauge",
    "kai_queue_info gauge",
    "kai_queue_memory_usage gauge",
    "kai_queue_quota_cpu_cores gauge",
    "kai_queue_quota_memory_bytes gauge",
    "kai_scenario_search_jobs_total counter",
    "kai_scenario_search_scenarios_total counter",
    "kai_scenarios_simulation_by_action counter",
    "kai_task_bind_latency_milliseconds histogram",
    "kai_task_scheduling_latency_milliseconds histogram",
    "kai_total_preemption_attempts counter",
  ]);
  for (const action of ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]) {
    expect(text).toContain(`kai_action_scheduling_latency_milliseconds{action="${action}"}`);
  }
  expect(text).toContain('kai_task_bind_latency_milliseconds_bucket{le="2560"}');
  // The scheduler speaks of a queue by what it is shown as, the accounts by its name.
  expect(text).toContain(
    'kai_queue_gpu_usage{queue_display_name="Their team",queue_metadata_name="theirs",queue_name="Their team"} 0',
  );
  expect(text).toContain(
    'kai_queue_deserved_gpus{queue_display_name="Their team",queue_metadata_name="theirs",queue_name="theirs"} 0',
  );
  expect(
    cluster.metrics.value("kai_queue_gpu_usage", {
      queue_display_name: "mine",
      queue_metadata_name: "mine",
      queue_name: "mine",
    }),
  ).toBe(8);
  expect(text).toMatch(
    /kai_pod_group_evicted_pods_total\{action="reclaim",namespace="default",nodepool="default",podgroup="pg-a-[^"]+",uid="[^"]+"\} 1/,
  );
});
