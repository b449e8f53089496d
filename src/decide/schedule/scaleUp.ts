import type { NewObject } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isShared, readGpuRequest } from "../../model/scheduling/gpuRequest.ts";
import { kaiSchedulerName, labelKeys, scalingNamespace } from "../../model/scheduling/keys.ts";
import { nvidiaGpu } from "./cluster/resources.ts";

/**
 * Cluster autoscalers know whole GPUs only. For GPU shares that wait for a machine there are stand-in pods that ask for
 * whole GPUs; they are deleted as soon as the machine is there, or no pod waits for it any more.
 */
export interface ScaleUpPlan {
  readonly create: readonly NewObject[];
  readonly remove: readonly { readonly pod: Pod; readonly why: string }[];
  /** When time alone changes the answer. */
  readonly wakeMs: number | undefined;
}

export interface ScaleUpFacts {
  readonly pods: Iterable<Pod>;
  /** Whether machines would help: a queue at its limit is not helped by any. */
  readonly wouldHelp: (pod: Pod) => boolean;
  readonly nowMs: number;
  /** When a stand-in was last made or taken away. */
  readonly lastMs: number | undefined;
}

/** Autoscalers are slow: a machine that was asked for is given time to come before the next is asked for. */
export const coolDownMs = 60_000;
/** What a share by memory counts for, in hundredths: how much memory the next machine's GPUs have is not known. */
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
    // One that is terminating already needs no delete.
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
    // Shares of one pod are on one machine: two narrow machines do not make a wide one.
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
  if ((standIn.spec?.nodeName ?? "") !== "") return "a machine has come for it";
  const { phase } = standIn.status ?? {};
  if (phase === "Succeeded" || phase === "Failed") return "it has ended";
  return waiting.has(sourceOf(standIn)) ? undefined : "the pod that it stands for does not wait any more";
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

/** What machines are chosen by, besides GPUs. */
function pick(amounts: Readonly<Record<string, string>>): Record<string, string> {
  const { cpu, memory } = amounts;
  return { ...(cpu !== undefined && { cpu }), ...(memory !== undefined && { memory }) };
}

function keyOf({ metadata }: Pod): string {
  // Label values are cut to their length, so pods are distinguished by what a label can hold.
  return `${metadata.namespace ?? ""}/${metadata.name.slice(0, 63)}`;
}

function byName(a: Pod, b: Pod): number {
  return keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0;
}
