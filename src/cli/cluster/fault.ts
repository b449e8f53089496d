import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import {
  annotatedFaults,
  concernsPod,
  type Fault,
  type FaultKind,
  faultKinds,
  isActive,
  readFault,
} from "../../kubelet/node/faults.ts";
import { isSimulated } from "../../kubelet/node/simNode.ts";
import { addFaults, clearFaults, faultId, listFaults } from "../../kubelet/run/clusterFaults.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { builtin } from "../../model/resources.generated.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "./findCluster.ts";
import { mustSucceed } from "./mustSucceed.ts";

export interface FaultFlags extends ClusterFlags {
  readonly node?: string;
  readonly pod?: string;
  readonly selector?: string;
  readonly namespace?: string;
  /** Whether the fault affects every pod of the cluster. */
  readonly everywhere?: boolean;
  readonly for?: string;
  readonly in?: string;
  readonly output: "text" | "json";
}

/** Injects a fault: `muster fault gpu-unhealthy --node h100-0 --device 3 --for 1m`. */
export async function injectFault(kind: string, params: readonly string[], flags: FaultFlags): Promise<void> {
  const given: JsonObject = { kind, ...paramsIn(kind, params) };
  if (flags.for !== undefined) given["for"] = flags.for;
  if (flags.in !== undefined) given["in"] = flags.in;
  const pod = podTarget(flags);
  if (pod !== undefined) given["pod"] = pod;
  requireTarget(kind, flags, pod);
  const nodes = flags.node === undefined ? [undefined] : nodeNames(flags.node);
  const nowMs = systemClock().nowMs();
  // All faults are validated before the first write: an error in the third must not leave two faults behind.
  const faults = nodes.map((node) => {
    const about = node ?? flags.pod ?? "";
    return readFault(node === undefined ? given : { ...given, node }, { nowMs, id: faultId(kind, nowMs, about) });
  });
  await withCluster(flags, async (kube) => {
    for (const fault of faults) if (fault.node !== undefined) await requireSimulated(kube, fault.node, fault.params);
    mustSucceed(await addFaults(kube, faults, nowMs), "the fault could not be written");
    if (pod !== undefined) await warnWithoutPods(kube, faults);
  });
  if (flags.output === "json") say(JSON.stringify({ faults: faults.map((fault) => shown(fault, nowMs)) }));
  else for (const fault of faults) say(`${fault.id}: ${faultKinds[fault.kind].effect}`);
}

/** A pod fault without a target would affect every pod of the cluster, which is rarely intended. */
function requireTarget(kind: string, flags: FaultFlags, pod: JsonObject | undefined): void {
  const isOfPods = Object.hasOwn(faultKinds, kind) && faultKinds[kind as FaultKind].target === "pod";
  if (!isOfPods || flags.node !== undefined || pod !== undefined || flags.everywhere === true) return;
  throw new UsageError(
    "fault-target-missing",
    `${kind} without a target would affect every pod of the cluster`,
    "pass --pod, --selector, --namespace or --node, or --everywhere for all pods",
  );
}

async function warnWithoutPods(kube: KubeApi, faults: readonly Fault[]): Promise<void> {
  const { items } = mustSucceed(await kube.list(builtin.Pod), "pods could not be listed");
  const isAffected = (fault: Fault): boolean =>
    items.some(({ metadata, spec }) => concernsPod(fault, spec?.nodeName ?? "", metadata));
  if (faults.some(isAffected)) return;
  process.stderr.write("muster: no pod matches now; the fault applies to matching pods that are created later\n");
}

export async function showFaults(flags: FaultFlags): Promise<void> {
  const nowMs = systemClock().nowMs();
  const { faults, problems } = await withCluster(flags, async (kube) => {
    const cluster = mustSucceed(await listFaults(kube), "the faults could not be read");
    const nodes = mustSucceed(await kube.list(nodesKind), "the nodes could not be read");
    const own = nodes.items.filter(isSimulated).map((node) => annotatedFaults(node.metadata));
    return {
      faults: [...cluster.faults, ...own.flatMap((each) => each.faults)],
      problems: [...cluster.problems, ...own.flatMap((each) => each.problems)],
    };
  });
  if (flags.output === "json") {
    say(JSON.stringify({ faults: faults.map((fault) => shown(fault, nowMs)), problems }));
    return;
  }
  if (faults.length === 0) say("no faults");
  for (const fault of faults) {
    const { state, target, ends } = shown(fault, nowMs);
    say(`${fault.id}  ${fault.kind}  ${target}  ${state}${ends === null ? "" : `, until ${ends}`}`);
  }
  for (const problem of problems) process.stderr.write(`muster: ignored, because it is invalid: ${problem}\n`);
}

export async function clearFault(ids: readonly string[], flags: FaultFlags & { all?: boolean }): Promise<void> {
  if (ids.length === 0 && flags.all !== true) {
    throw new UsageError(
      "fault-unnamed",
      "no fault was specified",
      "pass the ids that `muster fault list` shows, or --all",
    );
  }
  const cleared = await withCluster(flags, async (kube) =>
    mustSucceed(
      await clearFaults(kube, flags.all === true ? undefined : ids, systemClock().nowMs()),
      "the faults could not be cleared",
    ),
  );
  const missing = flags.all === true ? [] : ids.filter((id) => !cleared.includes(id));
  if (flags.output === "json") say(JSON.stringify({ cleared, missing }));
  else for (const id of cleared) say(`${id} cleared`);
  if (missing.length === 0) return;
  throw new UserError(
    "fault-missing",
    `there is no fault ${missing.join(", ")}`,
    "`muster fault list` shows the ids; a fault in a node's annotation is removed with `kubectl annotate node NAME sim.muster.dev/faults-`",
  );
}

export function showKinds(flags: { readonly output: "text" | "json" }): void {
  if (flags.output === "json") {
    const rows = Object.entries(faultKinds).map(([kind, { target, lasts, effect, params }]) => {
      return { kind, target, lasts, effect, params };
    });
    say(JSON.stringify({ kinds: rows }));
    return;
  }
  for (const [kind, { target, effect, params }] of Object.entries(faultKinds)) {
    const names = Object.keys(params).map((name) => `--${kebab(name)}`);
    say(`${kind.padEnd(18)} ${target.padEnd(5)} ${effect}${names.length === 0 ? "" : `; ${names.join(" ")}`}`);
  }
}

const nodesKind = builtin.Node;

/** `--device 3`, `--device=3` or a flag alone for true, by the names of the kind's parameters. */
function paramsIn(kind: string, words: readonly string[]): JsonObject {
  const known = Object.hasOwn(faultKinds, kind) ? Object.keys(faultKinds[kind as FaultKind].params) : undefined;
  const given: JsonObject = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const match = /^--([a-z][a-z-]*)(?:=(.*))?$/s.exec(word);
    if (match === null) throw badParameter(`${JSON.stringify(word)} is not a parameter`, known);
    const name = camel(match[1] ?? "");
    // An unknown kind is reported as such, rather than by its parameters.
    if (known !== undefined && !known.includes(name))
      throw badParameter(`${kind} has no parameter --${match[1]}`, known);
    const next = words[at + 1];
    if (match[2] !== undefined) given[name] = match[2];
    else if (next === undefined || next.startsWith("--")) given[name] = true;
    else {
      given[name] = next;
      at++;
    }
  }
  return given;
}

function badParameter(message: string, known: readonly string[] | undefined): UserError {
  const names = (known ?? []).map((name) => `--${kebab(name)}`).join(", ");
  const cure = names === "" ? "`muster fault kinds` lists all parameters" : `use one of: ${names}`;
  return new UsageError("fault-invalid", message, cure);
}

function podTarget({ pod, selector, namespace }: FaultFlags): JsonObject | undefined {
  if (pod === undefined && selector === undefined && namespace === undefined) return undefined;
  const target: JsonObject = {};
  if (pod !== undefined) {
    const [first = "", second] = pod.split("/");
    target["name"] = second ?? first;
    target["namespace"] = second === undefined ? (namespace ?? "default") : first;
  } else if (namespace !== undefined) target["namespace"] = namespace;
  if (selector !== undefined) {
    const labels: JsonObject = {};
    for (const part of selector.split(",")) {
      const match = /^([^=]+)=([^=]*)$/.exec(part.trim());
      if (match === null) {
        throw new UsageError(
          "fault-invalid",
          `--selector ${selector} is invalid`,
          "write labels as app=web,tier=front; only equality is supported",
        );
      }
      labels[match[1] ?? ""] = match[2] ?? "";
    }
    target["labels"] = labels;
  }
  return target;
}

function nodeNames(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  if (!names.includes("")) return names;
  throw new UsageError(
    "fault-node-missing",
    `--node ${JSON.stringify(text)} has an empty name`,
    "pass names of nodes, separated by commas: `kubectl get nodes` shows them",
  );
}

async function requireSimulated(kube: KubeApi, name: string, params: Fault["params"]): Promise<void> {
  const found = await kube.get({ ...nodesKind, namespace: "", name });
  if (!found.ok && found.reason === "NotFound") {
    throw new UserError("fault-node-missing", `there is no node ${name}`, "`kubectl get nodes` shows their names");
  }
  const node = mustSucceed(found, `node ${name} could not be read`);
  const gpus = Number(node.metadata.labels?.["nvidia.com/gpu.count"] ?? node.status?.capacity?.["nvidia.com/gpu"] ?? 0);
  if (isSimulated(node) && Number(params["device"] ?? 0) >= gpus && params["device"] !== undefined) {
    throw new UsageError(
      "fault-device-missing",
      `node ${name} has ${gpus === 0 ? "no GPUs" : gpus === 1 ? "GPU 0 alone" : `the GPUs 0 to ${gpus - 1}`}`,
      "pass --device with one of them",
    );
  }
  if (isSimulated(node)) return;
  throw new UserError(
    "fault-node-real",
    `node ${name} is not simulated`,
    "faults apply only to nodes with the annotation kwok.x-k8s.io/node=fake",
  );
}

function shown(fault: Fault, nowMs: number) {
  const { id, kind, node, pod, fromMs, untilMs, params } = fault;
  const isOver = untilMs !== undefined && untilMs <= nowMs;
  const labels = Object.entries(pod?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const pods = pod === undefined ? [] : [`pod ${pod.namespace ?? "*"}/${pod.name ?? "*"} ${labels.join(",")}`.trim()];
  const target = [...(node === undefined ? [] : [`node ${node}`]), ...pods].join(", ");
  return {
    id,
    kind,
    target: target === "" ? "everywhere" : target,
    state: isOver ? "over" : isActive(fault, nowMs) ? "active" : "to come",
    begins: new Date(fromMs).toISOString(),
    ends: untilMs === undefined ? null : new Date(untilMs).toISOString(),
    params,
  };
}

async function withCluster<T>(flags: ClusterFlags, run: (kube: KubeApi) => Promise<T>): Promise<T> {
  const log = pinoLog({ level: "error" });
  const kube = kubeHttp(await findCluster(flags), { clock: systemClock(), log }, { fieldManager: "muster-fault" });
  try {
    return await run(kube);
  } finally {
    kube.close();
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function camel(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
