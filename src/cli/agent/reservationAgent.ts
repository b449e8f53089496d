import { writeFile } from "node:fs/promises";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { reportGpu } from "../../control/agent/reportGpu.ts";
import { ownGpu } from "../../decide/bind/ownGpu.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { durationMs } from "../../model/values/duration.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { needed, untilStopped } from "./agentProgram.ts";
import { readGpuEvidence } from "./gpuEvidence.ts";

export interface ReservationAgentFlags extends ClusterFlags {
  readonly namespace?: string;
  readonly pod?: string;
  readonly find: string;
  readonly check: string;
  /** Only print the GPU. */
  readonly dryRun?: boolean;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/** The entrypoint of reservation pods. */
export async function runReservationAgent(flags: ReservationAgentFlags): Promise<void> {
  const findMs = duration("--find", flags.find);
  const checkMs = duration("--check", flags.check);
  const look = async () => ownGpu(await readGpuEvidence());
  if (flags.dryRun === true) {
    process.stdout.write(`${JSON.stringify(await look())}\n`);
    return;
  }
  const namespace = needed(flags.namespace, "--namespace", "POD_NAMESPACE");
  const name = needed(flags.pod, "--pod", "POD_NAME");
  const stopped = untilStopped();
  const clock = systemClock();
  const log = pinoLog({ level: flags.logLevel });
  const kube = kubeHttp(await findCluster(flags), { clock, log }, { fieldManager: "muster-reservation-agent" });
  try {
    const end = await reportGpu({ kube, clock, log, look, stopped }, { pod: { namespace, name }, findMs, checkMs });
    if (end.type !== "failed") return;
    // The termination message, which `kubectl describe pod` shows; the last line of the log is the same.
    await writeFile("/dev/termination-log", `${end.problem}; ${end.cure}`).catch(() => undefined);
    throw new UserError("reservation-gpu-unusable", end.problem, end.cure);
  } finally {
    kube.close();
  }
}

function duration(flag: string, text: string): number {
  const ms = durationMs(text);
  if (ms !== undefined && ms >= 1000) return ms;
  throw new UsageError(
    "duration-invalid",
    `${flag} ${text} is not a duration of at least a second`,
    "write it as 30s or 2m",
  );
}
