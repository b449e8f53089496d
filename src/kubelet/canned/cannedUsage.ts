/** The usage of simulated pods and nodes: by KWOK's annotations, or a fraction of the request that varies with time. */
import type { Container, Node, Pod } from "../../model/kubernetes.generated.ts";
import { nanoOf } from "../../model/objects/podRequests.ts";
import { marks } from "../../model/profiles/marks.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import { assignmentOf } from "../devices/devices.ts";

export interface UsedAmounts {
  /** In billionths of a core. */
  readonly cpuNano: number;
  readonly memoryBytes: number;
}

/** KWOK's annotations, which may name a container too. */
const usageCpu = "kwok.x-k8s.io/usage-cpu";
const usageMemory = "kwok.x-k8s.io/usage-memory";

/** What an idle container needs. */
const idle: UsedAmounts = { cpuNano: 1_000_000, memoryBytes: 1 << 20 };

/** How long a value stays the same, as with scraped metrics. */
const windowMs = 15_000;

export function containerUsage(pod: Pod, container: Container, nowMs: number): UsedAmounts {
  const cpu = annotated(pod, usageCpu, container.name);
  const memory = annotated(pod, usageMemory, container.name);
  const requests = { ...container.resources?.limits, ...container.resources?.requests };
  const window = Math.floor(nowMs / windowMs);
  const wander = (what: string) => 0.3 + 0.5 * seededFraction(pod.metadata.uid, container.name, what, window);
  return {
    cpuNano: Math.round(amount(cpu) ?? (amount(requests["cpu"]) ?? 0) * wander("cpu")) || idle.cpuNano,
    memoryBytes:
      Math.round((amount(memory) ?? (amount(requests["memory"]) ?? 0) * (0.6 + 0.1 * wander("memory"))) / 1e9) ||
      idle.memoryBytes,
  };
}

function annotated({ metadata }: Pod, name: string, container: string): string | undefined {
  return metadata.annotations?.[`${name}.${container}`] ?? metadata.annotations?.[name];
}

/** In billionths; undefined for an invalid value. */
function amount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  try {
    return Number(nanoOf(text));
  } catch {
    return undefined;
  }
}

/** Containers that run now, in the order of the spec. */
export function runningContainers(pod: Pod): Container[] {
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  const isUp = ({ name }: Container) =>
    statuses.some((each) => each.name === name && each.state?.running !== undefined);
  return [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].filter(isUp);
}

/** The usage of its pods, and a small amount for the node itself. */
export function nodeUsage(_node: Node, pods: Iterable<Pod>, nowMs: number): UsedAmounts {
  let cpuNano = 100_000_000;
  let memoryBytes = 512 << 20;
  for (const pod of pods) {
    for (const container of runningContainers(pod)) {
      const used = containerUsage(pod, container, nowMs);
      cpuNano += used.cpuNano;
      memoryBytes += used.memoryBytes;
    }
  }
  return { cpuNano, memoryBytes };
}

/** Percent by device id, for the devices that a pod's running containers have. */
export function gpuUtilisation(pod: Pod, nowMs: number): Map<string, number> {
  const busy = new Map<string, number>();
  const running = new Set(runningContainers(pod).map(({ name }) => name));
  const text =
    pod.metadata.annotations?.[marks.gpuUtilisation] ?? pod.metadata.annotations?.["run.ai/simulated-gpu-utilization"];
  const [low, high] = rangeOf(text ?? "70-95");
  for (const [container, resources] of Object.entries(assignmentOf(pod))) {
    if (!running.has(container)) continue;
    for (const id of Object.values(resources).flat()) {
      const fraction = seededFraction(pod.metadata.uid, id, Math.floor(nowMs / windowMs));
      busy.set(id, Math.round(low + fraction * (high - low)));
    }
  }
  return busy;
}

function rangeOf(text: string): [number, number] {
  const match = /^([0-9]{1,3})(?:-([0-9]{1,3}))?$/.exec(text.trim());
  if (match === null) return [70, 95];
  const low = Math.min(100, Number(match[1]));
  const high = Math.min(100, Number(match[2] ?? match[1]));
  return [Math.min(low, high), Math.max(low, high)];
}
