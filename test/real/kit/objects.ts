import type { Pod } from "../../../src/model/kubernetes.generated.ts";

export const isRunning = ({ status }: Pod): boolean => status?.phase === "Running";
export const isReadyPod = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;

/** Prints what it sees of GPUs, and then waits until it is stopped. */
export const waits = "trap 'exit 0' TERM; while true; do sleep 1; done";

export interface Wish {
  readonly gpus?: number;
  readonly script?: string;
  readonly queue?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** `kai-scheduler` unless it is said. */
  readonly scheduler?: string;
  readonly spec?: object;
}

export function podSpec(wish: Wish): object {
  const { gpus = 0, script = waits } = wish;
  const limits = gpus === 0 ? {} : { resources: { limits: { "nvidia.com/gpu": String(gpus) } } };
  const container = { name: "c", image: "busybox", imagePullPolicy: "IfNotPresent", command: ["sh", "-c", script] };
  return {
    schedulerName: wish.scheduler ?? "kai-scheduler",
    terminationGracePeriodSeconds: 1,
    containers: [{ ...container, ...limits }],
    ...wish.spec,
  };
}

function marks({ queue = "default-queue", labels = {}, annotations = {} }: Wish): object {
  return { labels: { "kai.scheduler/queue": queue, ...labels }, annotations };
}

export function podObject(name: string, wish: Wish = {}): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, ...marks(wish) }, spec: podSpec(wish) };
}

export function jobObject(name: string, count: number, wish: Wish = {}): object {
  const spec = { ...podSpec(wish), restartPolicy: "Never" };
  return {
    ...{ apiVersion: "batch/v1", kind: "Job" },
    metadata: { name, ...marks(wish) },
    spec: { parallelism: count, completions: count, backoffLimit: 0, template: { metadata: marks(wish), spec } },
  };
}
