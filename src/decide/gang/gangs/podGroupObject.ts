/** The PodGroup of a PodGang, for kai-scheduler: a subgroup for each clique. */
import { annotations as annotationKeys, labels } from "../../../model/gang/keys.ts";
import type { GangTopologyConstraint, PodCliqueSet, PodGang } from "../../../model/gang/types.ts";
import { queueOf } from "../../../model/gang/validateSet.ts";
import type { NewObject } from "../../../model/intent.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import {
  type PodGroup,
  type PodGroupSpec,
  podGroupApiVersion,
  type SubGroup,
  type TopologyConstraint,
} from "../../../model/scheduling/podGroup.ts";
import { replaced } from "../cliques/cliqueObject.ts";
import { type AbsentAt, type GangDecision, GangDraft } from "../gangDraft.ts";
import { isLeaving, ownerOf } from "../gangLabels.ts";

export interface PodGroupSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly podGang: PodGang;
  /** The set that the gang belongs to; without it the queue is not known. */
  readonly set: PodCliqueSet | undefined;
  readonly podGroup: PodGroup | undefined;
}

export function decidePodGroup({ absentAtRevision, podGang, set, podGroup }: PodGroupSnapshot): GangDecision {
  const draft = new GangDraft(absentAtRevision);
  if (podGang.metadata.labels?.[labels.schedulerName] !== "kai-scheduler" || isLeaving(podGang))
    return draft.decision();
  if (set === undefined) return draft.decision();
  const wanted = podGroupSpec(podGang, set);
  if ("problem" in wanted) {
    draft.note({
      regarding: podGang,
      type: "Warning",
      reason: "KAIBackendMappingFailed",
      action: "Mapping",
      note: wanted.problem,
    });
    draft.wait(wanted.problem);
    return draft.decision();
  }
  if (podGang.metadata.annotations?.[annotationKeys.skipPodGrouper] !== "true") {
    const annotations = { [annotationKeys.skipPodGrouper]: "true" };
    draft.patch(podGang, { metadata: { annotations } }, "its PodGroup is created by this operator");
  }
  const { name, namespace = "default" } = podGang.metadata;
  if (podGroup === undefined) {
    const object: NewObject = {
      apiVersion: podGroupApiVersion,
      kind: "PodGroup",
      metadata: {
        name,
        namespace,
        labels: { ...podGang.metadata.labels, ...(wanted.spec.queue && { [annotationKeys.queue]: wanted.spec.queue }) },
        ownerReferences: [ownerOf(podGang)],
      },
      spec: wanted.spec,
    };
    draft.create(object, `gang ${name} is scheduled as a gang`);
    return draft.decision();
  }
  // Fields that the scheduler or users set on a PodGroup are kept.
  const { markUnschedulable, schedulingBackoff, queue } = podGroup.spec ?? {};
  const spec: PodGroupSpec = {
    ...wanted.spec,
    ...(markUnschedulable !== undefined && { markUnschedulable }),
    ...(schedulingBackoff !== undefined && { schedulingBackoff }),
    ...(queue !== undefined && { queue }),
  };
  const relevant = pick(podGroup.spec ?? {}, spec);
  if (!equalFields(relevant, spec)) {
    draft.patch(podGroup, { spec: replaced(spec, relevant) as JsonObject }, `gang ${name} has changed`);
  }
  return draft.decision();
}

/** The stored values of the fields that this operator writes. */
function pick(stored: PodGroupSpec, wanted: PodGroupSpec): PodGroupSpec {
  const ours = [
    "minMember",
    "queue",
    "priorityClassName",
    "topologyConstraint",
    "subGroups",
    "markUnschedulable",
    "schedulingBackoff",
  ] as const;
  const picked: Record<string, unknown> = {};
  for (const key of ours) {
    if (stored[key] !== undefined && (key in wanted || key !== "queue")) picked[key] = stored[key];
  }
  return picked as PodGroupSpec;
}

export function podGroupSpec(
  { spec, metadata }: PodGang,
  set: PodCliqueSet,
): { readonly spec: PodGroupSpec } | { readonly problem: string } {
  const topology = metadata.annotations?.[annotationKeys.topologyName];
  const constraints = [
    spec.topologyConstraint,
    ...(spec.topologyConstraintGroupConfigs ?? []).map((part) => part.topologyConstraint),
    ...spec.podgroups.map((group) => group.topologyConstraint),
  ];
  if (topology === undefined && constraints.some((each) => each !== undefined)) {
    return { problem: `gang ${metadata.name} has a topology constraint and its set names no topology` };
  }
  const queue = queueOf(set);
  if ("problem" in queue) return { problem: queue.problem };
  const constrained = (constraint: GangTopologyConstraint | undefined): { topologyConstraint?: TopologyConstraint } => {
    if (constraint === undefined || topology === undefined) return {};
    const { required, preferred } = constraint.packConstraint;
    return {
      topologyConstraint: {
        topology,
        ...(required !== undefined && { requiredTopologyLevel: required }),
        ...(preferred !== undefined && { preferredTopologyLevel: preferred }),
      },
    };
  };
  const parentOf = new Map<string, string>();
  const parents: SubGroup[] = (spec.topologyConstraintGroupConfigs ?? []).map((part) => {
    for (const name of part.podGroupNames) parentOf.set(name, part.name);
    return { name: part.name, minSubGroup: part.podGroupNames.length, ...constrained(part.topologyConstraint) };
  });
  const leaves: SubGroup[] = spec.podgroups.map(({ name, minReplicas, topologyConstraint }) => ({
    name,
    minMember: minReplicas,
    ...(parentOf.has(name) && { parent: parentOf.get(name) as string }),
    ...constrained(topologyConstraint),
  }));
  return {
    spec: {
      minMember: spec.podgroups.reduce((sum, { minReplicas }) => sum + minReplicas, 0),
      queue: queue.queue,
      ...(spec.priorityClassName !== undefined && { priorityClassName: spec.priorityClassName }),
      ...constrained(spec.topologyConstraint),
      subGroups: [...parents, ...leaves],
    },
  };
}
