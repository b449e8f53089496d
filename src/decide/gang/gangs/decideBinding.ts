/**
 * A topology binding and the Topology that the scheduler reads: created from the binding, or only compared where the
 * binding refers to a Topology of another controller.
 */
import { groveApiVersion } from "../../../model/gang/keys.ts";
import type { GangSettings, SchedulerName } from "../../../model/gang/settings.ts";
import type { ClusterTopologyBinding } from "../../../model/gang/types.ts";
import { topologyAwareSchedulers } from "../../../model/gang/validateTopology.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { type AbsentAt, type GangDecision, GangDraft } from "../gangDraft.ts";
import { isLeaving, ownerOf } from "../gangLabels.ts";
import { type ConditionContent, conditionOf, withCondition, withoutCondition } from "./gangConditions.ts";

const driftType = "SchedulerTopologyDrift";

export interface BindingSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly binding: ClusterTopologyBinding;
  readonly topologyNamed: (name: string) => Topology | undefined;
  readonly settings: GangSettings;
}

type TopologyStatus = NonNullable<NonNullable<ClusterTopologyBinding["status"]>["schedulerTopologyStatuses"]>[number];

export function decideBinding(snapshot: BindingSnapshot, nowMs: number): GangDecision {
  const { absentAtRevision, binding, settings } = snapshot;
  const draft = new GangDraft(absentAtRevision);
  if (isLeaving(binding)) return draft.decision();
  const references = binding.spec.schedulerTopologyBindings ?? [];
  const isUsable = (name: string): boolean =>
    settings.profiles.includes(name as SchedulerName) && topologyAwareSchedulers.includes(name as SchedulerName);
  const statuses: TopologyStatus[] = [];
  for (const scheduler of topologyAwareSchedulers.filter(isUsable)) {
    const reference = references.find(({ schedulerName }) => schedulerName === scheduler);
    statuses.push(
      reference === undefined
        ? keepTopology(draft, snapshot, scheduler)
        : compareTopology(snapshot, scheduler, reference.topologyReference),
    );
  }
  // The status follows when the created object is observed.
  if (draft.intents.length > 0) return draft.decision();
  const unusable = references.filter(({ schedulerName }) => !isUsable(schedulerName));
  for (const { schedulerName, topologyReference } of unusable) {
    const message = "the scheduler is not enabled or does not support topologies";
    statuses.push({ schedulerName, topologyReference, inSync: false, message });
  }
  const condition = driftOf(statuses, unusable.length > 0);
  const conditions =
    condition === undefined
      ? withoutCondition(binding.status?.conditions, driftType)
      : withCondition(binding.status?.conditions, condition, nowMs);
  const status = {
    ...binding.status,
    observedGeneration: binding.metadata.generation ?? 0,
    conditions,
    schedulerTopologyStatuses: statuses,
  };
  if (draft.status(binding, status, "the topologies of the schedulers")) {
    noteTransition(draft, binding, condition);
  }
  return draft.decision();
}

function noteTransition(
  draft: GangDraft,
  binding: ClusterTopologyBinding,
  condition: ConditionContent | undefined,
): void {
  const before = conditionOf(binding, driftType)?.status;
  if (condition === undefined || before === condition.status) return;
  if (condition.status === "True") {
    draft.note({
      regarding: binding,
      type: "Warning",
      reason: "TopologyDriftDetected",
      action: "Comparing",
      note: condition.message,
    });
  } else if (condition.status === "False") {
    draft.note({
      regarding: binding,
      type: "Normal",
      reason: "TopologyInSync",
      action: "Comparing",
      note: condition.message,
    });
  }
}

function driftOf(statuses: readonly TopologyStatus[], hasUnusable: boolean): ConditionContent | undefined {
  if (statuses.length === 0) return undefined;
  const off = statuses.filter(({ inSync }) => !inSync);
  const message = off.map((each) => `${each.schedulerName}: ${each.message ?? "differs"}`).join("; ");
  if (hasUnusable) return { type: driftType, status: "Unknown", reason: "TopologyNotFound", message };
  if (off.length > 0) return { type: driftType, status: "True", reason: "Drift", message };
  return {
    type: driftType,
    status: "False",
    reason: "InSync",
    message: "all schedulers have the levels of this binding",
  };
}

/** The levels of a Topology are immutable, so it is deleted and created again. */
function keepTopology(
  draft: GangDraft,
  { binding, topologyNamed }: BindingSnapshot,
  schedulerName: string,
): TopologyStatus {
  const { name } = binding.metadata;
  const levels = binding.spec.levels.map(({ key }) => ({ nodeLabel: key }));
  const stored = topologyNamed(name);
  const status = (inSync: boolean, message?: string): TopologyStatus => ({
    schedulerName,
    topologyReference: name,
    inSync,
    ...(stored?.metadata.generation !== undefined && {
      schedulerBackendTopologyObservedGeneration: stored.metadata.generation,
    }),
    ...(message !== undefined && { message }),
  });
  if (stored === undefined) {
    draft.create(
      {
        apiVersion: "kai.scheduler/v1alpha1",
        kind: "Topology",
        metadata: { name, ownerReferences: [ownerOf({ ...binding, apiVersion: groveApiVersion })] },
        spec: { levels },
      },
      `topology binding ${name}`,
    );
    return status(false, `topology ${name} is being created`);
  }
  const isOurs = stored.metadata.ownerReferences?.some(({ uid }) => uid === binding.metadata.uid) === true;
  if (!isOurs) return status(false, `topology ${name} exists and belongs to another owner`);
  if (equalFields(keysOf(stored), keysOf({ spec: { levels } }))) return status(true);
  const uid = binding.metadata.uid;
  draft.remove(stored, "its levels have changed, and they are immutable", {
    stillRight: (fresh) => fresh.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true,
  });
  return status(false, "the levels are being replaced");
}

function compareTopology(
  { binding, topologyNamed }: BindingSnapshot,
  schedulerName: string,
  name: string,
): TopologyStatus {
  const stored = topologyNamed(name);
  const base = { schedulerName, topologyReference: name };
  if (stored === undefined) return { ...base, inSync: false, message: `topology ${name} does not exist` };
  const [levels, wanted] = [keysOf(stored), binding.spec.levels.map(({ key }) => key)];
  const inSync = equalFields(levels, wanted);
  const { generation } = stored.metadata;
  return {
    ...base,
    inSync,
    ...(generation !== undefined && { schedulerBackendTopologyObservedGeneration: generation }),
    ...(!inSync && {
      message: `topology ${name} has the levels ${levels.join(", ")}, and the binding ${wanted.join(", ")}`,
    }),
  };
}

function keysOf({ spec }: Pick<Topology, "spec"> | { spec: { levels: { nodeLabel: string }[] } }): string[] {
  return (spec?.levels ?? []).map(({ nodeLabel }) => nodeLabel);
}
