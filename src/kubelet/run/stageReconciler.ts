/** Plays KWOK's stages on a node and its pods, where a user has created some; they replace the built-in behaviour. */

import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Fault } from "../node/faults.ts";
import { earliest } from "../node/nodeWrite.ts";
import { defaultKubeletVersion } from "../node/simNode.ts";
import { addressesFor } from "../pods/podAddress.ts";
import { stagesForPod } from "../stages/podStages.ts";
import type { Stage } from "../stages/stage.ts";
import { afterRefusal, nextForObject, type StageJob } from "../stages/stageEngine.ts";
import type { TemplateContext } from "../stages/templateFunctions.ts";
import { type KubeletContext, recordEvent, retryDelayMs } from "./kubeletContext.ts";
import type { NodeAgent } from "./nodeAgent.ts";
import type { PodRecord } from "./podRecord.ts";
import { sendWrite } from "./sendWrite.ts";

export function podStages({ stages }: KubeletContext): readonly Stage[] | undefined {
  return stages.get("v1/Pod");
}

export function nodeStages({ stages }: KubeletContext): readonly Stage[] | undefined {
  return stages.get("v1/Node");
}

/** The values that templates may read of a node and its pods. */
export function templateContext(
  context: KubeletContext,
  agent: NodeAgent | undefined,
  node: Node | undefined,
): TemplateContext {
  const nodeIps = (name: string): string[] =>
    (context.nodes.get(name)?.status?.addresses ?? [])
      .filter(({ type }) => type === "InternalIP")
      .map(({ address }) => address);
  return {
    nowMs: context.ports.clock.nowMs(),
    startMs: context.startMs,
    nodeName: node?.metadata.name ?? "",
    nodePort: 10250,
    version: defaultKubeletVersion,
    nodeIps,
    podIps: ({ hostNetwork, uid, name, namespace, node: nodeName }) => {
      if (hostNetwork || node === undefined || agent === undefined) return nodeIps(nodeName);
      const known = agent.pods.get(`${namespace}/${name}`)?.pod;
      if (known?.status?.podIPs !== undefined) return known.status.podIPs.map(({ ip }) => ip);
      const asking = { metadata: { uid, name, namespace }, spec: {} } as Pod;
      return addressesFor(known ?? asking, node, agent.podsNow())?.podIPs ?? [];
    },
  };
}

export interface StagePlay {
  readonly object: KubeObject;
  readonly job: StageJob | undefined;
  readonly stages: readonly Stage[];
  readonly templates: TemplateContext;
  readonly cancel: Cancel;
}

export interface StagePlayed {
  readonly job: StageJob | undefined;
  readonly wakeAtMs: number | undefined;
  /** The object of the last answer of the API. */
  readonly written: KubeObject | undefined;
  /** A write was refused; retry at the wake-up. */
  readonly failed: boolean;
  readonly again: boolean;
}

/** Reconciles an object: waits, or plays the stage that is due and sends its writes in order. */
export async function playStages(context: KubeletContext, play: StagePlay): Promise<StagePlayed> {
  const { object, stages, job, templates, cancel } = play;
  const { ports, options } = context;
  const next = nextForObject({ object, stages, job, clusterSeed: options.seed, context: templates });
  let written: KubeObject | undefined;
  for (const { step, write } of next.writes) {
    if (write.kind === "event") {
      recordEvent(context, write);
      continue;
    }
    const why = `stage ${next.playing?.stage?.name ?? ""}`;
    const outcome = await sendWrite(ports.kube, write, { absentAtRevision: context.podCache.revision, why, cancel });
    if (outcome.ok) {
      const isItself = outcome.value.object?.metadata.uid === object.metadata.uid;
      if (write.kind === "patch" && isItself) written = outcome.value.object;
      continue;
    }
    const { uid } = object.metadata;
    const nowMs = ports.clock.nowMs();
    const refusal = { step, reason: outcome.reason };
    const after =
      next.playing === undefined
        ? undefined
        : afterRefusal(next.playing, refusal, { clusterSeed: options.seed, uid, nowMs });
    return {
      job: after,
      wakeAtMs: after?.stage === undefined ? nowMs + retryDelayMs(1) : after.dueMs,
      written,
      failed: true,
      again: false,
    };
  }
  return { job: next.job, wakeAtMs: next.wakeAtMs, written, failed: false, again: next.again };
}

/** Returns whether the pod has to be reconciled again at once. */
export async function stagePod(
  context: KubeletContext,
  agent: NodeAgent,
  record: PodRecord,
  { node, stages, cancel }: { node: Node; stages: readonly Stage[]; cancel: Cancel; faults: readonly Fault[] },
): Promise<boolean> {
  const object = record.pod;
  const templates = templateContext(context, agent, node);
  const played = await playStages(context, {
    object,
    job: record.job,
    stages: stagesForPod(record.pod, stages),
    templates,
    cancel,
  });
  record.job = played.job;
  record.wakeAtMs = played.wakeAtMs;
  if (played.written !== undefined) record.answered(played.written);
  return !played.failed && played.written !== undefined;
}

/** Plays the stages of the node; its lease is still renewed by this process. */
export async function stageNode(
  context: KubeletContext,
  agent: NodeAgent,
  { node, stages, cancel }: { node: Node; stages: readonly Stage[]; cancel: Cancel },
): Promise<void> {
  const templates = templateContext(context, agent, node);
  const object = node;
  const played = await playStages(context, { object, job: agent.job, stages, templates, cancel });
  agent.job = played.job;
  agent.nodeWakeMs = earliest(played.wakeAtMs, agent.state?.nextMs);
  if (played.written !== undefined) context.nodes.learn(played.written);
  agent.nodeIsDirty = !played.failed && played.written !== undefined;
}
