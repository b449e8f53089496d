/**
 * The objects that the proof of the gang barrier creates: nodes that only this proof uses, and a gang that fits only on
 * both of them together.
 */

import type { NewObject } from "../../model/intent.ts";
import type { Namespace, Node, Pod } from "../../model/kubernetes.generated.ts";
import { annotationKeys, kaiSchedulerName, labelKeys } from "../../model/scheduling/keys.ts";
import { type PodGroup, podGroupApiVersion } from "../../model/scheduling/podGroup.ts";
import { defaultQueueName } from "../../model/scheduling/queue.ts";
import { nodeObject, simNode } from "../node/simNode.ts";

export const barrierLabel = "muster.dev/barrier";

/** GPUs of the first node; the gang needs one more. */
export const shortGpus = 3;
export const gangSize = shortGpus + 1;

export interface Barrier {
  /** Identifies the run; part of every name. */
  readonly id: string;
  readonly nowMs: number;
}

export function barrierNamespace({ id }: Barrier): NewObject<Namespace> {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name: `muster-barrier-${id}` } };
}

/** A simulated node that only pods of this run tolerate. */
export function barrierNode({ id, nowMs }: Barrier, index: number, gpus: number): NewObject<Node> {
  const profile = {
    name: "",
    arch: "amd64",
    osImage: "Simulated Linux",
    cpu: "64",
    memory: "256Gi",
    storage: "100Gi",
    maxPods: 110,
    labels: { [barrierLabel]: id },
    taints: [{ key: barrierLabel, value: id, effect: "NoSchedule" }],
    gpu: { product: "NVIDIA-H100-80GB-HBM3", count: gpus, memoryMiB: 81_559, driver: "570.86.16" },
  } as const;
  const place = { clusterSeed: id, pool: `muster-barrier-${id}`, profile, index };
  return nodeObject(simNode(place), { ordinal: 60_000 + index, nowMs });
}

export function barrierGroup(barrier: Barrier): NewObject<PodGroup> {
  return {
    apiVersion: podGroupApiVersion,
    kind: "PodGroup",
    metadata: { name: "barrier", namespace: `muster-barrier-${barrier.id}` },
    spec: { minMember: gangSize, queue: defaultQueueName },
  };
}

export function barrierPod(barrier: Barrier, index: number): NewObject<Pod> {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `member-${index}`,
      namespace: `muster-barrier-${barrier.id}`,
      annotations: { [annotationKeys.podGroup]: "barrier" },
      labels: { [labelKeys.queue]: defaultQueueName },
    },
    spec: {
      schedulerName: kaiSchedulerName,
      nodeSelector: { [barrierLabel]: barrier.id },
      tolerations: [{ key: barrierLabel, operator: "Equal", value: barrier.id, effect: "NoSchedule" }],
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: "main",
          image: "registry.example/barrier:1",
          resources: { requests: { "nvidia.com/gpu": "1" }, limits: { "nvidia.com/gpu": "1" } },
        },
      ],
    },
  };
}
