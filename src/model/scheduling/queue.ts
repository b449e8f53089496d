import type { Time } from "../kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../objects/fieldError.ts";
import { isObject } from "../objects/json.ts";
import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { schedulingGroup } from "./keys.ts";
import { wrongDuration } from "./wrongDuration.ts";

/**
 * Where workloads wait in line: a tree whose leaves take workloads and whose nodes divide what they get among their
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
  /** The parent's name; none is the top level. */
  parentQueue?: string;
  /** The definition leaves it open, the hook demands it. */
  resources?: QueueResources;
  /** Higher gets of the surplus first. */
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

export const queueRef = resource<Queue>(schedulingGroup, "v2", "queues");
export const queueApiVersion = "scheduling.run.ai/v2";

export const defaultQueuePriority = 100;
export const unlimited = -1;

export const defaultQueueName = "default-queue";
const defaultParentQueueName = "default-parent-queue";

/** What a CRD schema cannot express: a queue without resources would allow nothing, which is never meant. */
export function validateQueue({ spec }: { readonly spec?: QueueSpec | undefined }): FieldError[] {
  if (isObject(spec?.resources)) return [];
  return [required("spec.resources", "a queue says what it may hold of gpu, cpu and memory")];
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
      errors.push(invalid(`${field}.${name}`, value, "it is 0 or more, or -1, which is without bound"));
    }
  }
  if (overQuotaWeight < 0) errors.push(invalid(`${field}.overQuotaWeight`, overQuotaWeight, "it is 0 or more"));
  return errors;
}

/** Why a queue may not be deleted yet, or undefined. Its status may lag behind a queue that was created below it. */
export function whyQueueMustStay({ metadata, status }: Queue, others: readonly Queue[]): string | undefined {
  const below = others.filter(({ spec }) => spec?.parentQueue === metadata.name).map((each) => each.metadata.name);
  const children = [...new Set([...(status?.childQueues ?? []), ...below])].sort();
  if (children.length === 0) return undefined;
  return `queue ${metadata.name} has child queues ${children.join(", ")}: delete or move them first`;
}

/** A queue that is its own ancestor is never scheduled. */
export function circleOf(name: string, spec: QueueSpec | undefined, others: readonly Queue[]): FieldError[] {
  const parents = new Map(others.map(({ metadata, spec: other }) => [metadata.name, other?.parentQueue ?? ""]));
  const passed = new Set<string>();
  for (let at = spec?.parentQueue ?? ""; at !== "" && !passed.has(at); at = parents.get(at) ?? "") {
    if (at === name) return [invalid("spec.parentQueue", spec?.parentQueue, "the queue would be above itself")];
    passed.add(at);
  }
  return [];
}

/** The queues that `up` creates, without quota and without limit: a first workload runs before any shares are set. */
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
