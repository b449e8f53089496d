import { groupClaimsAnnotation } from "../../decide/bind/claimStatus.ts";
import { extendedEntry } from "../../decide/devices/claims/extendedClaim.ts";
import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import { type GroupNode, type Job, podSetsOf } from "../../decide/schedule/cluster/job.ts";
import type { PlannedBind, PlannedJob } from "../../decide/schedule/cycle.ts";
import type { ChosenDevices } from "../../decide/schedule/model/pendingClaims.ts";
import type { PodEffect } from "../../decide/schedule/model/podEffects.ts";
import { isSatisfied } from "../../decide/schedule/placement/gangSteps.ts";
import type { BindIntent, CreateIntent } from "../../model/intent.ts";
import { expectedOf } from "../../model/intent.ts";
import type { Revision } from "../../model/revision.ts";
import { bindRequestApiVersion, bindRequestFinalizer, bindRequestRef } from "../../model/scheduling/bindRequest.ts";
import { isShared, portionText } from "../../model/scheduling/gpuRequest.ts";
import { annotationKeys, epochOf, labelKeys } from "../../model/scheduling/keys.ts";
import { uuid5 } from "../../model/values/uuid5.ts";
import type { Decision } from "../runtime/inFlightWrites.ts";

/** The writes for a job, or for pods of it that can start by themselves: all of them, or none. */
export interface JobCommit {
  readonly job: Job;
  readonly writes: readonly PlannedWrite[];
  /** Set when the writes belong together: no bind starts before all of them exist. */
  readonly commitId: string | undefined;
}

export interface PlannedWrite {
  readonly bind: PlannedBind;
  readonly decision: Decision<PodEffect>;
}

export interface PlanFacts {
  readonly cluster: Cluster;
  /** Up to this revision no object has the names of the requests that are created. */
  readonly requestsRevision: Revision;
  readonly nodePool: string;
}

/**
 * A pod that is placed alone and that one write can bind is bound by that write, which carries the pod's UID and
 * revision; so is a pod that joins a gang that has its minimum. Every other pod gets a BindRequest, which a restart
 * finds. The requests of pods that are placed together are marked as one set.
 */
export function commitsOf({ job, binds }: PlannedJob, facts: PlanFacts): JobCommit[] {
  const commits: JobCommit[] = [];
  for (const unit of unitsOf(job.root, binds)) {
    const commitId = unit.length > 1 ? commitIdOf(job, unit) : undefined;
    commits.push({ job, writes: unit.map((bind) => writeOf(bind, facts, commitId, unit.length)), commitId });
  }
  return commits;
}

/**
 * Groups binds that belong together: a subgroup below its minimum gets all of it at once, whether the job requires the
 * subgroup or not. A subgroup at its minimum grows pod by pod.
 */
function unitsOf(node: GroupNode, binds: readonly PlannedBind[]): (readonly PlannedBind[])[] {
  if (binds.length === 0) return [];
  if (!isSatisfied(node)) return [binds];
  if (node.podSet !== undefined) return binds.map((bind) => [bind]);
  return node.children.flatMap((child) => {
    const sets = new Set(podSetsOf(child));
    return unitsOf(
      child,
      binds.filter(({ task: { podSet } }) => podSet !== undefined && sets.has(podSet)),
    );
  });
}

function commitIdOf({ uid }: Job, binds: readonly PlannedBind[]): string {
  // Each attempt is a set of its own: remaining requests of an earlier attempt must not complete it.
  const tries = binds.map(({ task, node }) => `${task.uid} ${node} ${epochOf(task.pod)}`);
  return uuid5(uid, tries.sort().join());
}

function writeOf(bind: PlannedBind, facts: PlanFacts, commitId: string | undefined, size: number): PlannedWrite {
  const { task } = bind;
  const intent: BindIntent | CreateIntent =
    commitId === undefined && isOneWrite(facts.cluster, bind)
      ? directBind(bind, facts.nodePool)
      : bindRequest(bind, facts, commitId, size);
  const claims: ChosenDevices[] = bind.allocations.map((each) => ({ ...each }));
  if (bind.extended !== undefined) claims.push({ name: extendedEntry, allocation: bind.extended.allocation });
  const { volumes } = bind;
  const chosen = { ...(claims.length > 0 && { claims }), ...(volumes && { volumes }) };
  const value: PodEffect = { node: bind.node, groups: [...bind.groups].sort(), ...chosen };
  return { bind, decision: { intent, effects: [{ key: task.uid, value }] } };
}

/** Whether only the pod is written: no GPU share, no ResourceClaim, and every PersistentVolumeClaim is bound. */
function isOneWrite(cluster: Cluster, { task }: PlannedBind): boolean {
  const { gpu, hasDeviceClaims, volumeClaims } = task.shape;
  if (isShared(gpu) || hasDeviceClaims) return false;
  return volumeClaims.length === 0 || cluster.volumes.areAllBound(task);
}

function directBind({ task, node }: PlannedBind, nodePool: string): BindIntent {
  const pod = task.pod;
  return {
    type: "bind",
    target: { group: "", version: "v1", plural: "pods", namespace: task.namespace, name: task.name },
    expected: expectedOf(pod),
    node,
    ...(nodePool !== "" && { labels: { [labelKeys.nodePool]: nodePool } }),
    why: `${task.key} fits ${node}`,
  };
}

const labelValueMax = 63;

function bindRequest(bind: PlannedBind, facts: PlanFacts, commitId: string | undefined, size: number): CreateIntent {
  const { task, node, groups, gpuMemoryMiB, allocations, extended, groupClaims, volumes } = bind;
  const { gpu } = task.shape;
  const isFraction = isShared(gpu);
  const labels: Record<string, string> = {};
  // A longer name is not a valid label value.
  if (node.length <= labelValueMax) labels[labelKeys.selectedNode] = node;
  if (facts.nodePool !== "") labels[labelKeys.nodePool] = facts.nodePool;
  return {
    type: "create",
    target: { ...bindRequestRef, namespace: task.namespace, name: task.name },
    absentAtRevision: facts.requestsRevision,
    object: {
      apiVersion: bindRequestApiVersion,
      kind: "BindRequest",
      metadata: {
        name: task.name,
        namespace: task.namespace,
        labels,
        annotations: {
          [annotationKeys.decidedIn]: epochOf(task.pod),
          ...(groupClaims !== undefined && { [groupClaimsAnnotation]: JSON.stringify(groupClaims) }),
          ...(volumes !== undefined && { [annotationKeys.volumes]: JSON.stringify(volumes) }),
          ...(commitId !== undefined && {
            [annotationKeys.commit]: commitId,
            [annotationKeys.commitSize]: String(size),
          }),
        },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: task.name, uid: task.uid }],
        ...(isFraction && { finalizers: [bindRequestFinalizer] }),
      },
      spec: {
        podName: task.name,
        selectedNode: node,
        receivedResourceType: isFraction ? "Fraction" : task.shape.asksForMig ? "MigInstance" : "Regular",
        receivedGPU: {
          count: gpu.type === "none" ? 0 : gpu.devices,
          portion: isFraction ? portionText(gpu, gpuMemoryMiB) : gpu.type === "whole" ? "1.00" : "",
        },
        ...(groups.length > 0 && { selectedGPUGroups: [...groups] }),
        ...(allocations.length > 0 && { resourceClaimAllocations: allocations.map((each) => ({ ...each })) }),
        ...(extended !== undefined && { extendedResourceClaimAllocation: { ...extended } }),
      },
    },
    why: `${task.key} fits ${node}`,
  };
}
