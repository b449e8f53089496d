import type { MetricWords } from "../../adapters/prometheus.ts";

/**
 * The HELP line of each metric of the controllers. A test compares them with the source, the alerts and the Grafana
 * dashboard.
 */
export const metricWords: Readonly<Record<string, MetricWords>> = words({
  muster_api_requests_total:
    "Requests to the API server by verb, resource and HTTP code; <error> is a request without an answer.",
  muster_watch_age_seconds: "Seconds since the watch of a kind last delivered an event or a bookmark.",
  muster_watch_failures_total: "Watches that the API server rejected or ended with an error, by kind and reason.",
  muster_relists_total: "Complete lists of a kind, streamed or by pages.",
  muster_handler_failures_total: "Watch events that made a handler throw, by kind: a bug.",
  muster_ready: "1 while a check of /readyz passes, 0 while it fails.",
  muster_lease_held: "1 while this process is the leader.",
  muster_pending_pods: "Pods that wait for a node, by node pool and reason; only the leader counts them.",
  muster_oldest_pending_pod_age_seconds: "Age of the oldest pod that waits for a node, by node pool and reason.",
  muster_reconciles_total: "Reconciles by controller and result: done, again, giveUp.",
  muster_reconcile_seconds: "Duration of reconciles by controller.",
  muster_reconcile_exceptions_total:
    "Reconciles that threw an exception or ran over their deadline, by controller and kind.",
  muster_events_dropped_total:
    "Kubernetes Events that were dropped because of a full buffer or the object's rate limit.",
  muster_events_failed_total: "Kubernetes Events that the API server rejected, by reason.",
  muster_binds_total: "BindRequests that finished, by result.",
  muster_claims_contested_total:
    "Binds that released devices because another scheduler had allocated them to a claim as well.",
  muster_reservations_refused_total: "GPU reservations that could not be recreated, by reason.",
  muster_devices_allocations_total: "Devices that were allocated to claims.",
  muster_devices_releases_total: "Devices that were released by claims.",
  muster_devices_claims_in_flight: "Claims whose allocation is being written.",
  muster_devices_claims_assumed: "Claims of which a write was answered and is not yet observed by the watch.",
  muster_devices_claims_allocated: "Claims that are allocated.",
  muster_devices_search_seconds: "Duration of searches for devices.",
  muster_devices_refusals_total: "Pods and groups that began to wait for devices of their claims, by reason.",
  muster_node_admission_failures_total: "Pods that simulated nodes rejected, by reason.",
  workqueue_adds_total: "Keys that were added to the work queue of a controller.",
  workqueue_retries_total: "Keys that were requeued after a failure.",
  workqueue_depth: "Keys in the work queue of a controller.",
  workqueue_queue_duration_seconds: "Time that keys spend in the work queue of a controller.",
  kai_e2e_scheduling_latency_milliseconds: "Duration of the last scheduling cycle.",
  kai_open_session_latency_milliseconds: "Time to open the last scheduling cycle.",
  kai_close_session_latency_milliseconds: "Time to close the last scheduling cycle.",
  kai_action_scheduling_latency_milliseconds: "Duration of an action of the last scheduling cycle.",
  kai_task_scheduling_latency_milliseconds: "Time from the creation of a pod to its scheduling decision.",
  kai_task_bind_latency_milliseconds: "Duration of bind calls.",
  kai_usage_query_latency_milliseconds: "Duration of queries for past usage.",
  kai_podgroups_scheduled_by_action: "Pod groups that an action placed.",
  kai_podgroups_acted_on_by_action:
    "Pod groups that an action decided on: to place pods of them, or to reserve nodes for them.",
  kai_scenarios_simulation_by_action: "Scenarios of evictions that were simulated.",
  kai_scenarios_filtered_by_action: "Scenarios of evictions that were ruled out.",
  kai_scenario_search_duration_seconds: "Duration of searches for evictions.",
  kai_scenario_search_jobs_total: "Pod groups for which evictions were searched, by result.",
  kai_scenario_search_action_budget_exhausted_total:
    "Runs of an action that ended before every job was tried, because the budget was used up.",
  kai_scenario_search_scenarios_total: "Scenarios of evictions by generator and state.",
  kai_scenario_search_action_budget_configured_seconds: "Time that a cycle may search for evictions, by action.",
  kai_scenario_search_job_budget_configured_seconds: "Time that a cycle may search for evictions for one pod group.",
  kai_scenario_search_generator_budget_configured_seconds: "Time that a generator of evictions may take.",
  kai_total_preemption_attempts: "Scheduling cycles that decided to evict.",
  kai_pod_group_evicted_pods_total: "Pods that were evicted, by pod group and action.",
  kai_queue_info: "Queues with their quotas as labels.",
  kai_queue_deserved_gpus: "GPU quota of a queue.",
  kai_queue_quota_cpu_cores: "CPU quota of a queue.",
  kai_queue_quota_memory_bytes: "Memory quota of a queue.",
  kai_queue_allocated_gpus: "GPUs that are allocated to pods of a queue.",
  kai_queue_allocated_cpu_cores: "CPU that is allocated to pods of a queue.",
  kai_queue_allocated_memory_bytes: "Memory that is allocated to pods of a queue.",
  kai_queue_fair_share_gpu: "Fair share of a queue in GPUs.",
  kai_queue_fair_share_cpu_cores: "Fair share of a queue in CPU cores.",
  kai_queue_fair_share_memory_gb: "Fair share of a queue in GB of memory.",
  kai_queue_gpu_usage: "GPUs of a queue by the scheduler's own count, in-flight binds included.",
  kai_queue_cpu_usage: "CPU cores of a queue by the scheduler's own count, in-flight binds included.",
  kai_queue_memory_usage: "Memory of a queue in GB by the scheduler's own count, in-flight binds included.",
});

function words(help: Readonly<Record<string, string>>): Record<string, MetricWords> {
  return Object.fromEntries(Object.entries(help).map(([name, text]) => [name, { help: text }]));
}
