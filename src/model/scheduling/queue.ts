import type { FieldError } from "../fieldError.ts";
import { required } from "../fieldError.ts";
import { isObject } from "../json.ts";
import type { Time } from "../kubernetes.generated.ts";
import type { ObjectMeta } from "../object.ts";
import { schedulingGroup } from "./keys.ts";

/** Where workloads wait in line: a tree whose leaves take workloads and whose nodes divide what they get among their children. */
export type Queue = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: QueueSpec;
  status?: QueueStatus;
};

export type QueueSpec = {
  displayName?: string;
  /** The parent's name; none is the top level. */
  parentQueue?: string;
  /** The definition leaves it open, the hook demands it. */
  resources?: QueueResources;
  /** Who gets of the surplus first. */
  priority?: number | null;
  preemptMinRuntime?: string | null;
  reclaimMinRuntime?: string | null;
};

/** GPUs in devices, CPU in thousandths of a core, memory in millions of bytes. */
export type QueueResources = {
  gpu?: QueueResource;
  cpu?: QueueResource;
  memory?: QueueResource;
  /** By the product that nodes name in `nvidia.com/gpu.product`, in devices. Ours: KAI has no such field. */
  gpuTypes?: Record<string, Pick<QueueResource, "quota" | "limit">>;
};

export type QueueResource = {
  /** Guaranteed; -1 is without bound. */
  quota?: number;
  overQuotaWeight?: number;
  /** Never beyond; -1 is without bound, 0 allows nothing. */
  limit?: number;
};

export type ResourceAmounts = Record<string, string>;

export type QueueStatus = {
  conditions?: QueueCondition[];
  childQueues?: string[];
  allocated?: ResourceAmounts;
  allocatedNonPreemptible?: ResourceAmounts;
  requested?: ResourceAmounts;
};

export type QueueCondition = {
  type: string;
  status: string;
  lastTransitionTime?: Time;
  reason?: string;
  message?: string;
};

export const queueRef = { group: schedulingGroup, version: "v2", plural: "queues" } as const;
export const queueApiVersion = "scheduling.run.ai/v2";

export const defaultQueuePriority = 100;
export const unlimited = -1;

export const defaultQueueName = "default-queue";
export const defaultParentQueueName = "default-parent-queue";

/** What a definition cannot say: a queue without resources would allow nothing, which nobody means. */
export function validateQueue(queue: { readonly [field: string]: unknown }): FieldError[] {
  const resources = isObject(queue["spec"]) ? queue["spec"]["resources"] : undefined;
  return isObject(resources)
    ? []
    : [required("spec.resources", "a queue says what it may hold of gpu, cpu and memory")];
}

/** Why a queue may not go yet, or nothing. */
export function whyQueueMustStay(queue: Queue): string | undefined {
  const children = queue.status?.childQueues ?? [];
  if (children.length === 0) return undefined;
  return `queue ${queue.metadata.name} has child queues ${children.join(", ")}: delete or move them first`;
}

/** The queues that `up` creates, without quota and without limit: a first workload runs before anybody thinks about shares. */
export function quickStartQueues(): (Omit<Queue, "metadata"> & { metadata: { name: string } })[] {
  const open = { quota: 0, limit: unlimited, overQuotaWeight: 1 };
  const resources = { cpu: open, gpu: open, memory: open };
  return [
    { apiVersion: queueApiVersion, kind: "Queue", metadata: { name: defaultParentQueueName }, spec: { resources } },
    {
      apiVersion: queueApiVersion,
      kind: "Queue",
      metadata: { name: defaultQueueName },
      spec: { parentQueue: defaultParentQueueName, resources },
    },
  ];
}
