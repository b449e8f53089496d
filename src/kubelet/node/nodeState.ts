/** The state of a node at a time, computed from its faults. */

import type { MigSpec } from "../../model/profiles/profile.ts";
import { type Fault, isActive, numberParam, textParam } from "./faults.ts";

export interface GpuFault {
  readonly device: number;
  readonly cause: string;
  /** `NoSchedule`, `NoExecute` or `remove`. */
  readonly dra: string;
  readonly kill: boolean;
  readonly sinceMs: number;
  readonly text: string;
}

export interface NodeState {
  /** The kubelet runs and reaches the API. */
  readonly alive: boolean;
  readonly notReady: { readonly reason: string; readonly message: string } | undefined;
  /** Finished reboots, and when the last one was. */
  readonly boots: number;
  readonly bootMs: number | undefined;
  readonly gpuFaults: readonly GpuFault[];
  readonly unhealthy: ReadonlySet<number>;
  readonly pluginDown: boolean;
  /** Whether the DRA driver publishes its slices. */
  readonly draDown: boolean;
  readonly driver: string | undefined;
  readonly mig: MigSpec | undefined;
  /** Partitions are being changed now. */
  readonly migPending: boolean;
  readonly partition: number;
  readonly cordoned: boolean;
  readonly draining: boolean;
  readonly deleted: boolean;
  /** The next time at which the state changes. */
  readonly nextMs: number | undefined;
}

const well: NodeState = {
  alive: true,
  notReady: undefined,
  boots: 0,
  bootMs: undefined,
  gpuFaults: [],
  unhealthy: new Set(),
  pluginDown: false,
  draDown: false,
  driver: undefined,
  mig: undefined,
  migPending: false,
  partition: 0,
  cordoned: false,
  draining: false,
  deleted: false,
  nextMs: undefined,
};

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The faults need not be sorted; those of other nodes are skipped. */
export function nodeStateAt(faults: readonly Fault[], node: string, nowMs: number): NodeState {
  const mine = faults.filter((fault) => fault.node === node);
  if (mine.length === 0) return well;
  mine.sort((a, b) => a.fromMs - b.fromMs);
  const state: Mutable<NodeState> = { ...well };
  const gpuFaults: GpuFault[] = [];
  const change = (moment: number | undefined) => {
    if (moment !== undefined && moment > nowMs && (state.nextMs === undefined || moment < state.nextMs)) {
      state.nextMs = moment;
    }
  };
  for (const fault of mine) {
    change(fault.fromMs);
    change(fault.untilMs);
    if (fault.fromMs > nowMs) continue;
    const backMs = fault.fromMs + numberParam(fault, "down");
    const isDown = nowMs < backMs;
    const active = isActive(fault, nowMs);
    switch (fault.kind) {
      case "heartbeat-stop":
        if (active) state.alive = false;
        break;
      case "not-ready":
        if (active) state.notReady = { reason: textParam(fault, "reason"), message: textParam(fault, "message") };
        break;
      case "node-delete":
        state.deleted = true;
        break;
      case "node-reboot":
        change(backMs);
        if (isDown) state.alive = false;
        else {
          state.boots++;
          state.bootMs = backMs;
        }
        break;
      case "cordon":
        if (active) state.cordoned = true;
        break;
      case "drain":
        if (active) {
          state.cordoned = true;
          state.draining = true;
        }
        break;
      case "gpu-unhealthy":
        if (active) gpuFaults.push(gpuFault(fault));
        break;
      case "plugin-restart":
        change(backMs);
        if (isDown) state.pluginDown = true;
        break;
      case "driver-upgrade":
        change(backMs);
        // While the driver is replaced there are neither plugin nor slices.
        if (isDown) state.pluginDown = state.draDown = true;
        else state.driver = textParam(fault, "driver");
        break;
      case "mig-reconfigure":
        change(backMs);
        if (isDown) state.migPending = state.pluginDown = true;
        else state.mig = migOf(fault);
        break;
      case "nvlink-partition":
        if (active) state.partition = numberParam(fault, "partition");
        break;
      case "slow-start":
      case "image-pull-error":
      case "crash-loop":
      case "oom":
      case "slow-release":
      case "prepare-failure":
      case "reservation-never":
      case "reservation-late":
      case "reservation-wrong":
      case "reservation-lost":
      case "api-pressure":
        break;
    }
  }
  state.gpuFaults = gpuFaults;
  state.unhealthy = new Set(gpuFaults.map(({ device }) => device));
  return state;
}

function gpuFault(fault: Fault): GpuFault {
  const device = numberParam(fault, "device");
  const cause = textParam(fault, "cause");
  const texts: Record<string, string> = {
    xid: `GPU ${device} reported XID ${numberParam(fault, "xid")}`,
    ecc: `GPU ${device} has an uncorrectable memory error`,
    "fallen-off-bus": `GPU ${device} has fallen off the bus`,
    thermal: `GPU ${device} is too hot`,
  };
  return {
    device,
    cause,
    dra: textParam(fault, "dra"),
    kill: fault.params["kill"] === true,
    sinceMs: fault.fromMs,
    text: texts[cause] ?? `GPU ${device} is not healthy`,
  };
}

/** `partitions` is written as `1g.10gb=7,2g.20gb=1`. */
export function migOf(fault: Fault): MigSpec {
  const partitions: Record<string, number> = {};
  for (const part of textParam(fault, "partitions").split(",")) {
    const [name = "", count = "1"] = part.trim().split("=");
    if (name !== "") partitions[name] = Number(count) || 0;
  }
  const strategy = textParam(fault, "strategy");
  return { strategy: strategy === "single" || strategy === "none" ? strategy : "mixed", partitions };
}
