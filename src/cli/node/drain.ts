import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { isFinished } from "../../model/objects/podFacts.ts";
import { builtin } from "../../model/resources.generated.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { durationMs } from "../../model/values/duration.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed, refusedError } from "../cluster/mustSucceed.ts";
import { type NodeFlags, withChosenCluster } from "./withChosenCluster.ts";

export interface DrainFlags extends NodeFlags {
  readonly name: string;
  readonly timeout: string;
}

export interface RemoveFlags extends DrainFlags {
  /** Remove a node whose machine is gone: its pods are not drained. */
  readonly force?: boolean;
}

const lookMs = 500;
const retryMs = 5_000;
const mirrorAnnotation = "kubernetes.io/config.mirror";

/** Cordons a node and evicts its pods, within their disruption budgets. */
export async function drainNode(flags: DrainFlags): Promise<void> {
  const deadlineMs = timeoutOf(flags);
  await withChosenCluster(flags, async ({ kube, clock }) => {
    const evicted = await drain(kube, clock, flags.name, deadlineMs);
    report(
      flags,
      { node: flags.name, evicted },
      `node ${flags.name} is drained: ${evicted === 1 ? "1 pod was" : `${evicted} pods were`} evicted`,
    );
  });
}

/** Drains a node and deletes its object. */
export async function removeNode(flags: RemoveFlags): Promise<void> {
  const deadlineMs = timeoutOf(flags);
  const { name } = flags;
  await withChosenCluster(flags, async ({ kube, clock }) => {
    const node = await nodeOf(kube, name);
    const evicted = flags.force === true ? 0 : await drain(kube, clock, name, deadlineMs);
    const ref = { ...builtin.Node, namespace: "", name };
    const { uid = "" } = node.metadata;
    const outcome = await kube.delete(ref, { preconditions: { uid } });
    if (!outcome.ok && outcome.reason !== "NotFound") throw refusedError(outcome, `node ${name} could not be deleted`);
    const text = `node ${name} is removed. On its machine: systemctl disable --now kubelet && rm /etc/kubernetes/kubelet.conf`;
    report(flags, { node: name, evicted, removed: true }, text);
  });
}

async function drain(kube: KubeApi, clock: Clock, name: string, timeoutMs: number): Promise<number> {
  const untilMs = clock.nowMs() + timeoutMs;
  const node = await nodeOf(kube, name);
  if (node.spec?.unschedulable !== true) {
    const ref = { ...builtin.Node, namespace: "", name };
    const body = { spec: { unschedulable: true } };
    mustSucceed(await kube.patch(ref, { type: "merge", body }), `node ${name} could not be cordoned`);
    say(`node ${name} is cordoned`);
  }
  const asked = new Map<string, number>();
  const evicted = new Set<string>();
  for (;;) {
    const left = await podsToEvict(kube, name);
    if (left.length === 0) return evicted.size;
    if (clock.nowMs() >= untilMs) throw late(name, left);
    for (const pod of left) {
      const { uid = "", deletionTimestamp } = pod.metadata;
      if (deletionTimestamp !== undefined || clock.nowMs() < (asked.get(uid) ?? 0)) continue;
      asked.set(uid, clock.nowMs() + retryMs);
      if (await evict(kube, pod)) evicted.add(uid);
    }
    await new Promise<void>((resolve) => clock.after(lookMs, resolve));
  }
}

/** Whether the pod was evicted now. A budget that allows no disruption is asked again. */
async function evict(kube: KubeApi, { metadata }: Pod): Promise<boolean> {
  const { namespace = "", name, uid = "" } = metadata;
  const outcome = await kube.evict({ ...builtin.Pod, namespace, name }, { preconditions: { uid } });
  if (outcome.ok) {
    say(`evicting ${namespace}/${name}`);
    return true;
  }
  const isOver = outcome.reason === "NotFound" || outcome.reason === "Conflict";
  if (!isOver && outcome.reason !== "TooManyRequests")
    throw refusedError(outcome, `${namespace}/${name} could not be evicted`);
  if (!isOver) say(`${namespace}/${name}: ${outcome.message}`);
  return false;
}

/** Not those of DaemonSets, which come back at once, and not those of the kubelet's own files. */
async function podsToEvict(kube: KubeApi, node: string): Promise<Pod[]> {
  const options = { fieldSelector: `spec.nodeName=${node}` };
  const { items } = mustSucceed(await kube.list(builtin.Pod, options), "pods could not be listed");
  return items.filter(
    (pod) =>
      !isFinished(pod) &&
      controllerOf(pod.metadata)?.kind !== "DaemonSet" &&
      pod.metadata.annotations?.[mirrorAnnotation] === undefined,
  );
}

async function nodeOf(kube: KubeApi, name: string): Promise<Node> {
  const outcome = await kube.get({ ...builtin.Node, namespace: "", name });
  if (outcome.ok) return outcome.value;
  if (outcome.reason !== "NotFound") throw refusedError(outcome, `node ${name} could not be read`);
  throw new UserError("node-missing", `there is no node ${name}`, "`muster node ls` lists the nodes");
}

function late(node: string, left: readonly Pod[]): UserError {
  const names = left.slice(0, 5).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  const more = left.length > names.length ? ` and ${left.length - names.length} more` : "";
  return new UserError(
    "drain-late",
    `${left.length} pods are still on node ${node}: ${names.join(", ")}${more}`,
    "look at their PodDisruptionBudgets and grace periods, or pass a longer --timeout; the node stays cordoned",
  );
}

function timeoutOf({ timeout }: DrainFlags): number {
  const ms = durationMs(timeout);
  if (ms !== undefined && ms > 0) return ms;
  const cure = "pass a duration such as --timeout 10m";
  throw new UsageError("timeout-malformed", `--timeout ${JSON.stringify(timeout)} is no duration`, cure);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function report(flags: NodeFlags, result: object, text: string): void {
  process.stdout.write(flags.output === "json" ? `${JSON.stringify(result)}\n` : `${text}\n`);
}
