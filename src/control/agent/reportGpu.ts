/**
 * The program of a reservation pod: finds the GPU that its container was given and writes it on its own pod, once. The
 * binder waits for that. Afterwards it holds the GPU until it is stopped, and ends with a failure when the GPU is no
 * longer there, so that the kubelet shows it.
 */
import type { GpuAnswer, OwnGpu } from "../../decide/bind/ownGpu.ts";
import { deviceOf, podsRef } from "../../decide/bind/reservation.ts";
import { expectedOf, type Intent } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Outcome } from "../../model/outcome.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { type Backoff, exponentialMs } from "../../ports/backoff.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import { Writer } from "../runtime/writer.ts";
import { pause } from "./pause.ts";

/** How the program ends: it was stopped, or it cannot go on. */
export type AgentEnd =
  | { readonly type: "stopped" }
  | { readonly type: "failed"; readonly problem: string; readonly cure: string };

export interface ReportGpuOptions {
  readonly pod: { readonly namespace: string; readonly name: string };
  /** How long the GPU may take to appear: drivers and device plugins need time to start. */
  readonly findMs: number;
  /** How often the GPU is looked for again. */
  readonly checkMs: number;
}

export interface ReportGpuPorts {
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly log: Log;
  /** What the container sees now. */
  readonly look: () => Promise<GpuAnswer>;
  /** Resolves when the program has to end. */
  readonly stopped: Promise<true>;
}

const findAgainMs = 1_000;
const writeAgain: Backoff = { baseMs: 250, maxMs: 10_000 };
/** A single check may fail because the driver is busy. */
const looksMax = 3;

export async function reportGpu(ports: ReportGpuPorts, options: ReportGpuOptions): Promise<AgentEnd> {
  const found = await find(ports, options);
  if ("type" in found) return found;
  ports.log.info({ device: found.device, index: found.index }, "the GPU of this reservation");
  const end = await record(ports, options, found);
  return end ?? hold(ports, options, found);
}

async function find(
  { clock, look, stopped }: ReportGpuPorts,
  { findMs }: ReportGpuOptions,
): Promise<OwnGpu | AgentEnd> {
  const untilMs = clock.monotonicMs() + findMs;
  for (;;) {
    const answer = await look();
    if ("gpu" in answer) return answer.gpu;
    if (clock.monotonicMs() >= untilMs) return failed(answer.problem);
    if (await pause(clock, findAgainMs, stopped)) return { type: "stopped" };
  }
}

/** Undefined when the pod carries the device. */
async function record(
  ports: ReportGpuPorts,
  { pod: { namespace, name } }: ReportGpuOptions,
  gpu: OwnGpu,
): Promise<AgentEnd | undefined> {
  const { kube, clock, log, stopped } = ports;
  const target = { ...podsRef, namespace, name };
  for (let failures = 0; ; ) {
    const read = await kube.get<Pod>(target);
    if (!read.ok && read.reason === "NotFound") return failed(`pod ${namespace}/${name} does not exist`);
    const outcome: Outcome<unknown> = read.ok ? await write(kube, read.value, gpu) : read;
    if (outcome.ok) {
      const written = read.ok ? deviceOf(read.value) : undefined;
      if (written === undefined) log.info({ device: gpu.device, pod: `${namespace}/${name}` }, "device reported");
      else if (written !== gpu.device) return otherDevice(written, gpu);
      return undefined;
    }
    failures = outcome.reason === "Conflict" ? 0 : failures + 1;
    if (failures > 0) {
      const { reason, message } = outcome;
      log.warn({ reason, why: message, failures }, "the device could not be reported yet");
    }
    const delayMs = Math.max(outcome.retryAfterMs ?? 0, failures === 0 ? 0 : exponentialMs(writeAgain, failures));
    if (await pause(clock, delayMs, stopped)) return { type: "stopped" };
  }
}

/** On the version that was read: the device is written once, and never replaces another one. */
async function write(kube: KubeApi, pod: Pod, { device, index }: OwnGpu): Promise<Outcome<unknown>> {
  if (deviceOf(pod) !== undefined) return { ok: true, value: undefined };
  const annotations = {
    [annotationKeys.reservedGpu]: device,
    ...(index === undefined ? {} : { [annotationKeys.gpuIndex]: String(index) }),
  };
  const { namespace = "", name } = pod.metadata;
  const intent: Intent<Pod> = {
    type: "patch",
    target: { ...podsRef, namespace, name },
    expected: expectedOf(pod),
    patch: { metadata: { annotations } },
    why: "the GPU that this reservation holds",
  };
  return new Writer(kube).apply(intent);
}

async function hold(ports: ReportGpuPorts, { checkMs }: ReportGpuOptions, gpu: OwnGpu): Promise<AgentEnd> {
  const { clock, log, look, stopped } = ports;
  for (let missed = 0; ; ) {
    if (await pause(clock, checkMs, stopped)) return { type: "stopped" };
    const answer = await look();
    if ("gpu" in answer && answer.gpu.device === gpu.device) {
      missed = 0;
      continue;
    }
    if ("gpu" in answer) return otherDevice(gpu.device, answer.gpu);
    missed++;
    log.warn({ device: gpu.device, why: answer.problem, missed }, "the GPU is not visible");
    if (missed >= looksMax) return failed(`GPU ${gpu.device} is no longer visible: ${answer.problem}`);
  }
}

function otherDevice(written: string, { device }: OwnGpu): AgentEnd {
  return {
    type: "failed",
    problem: `this pod reports device ${written}, and its container has ${device}`,
    cure: "delete the pod: the binder creates another reservation for the group",
  };
}

function failed(problem: string): AgentEnd {
  return {
    type: "failed",
    problem,
    cure: "check the driver and the device plugin of the node; where containers see GPUs only with a RuntimeClass, set --reservation-runtime-class",
  };
}
