import type { Time } from "../kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../objects/fieldError.ts";
import { isObject } from "../objects/json.ts";
import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { schedulingGroup } from "./keys.ts";
import { wrongDuration } from "./wrongDuration.ts";

/**
 * A scheduling queue. Queues form a tree: leaves accept workloads, inner queues divide their resources among their
 * children.
 */
export type Queue = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: QueueSpec;
  status?: QueueStatus;
};

export type QueueSpec = {
  displayName?: string;
  /** The name of the parent queue; empty for a top-level queue. */
  parentQueue?: string;
  /** Optional in the CRD schema, required by the webhook. */
  resources?: QueueResources;
  /** Queues with a higher priority get surplus resources first. */
  priority?: number | null;
  preemptMinRuntime?: string | null;
  reclaimMinRuntime?: string | null;
};

/** GPUs in devices, CPU in thousandths of a core, memory in millions of bytes. */
export type QueueResources = {
  gpu?: QueueResource;
  cpu?: QueueResource;
  memory?: QueueResource;
  /** GPUs by the node label `nvidia.com/gpu.product`, in devices. Not in KAI. */
  gpuTypes?: Record<string, Pick<QueueResource, "quota" | "limit">>;
};

export type QueueResource = {
  /** The guaranteed amount; -1 is unlimited. */
  quota?: number;
  overQuotaWeight?: number;
  /** The maximum amount; -1 is unlimited, 0 allows nothing. */
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

export const queueRef = resource<Queue>(schedulingGroup, "v2", "queues");
export const queueApiVersion = "scheduling.run.ai/v2";

export const defaultQueuePriority = 100;
export const unlimited = -1;

export const defaultQueueName = "default-queue";
const defaultParentQueueName = "default-parent-queue";

/** What a CRD schema cannot express: a queue without resources would allow nothing. */
export function validateQueue({ spec }: { readonly spec?: QueueSpec | undefined }): FieldError[] {
  if (isObject(spec?.resources)) return [];
  return [required("spec.resources", "must set gpu, cpu and memory")];
}

/**
 * Invalid values. KAI's webhook refuses an invalid duration, because it cannot parse it; it accepts negative amounts,
 * whose meaning is surprising.
 */
export function wrongQueueValues(spec: QueueSpec | undefined): FieldError[] {
  const { gpuTypes = {}, ...amounts } = spec?.resources ?? {};
  return [
    ...Object.entries(amounts).flatMap(([name, each]) => wrongAmounts(`spec.resources.${name}`, each)),
    ...Object.entries(gpuTypes).flatMap(([type, each]) => wrongAmounts(`spec.resources.gpuTypes[${type}]`, each)),
    ...wrongDuration("spec.preemptMinRuntime", spec?.preemptMinRuntime),
    ...wrongDuration("spec.reclaimMinRuntime", spec?.reclaimMinRuntime),
  ];
}

function wrongAmounts(field: string, amounts: QueueResource | null | undefined): FieldError[] {
  const { quota = 0, limit = 0, overQuotaWeight = 0 } = amounts ?? {};
  const errors: FieldError[] = [];
  for (const [name, value] of Object.entries({ quota, limit })) {
    if (value < 0 && value !== unlimited) {
      errors.push(invalid(`${field}.${name}`, value, "must be 0 or more, or -1 for unlimited"));
    }
  }
  if (overQuotaWeight < 0) errors.push(invalid(`${field}.overQuotaWeight`, overQuotaWeight, "must be 0 or more"));
  return errors;
}

/** Why a queue may not be deleted yet, or undefined. Its status may lag behind a queue that was created below it. */
export function queueDeletionProblem({ metadata, status }: Queue, others: readonly Queue[]): string | undefined {
  const below = others.filter(({ spec }) => spec?.parentQueue === metadata.name).map((each) => each.metadata.name);
  const children = [...new Set([...(status?.childQueues ?? []), ...below])].sort();
  if (children.length === 0) return undefined;
  return `queue ${metadata.name} has child queues ${children.join(", ")}: delete or move them first`;
}

/** A queue that is its own ancestor is invalid. */
export function queueCycleErrors(name: string, spec: QueueSpec | undefined, others: readonly Queue[]): FieldError[] {
  const parents = new Map(others.map(({ metadata, spec: other }) => [metadata.name, other?.parentQueue ?? ""]));
  const passed = new Set<string>();
  for (let at = spec?.parentQueue ?? ""; at !== "" && !passed.has(at); at = parents.get(at) ?? "") {
    if (at === name) return [invalid("spec.parentQueue", spec?.parentQueue, "the queue would be its own ancestor")];
    passed.add(at);
  }
  return [];
}

/** The queues that `up` creates, without quota and without limit: a first workload runs before any quota is set. */
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
