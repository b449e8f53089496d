import type { NewObject } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isShared, readGpuRequest } from "../../model/scheduling/gpuRequest.ts";
import { kaiSchedulerName, labelKeys, scalingNamespace } from "../../model/scheduling/keys.ts";
import { nvidiaGpu } from "./cluster/resources.ts";

/**
 * Cluster autoscalers know whole GPUs only. For GPU shares that need a new node, placeholder pods request whole GPUs;
 * they are deleted when the node exists, or no share needs it any more.
 */
export interface ScaleUpPlan {
  readonly create: readonly NewObject[];
  readonly remove: readonly { readonly pod: Pod; readonly why: string }[];
  /** When the passing of time alone changes the plan. */
  readonly wakeMs: number | undefined;
}

export interface ScaleUpFacts {
  readonly pods: Iterable<Pod>;
  /** Whether a new node would help: not if the queue is at its limit. */
  readonly wouldHelp: (pod: Pod) => boolean;
  readonly nowMs: number;
  /** When a placeholder was last created or deleted. */
  readonly lastMs: number | undefined;
}

/** The time that an autoscaler gets to add a node before the next one is requested. */
export const coolDownMs = 60_000;
/** The portion of a GPU that a request for GPU memory counts for, in hundredths: the memory of new GPUs is unknown. */
const memoryHundredths = 10;

export function planScaleUp({ pods, wouldHelp, nowMs, lastMs }: ScaleUpFacts): ScaleUpPlan {
  const standIns: Pod[] = [];
  const waiting = new Map<string, Pod>();
  for (const pod of pods) {
    if (pod.metadata.namespace === scalingNamespace) standIns.push(pod);
    else if (isWaitingShare(pod)) waiting.set(keyOf(pod), pod);
  }
  const remove: { pod: Pod; why: string }[] = [];
  const kept: Pod[] = [];
  for (const pod of standIns.sort(byName)) {
    const why = whyNeedless(pod, waiting);
    if (why === undefined) kept.push(pod);
    // A terminating placeholder needs no delete.
    else if (pod.metadata.deletionTimestamp === undefined) remove.push({ pod, why });
  }
  const wanted = [...waiting.values()].filter(wouldHelp).sort(byName);
  if (wanted.length === 0) return { create: [], remove, wakeMs: undefined };
  const readyMs = (lastMs ?? Number.NEGATIVE_INFINITY) + coolDownMs;
  if (nowMs < readyMs) return { create: [], remove, wakeMs: readyMs };
  return { create: newStandIns(wanted, kept), remove, wakeMs: undefined };
}

function newStandIns(wanted: readonly Pod[], kept: readonly Pod[]): NewObject[] {
  let hundredths = 0;
  for (const pod of wanted) hundredths += shareOf(pod).hundredths;
  const needed = Math.ceil(hundredths / 100);
  const served = new Set(kept.map(sourceOf));
  let coming = kept.reduce((sum, pod) => sum + gpusOf(pod), 0);
  let widest = kept.reduce((most, pod) => Math.max(most, gpusOf(pod)), 0);
  const create: NewObject[] = [];
  for (const pod of wanted) {
    if (served.has(keyOf(pod))) continue;
    const { devices } = shareOf(pod);
    // The shares of one pod have to be on one node.
    if (needed <= coming && devices <= widest) continue;
    create.push(standInFor(pod, devices));
    coming += devices;
    widest = Math.max(widest, devices);
  }
  return create;
}

function isWaitingShare(pod: Pod): boolean {
  const { metadata, spec, status } = pod;
  if (spec?.schedulerName !== kaiSchedulerName || (spec.nodeName ?? "") !== "") return false;
  if (metadata.deletionTimestamp !== undefined || status?.phase === "Succeeded" || status?.phase === "Failed")
    return false;
  const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (condition?.status !== "False" || condition.reason !== "Unschedulable") return false;
  return shareOf(pod).devices > 0;
}

function shareOf(pod: Pod): { readonly devices: number; readonly hundredths: number } {
  const read = readGpuRequest(pod, 0);
  if ("problem" in read || !isShared(read.gpu) || read.gpu.type === "none") return { devices: 0, hundredths: 0 };
  const { devices } = read.gpu;
  const each = read.gpu.type === "fraction" ? Math.round(read.gpu.shareMilli / 10) : memoryHundredths;
  return { devices, hundredths: each * devices };
}

function whyNeedless(standIn: Pod, waiting: ReadonlyMap<string, Pod>): string | undefined {
  if ((standIn.spec?.nodeName ?? "") !== "") return "its node exists";
  const { phase } = standIn.status ?? {};
  if (phase === "Succeeded" || phase === "Failed") return "it has ended";
  return waiting.has(sourceOf(standIn)) ? undefined : "the pod that it was created for is no longer pending";
}

function sourceOf({ metadata }: Pod): string {
  return `${metadata.labels?.[labelKeys.scalingPodNamespace] ?? ""}/${metadata.labels?.[labelKeys.scalingPodName] ?? ""}`;
}

function gpusOf({ spec }: Pod): number {
  let sum = 0;
  for (const { resources } of spec?.containers ?? []) sum += Number(resources?.limits?.[nvidiaGpu] ?? 0);
  return sum;
}

function standInFor(pod: Pod, devices: number): NewObject {
  const { namespace = "", name } = pod.metadata;
  const { affinity, tolerations, nodeSelector, containers = [] } = pod.spec ?? {};
  const [first, ...others] = containers.map(({ resources }) => ({
    ...pick(resources?.limits ?? {}),
    ...pick(resources?.requests ?? {}),
  }));
  const amounts = [{ ...first, [nvidiaGpu]: String(devices) }, ...others];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `${namespace}-${name}`.slice(0, 253),
      namespace: scalingNamespace,
      labels: {
        app: "scaling-pod",
        [labelKeys.scalingPodNamespace]: namespace,
        [labelKeys.scalingPodName]: name.slice(0, 63),
      },
    },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 0,
      ...(affinity !== undefined && { affinity }),
      ...(tolerations !== undefined && { tolerations }),
      ...(nodeSelector !== undefined && { nodeSelector }),
      containers: amounts.map((each, at) => ({
        name: `stand-in-${at}`,
        image: "registry.k8s.io/pause:3.10",
        resources: { requests: each, limits: Object.hasOwn(each, nvidiaGpu) ? { [nvidiaGpu]: String(devices) } : {} },
      })),
    },
  };
}

/** The requests that an autoscaler chooses nodes by, besides GPUs. */
function pick(amounts: Readonly<Record<string, string>>): Record<string, string> {
  const { cpu, memory } = amounts;
  return { ...(cpu !== undefined && { cpu }), ...(memory !== undefined && { memory }) };
}

function keyOf({ metadata }: Pod): string {
  // Label values have at most 63 characters, so longer names are compared by these.
  return `${metadata.namespace ?? ""}/${metadata.name.slice(0, 63)}`;
}

function byName(a: Pod, b: Pod): number {
  return keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0;
}
