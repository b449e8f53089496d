/**
 * Faults of simulated nodes, as data. A fault is a kind, a target, a time and a few parameters; its effect on a node at
 * a time is computed from the list of faults alone (nodeState), so a list of faults can be replayed.
 */

import { parseDuration } from "../../cel/time.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { marks } from "../../model/profiles/marks.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { seededBelow, seededFraction } from "../../model/values/seeded.ts";
import { timeToMs } from "../../model/values/time.ts";

type ParamSpec =
  | { readonly type: "duration"; readonly fallback: number }
  | { readonly type: "count"; readonly min: number; readonly max: number; readonly fallback?: number }
  | { readonly type: "share"; readonly fallback: number }
  | { readonly type: "word"; readonly words: readonly string[]; readonly fallback: string }
  | { readonly type: "text"; readonly fallback: string }
  | { readonly type: "flag"; readonly fallback: boolean };

interface FaultRow {
  readonly target: "node" | "pod" | "api";
  /** Instantaneous, or with a duration. */
  readonly lasts: "moment" | "while";
  /** The visible effects, in order. */
  readonly effect: string;
  readonly params: Readonly<Record<string, ParamSpec>>;
}

const down: ParamSpec = { type: "duration", fallback: 30_000 };

export const faultKinds = {
  "heartbeat-stop": {
    target: "node",
    lasts: "while",
    effect: "the lease expires; Ready becomes Unknown; unreachable taint; pods not Ready; eviction after toleration",
    params: {},
  },
  "not-ready": {
    target: "node",
    lasts: "while",
    effect: "Ready is False; not-ready taint",
    params: {
      reason: { type: "text", fallback: "KubeletNotReady" },
      message: { type: "text", fallback: "container runtime is down" },
    },
  },
  "node-delete": { target: "node", lasts: "moment", effect: "the node object is deleted", params: {} },
  "node-reboot": {
    target: "node",
    lasts: "moment",
    effect: "silent while it boots; a new boot id; containers end and restart; devices are read again",
    params: { down },
  },
  cordon: { target: "node", lasts: "while", effect: "unschedulable", params: {} },
  drain: { target: "node", lasts: "while", effect: "unschedulable; pods evicted within their budgets", params: {} },
  "gpu-unhealthy": {
    target: "node",
    lasts: "while",
    effect: "allocatable one less; device taint or removal; condition; its containers report it as Unhealthy",
    params: {
      device: { type: "count", min: 0, max: 63 },
      cause: { type: "word", words: ["xid", "ecc", "fallen-off-bus", "thermal"], fallback: "xid" },
      xid: { type: "count", min: 1, max: 999, fallback: 79 },
      dra: { type: "word", words: ["NoSchedule", "NoExecute", "remove"], fallback: "NoSchedule" },
      kill: { type: "flag", fallback: false },
    },
  },
  "plugin-restart": {
    target: "node",
    lasts: "moment",
    effect: "allocatable of devices 0, then back",
    params: { down: { type: "duration", fallback: 10_000 } },
  },
  "driver-upgrade": {
    target: "node",
    lasts: "moment",
    effect: "slices withdrawn and published again; labels of the driver change",
    params: { driver: { type: "text", fallback: "999.0.1" }, down: { type: "duration", fallback: 60_000 } },
  },
  "mig-reconfigure": {
    target: "node",
    lasts: "moment",
    effect: "state pending and allocatable 0; then the new partitions; refused while a pod holds a GPU",
    params: {
      strategy: { type: "word", words: ["none", "single", "mixed"], fallback: "mixed" },
      partitions: { type: "text", fallback: "" },
      down: { type: "duration", fallback: 20_000 },
    },
  },
  "nvlink-partition": {
    target: "node",
    lasts: "while",
    effect: "the clique label changes",
    params: { partition: { type: "count", min: 1, max: 1000, fallback: 1 } },
  },
  "slow-start": {
    target: "pod",
    lasts: "while",
    effect: "a long ContainerCreating",
    params: { delay: { type: "duration", fallback: 60_000 } },
  },
  "image-pull-error": { target: "pod", lasts: "while", effect: "ErrImagePull, then ImagePullBackOff", params: {} },
  "crash-loop": {
    target: "pod",
    lasts: "while",
    effect: "containers exit; restarts with back-off; CrashLoopBackOff",
    params: {
      code: { type: "count", min: 1, max: 255, fallback: 1 },
      after: { type: "duration", fallback: 1000 },
    },
  },
  oom: {
    target: "pod",
    lasts: "while",
    effect: "containers end as OOMKilled with 137",
    params: { after: { type: "duration", fallback: 1000 } },
  },
  "slow-release": {
    target: "pod",
    lasts: "while",
    effect: "devices stay in use on the node after the pod object is gone",
    params: { delay: { type: "duration", fallback: 5000 } },
  },
  "prepare-failure": {
    target: "pod",
    lasts: "while",
    effect: "claims are not prepared; ContainerCreating",
    params: {},
  },
  "reservation-never": {
    target: "pod",
    lasts: "while",
    effect: "no device is written on reservation pods",
    params: {},
  },
  "reservation-late": {
    target: "pod",
    lasts: "while",
    effect: "the device is written late",
    params: { delay: { type: "duration", fallback: 60_000 } },
  },
  "reservation-wrong": {
    target: "pod",
    lasts: "while",
    effect: "a device that the pod does not have is written",
    params: { how: { type: "word", words: ["duplicate", "unknown"], fallback: "duplicate" } },
  },
  "reservation-lost": {
    target: "pod",
    lasts: "while",
    effect: "the device is written, and then the pod is deleted",
    params: { delay: { type: "duration", fallback: 100 } },
  },
  "api-pressure": {
    target: "api",
    lasts: "while",
    effect: "a share of calls is refused or slow; watches are late",
    params: {
      status: { type: "count", min: 400, max: 599, fallback: 429 },
      share: { type: "share", fallback: 0.1 },
      delay: { type: "duration", fallback: 0 },
      watchDelay: { type: "duration", fallback: 0 },
    },
  },
} as const satisfies Record<string, FaultRow>;

export type FaultKind = keyof typeof faultKinds;

export interface Fault {
  /** Names the fault; the same id twice is the same fault. */
  readonly id: string;
  readonly kind: FaultKind;
  readonly fromMs: number;
  /** Undefined means for ever. Not used for an instantaneous fault. */
  readonly untilMs?: number;
  readonly node?: string;
  /** The affected pods: namespace, name and labels, all of which must match; every pod of the node when left out. */
  readonly pod?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  /** Durations in milliseconds. */
  readonly params: Readonly<Record<string, string | number | boolean>>;
}

export function isActive(fault: Fault, nowMs: number): boolean {
  return fault.fromMs <= nowMs && (fault.untilMs === undefined || nowMs < fault.untilMs);
}

export function numberParam(fault: Fault, name: string): number {
  const value = fault.params[name];
  return typeof value === "number" ? value : 0;
}

export function textParam(fault: Fault, name: string): string {
  const value = fault.params[name];
  return typeof value === "string" ? value : "";
}

type PodLike = {
  readonly namespace?: string;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
};

/** Whether a fault affects this pod on this node. */
export function concernsPod(fault: Fault, node: string, pod: PodLike): boolean {
  if (fault.node !== undefined && fault.node !== node) return false;
  const wanted = fault.pod;
  if (wanted === undefined) return true;
  if (wanted.namespace !== undefined && wanted.namespace !== (pod.namespace ?? "")) return false;
  if (wanted.name !== undefined && wanted.name !== pod.name) return false;
  const labels = wanted.labels ?? {};
  return Object.keys(labels).every((key) => pod.labels?.[key] === labels[key]);
}

/** The faults of the given kinds that affect a pod now, in the order of the list. */
export function podFaultsAt(
  faults: readonly Fault[],
  kinds: readonly FaultKind[],
  about: { node: string; pod: PodLike; nowMs: number },
): Fault[] {
  return faults.filter(
    (fault) => kinds.includes(fault.kind) && isActive(fault, about.nowMs) && concernsPod(fault, about.node, about.pod),
  );
}

/** The next time at which a fault begins or ends. */
export function nextFaultMs(faults: readonly Fault[], nowMs: number): number | undefined {
  let next: number | undefined;
  for (const { fromMs, untilMs } of faults) {
    for (const moment of [fromMs, untilMs]) {
      if (moment !== undefined && moment > nowMs && (next === undefined || moment < next)) next = moment;
    }
  }
  return next;
}

/** The current disturbance of the API, for the embedded server and the simulator. */
export interface ApiPressure {
  readonly status: number;
  readonly share: number;
  readonly delayMs: number;
  readonly watchDelayMs: number;
}

export function apiPressureAt(faults: readonly Fault[], nowMs: number): ApiPressure | undefined {
  const fault = faults.findLast((each) => each.kind === "api-pressure" && isActive(each, nowMs));
  if (fault === undefined) return undefined;
  return {
    status: numberParam(fault, "status"),
    share: numberParam(fault, "share"),
    delayMs: numberParam(fault, "delay"),
    watchDelayMs: numberParam(fault, "watchDelay"),
  };
}

/**
 * Parses a fault from the command line or an annotation: `{kind, node, pod, for, in, device, ...}`. Times are relative
 * to now (`in: 10s`, `for: 5m`) or absolute in milliseconds (`fromMs`, `untilMs`).
 */
export function readFault(given: unknown, { nowMs, id }: { nowMs: number; id: string }): Fault {
  if (!isObject(given)) throw badFault("a fault is a mapping");
  const kind = given["kind"];
  if (typeof kind !== "string" || !Object.hasOwn(faultKinds, kind)) {
    const known = Object.keys(faultKinds).join(", ");
    throw new UsageError("fault-unknown", `unknown fault ${JSON.stringify(kind ?? "")}`, `use one of: ${known}`);
  }
  const row: FaultRow = faultKinds[kind as FaultKind];
  const errors: string[] = [];
  const fromMs = readMoment(given, "fromMs", "in", nowMs, errors) ?? nowMs;
  const untilMs = readMoment(given, "untilMs", "for", fromMs, errors);
  if (untilMs !== undefined && row.lasts === "moment") errors.push(`${kind} is instantaneous and takes no end`);
  if (untilMs !== undefined && untilMs <= fromMs) errors.push("the fault ends before it begins");
  const node = given["node"];
  if (node !== undefined && typeof node !== "string") errors.push("node: must be a name");
  if (node === undefined && row.target === "node") errors.push("node: is required");
  const known = new Set(["kind", "id", "node", "pod", "in", "for", "fromMs", "untilMs", ...Object.keys(row.params)]);
  for (const key of Object.keys(given)) {
    if (!known.has(key)) errors.push(`${key}: is not a parameter of ${kind} (known: ${[...known].join(", ")})`);
  }
  const params: Record<string, string | number | boolean> = {};
  for (const [name, spec] of Object.entries(row.params)) {
    const value = readParam(given[name], spec, name, errors);
    if (value !== undefined) params[name] = value;
  }
  const pod = readPodTarget(given["pod"], errors);
  if (pod !== undefined && row.target !== "pod") errors.push(`pod: ${kind} does not affect pods`);
  if (errors.length > 0) throw badFault(`${kind}: ${errors.join("; ")}`);
  return {
    id: typeof given["id"] === "string" ? given["id"] : id,
    kind: kind as FaultKind,
    fromMs,
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(typeof node === "string" ? { node } : {}),
    ...(pod === undefined ? {} : { pod }),
    params,
  };
}

function badFault(message: string): UserError {
  return new UsageError("fault-invalid", `the fault is invalid: ${message}`, "correct the fields that are named");
}

/** Go's spelling of durations, in milliseconds: `1m30s`, `200ms`. */
export function durationMs(text: string): number | undefined {
  const nanos = parseDuration(text);
  return nanos === undefined ? undefined : Number(nanos) / 1_000_000;
}

function readMoment(
  given: JsonObject,
  absolute: string,
  relative: string,
  baseMs: number,
  errors: string[],
): number | undefined {
  const moment = given[absolute];
  if (typeof moment === "number" && Number.isFinite(moment)) return moment;
  if (moment !== undefined) errors.push(`${absolute}: must be a time in milliseconds`);
  const text = given[relative];
  if (text === undefined) return undefined;
  const length = typeof text === "string" ? durationMs(text) : undefined;
  if (length === undefined || length < 0) {
    errors.push(`${relative}: must be a duration such as 30s`);
    return undefined;
  }
  return baseMs + length;
}

function readPodTarget(given: Json | undefined, errors: string[]): Fault["pod"] | undefined {
  if (given === undefined) return undefined;
  if (typeof given === "string") {
    const [first = "", second] = given.split("/");
    return second === undefined ? { name: first } : { namespace: first, name: second };
  }
  if (!isObject(given)) {
    errors.push("pod: must be <namespace>/<name> or a mapping");
    return undefined;
  }
  const { namespace, name, labels } = given as Record<string, Json | undefined>;
  const texts: Record<string, string> = {};
  if (isObject(labels)) for (const [key, value] of Object.entries(labels)) texts[key] = String(value);
  return {
    ...(typeof namespace === "string" ? { namespace } : {}),
    ...(typeof name === "string" ? { name } : {}),
    ...(isObject(labels) ? { labels: texts } : {}),
  };
}

function readParam(
  given: Json | undefined,
  spec: ParamSpec,
  name: string,
  errors: string[],
): string | number | boolean | undefined {
  switch (spec.type) {
    case "duration": {
      if (given === undefined) return spec.fallback;
      const length = typeof given === "number" ? given : typeof given === "string" ? durationMs(given) : undefined;
      if (length !== undefined && length >= 0) return length;
      errors.push(`${name}: must be a duration such as 30s`);
      return undefined;
    }
    case "count": {
      const value = given === undefined ? spec.fallback : Number(given);
      if (value !== undefined && Number.isInteger(value) && value >= spec.min && value <= spec.max) return value;
      errors.push(value === undefined ? `${name}: is required` : `${name}: must be from ${spec.min} to ${spec.max}`);
      return undefined;
    }
    case "share": {
      const value = given === undefined ? spec.fallback : Number(given);
      if (value >= 0 && value <= 1) return value;
      errors.push(`${name}: must be from 0 to 1`);
      return undefined;
    }
    case "word": {
      if (given === undefined) return spec.fallback;
      if (typeof given === "string" && spec.words.includes(given)) return given;
      errors.push(`${name}: must be one of ${spec.words.join(", ")}`);
      return undefined;
    }
    case "text":
      return given === undefined ? spec.fallback : String(given);
    case "flag": {
      if (given === undefined) return spec.fallback;
      if (given === true || given === "true") return true;
      if (given === false || given === "false") return false;
      errors.push(`${name}: must be true or false`);
      return undefined;
    }
  }
}

/**
 * Faults in a node's annotation: a JSON list, or one fault. Without times a fault lasts as long as the annotation;
 * relative times count from the node's creation. An invalid fault is reported and ignored.
 */
export function annotatedFaults(metadata: {
  readonly name: string;
  readonly creationTimestamp: string;
  readonly annotations?: Readonly<Record<string, string>>;
}): { faults: Fault[]; problems: string[] } {
  const text = metadata.annotations?.[marks.faults];
  const faults: Fault[] = [];
  const problems: string[] = [];
  if (text === undefined) return { faults, problems };
  const nowMs = timeToMs(metadata.creationTimestamp) ?? 0;
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return { faults, problems: [`annotation ${marks.faults} is not JSON`] };
  }
  for (const [i, each] of (Array.isArray(given) ? given : [given]).entries()) {
    try {
      const whole = isObject(each) ? { ...each, node: metadata.name } : each;
      faults.push(readFault(whole, { nowMs, id: `${metadata.name}-annotation-${i}` }));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problems.push(error.message);
    }
  }
  return { faults, problems };
}

export interface FaultPlan {
  readonly seed: string;
  readonly nodes: readonly { readonly name: string; readonly gpus: number }[];
  readonly kinds: readonly FaultKind[];
  readonly fromMs: number;
  readonly untilMs: number;
  readonly count: number;
  /** The longest duration of a fault. */
  readonly lastsMsMax: number;
}

/** Faults drawn from a seed: kind, target, start and duration. */
export function drawFaults(plan: FaultPlan): Fault[] {
  const faults: Fault[] = [];
  for (let i = 0; i < plan.count; i++) {
    const kind = plan.kinds[seededBelow(plan.kinds.length, plan.seed, "kind", i)];
    const node = plan.nodes[seededBelow(plan.nodes.length, plan.seed, "node", i)];
    if (kind === undefined || node === undefined) continue;
    if (kind === "gpu-unhealthy" && node.gpus === 0) continue;
    const row: FaultRow = faultKinds[kind];
    const at = seededFraction(plan.seed, "at", i);
    const fromMs = Math.floor(plan.fromMs + at * (plan.untilMs - plan.fromMs));
    const lasts = 1 + seededBelow(plan.lastsMsMax, plan.seed, "lasts", i);
    const given: JsonObject = { kind, fromMs, ...(row.lasts === "while" ? { untilMs: fromMs + lasts } : {}) };
    if (row.target !== "api") given["node"] = node.name;
    if (kind === "gpu-unhealthy") given["device"] = seededBelow(node.gpus, plan.seed, "device", i);
    faults.push(readFault(given, { nowMs: plan.fromMs, id: `${plan.seed}-${i}` }));
  }
  return faults.sort((a, b) => a.fromMs - b.fromMs);
}
