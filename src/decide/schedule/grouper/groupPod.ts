import type { Pod } from "../../../model/kubernetes.generated.ts";
import { splitApiVersion } from "../../../model/objects/object.ts";
import { annotationKeys, labelKeys } from "../../../model/scheduling/keys.ts";
import { type PodGroup, type PodGroupSpec, podGroupApiVersion } from "../../../model/scheduling/podGroup.ts";
import { defaultQueueName } from "../../../model/scheduling/queue.ts";
import { durationToMs } from "../../../model/values/goDuration.ts";
import { type KindPriorities, kindPriority } from "./grouperSettings.ts";
import { defaultGrouper, groupers, passedOver } from "./kinds.ts";
import { kindName, type Workload } from "./workload.ts";

/** The group that a pod should belong to. */
export interface WantedGroup {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: { apiVersion: string; kind: string; name: string; uid: string };
  readonly spec: PodGroupSpec;
  /** The pod's subgroup in it. */
  readonly subGroup: string | undefined;
  /** Invalid values, which were ignored. */
  readonly problems: readonly string[];
}

/** Why the grouper creates no group for a pod. */
export type NoGroup = { readonly skip: string };

export interface GroupFacts {
  /** Whether a priority class of this name exists. */
  readonly hasPriorityClass: (name: string) => boolean;
  /** A group that exists already under the name, if any. */
  readonly existing: (name: string) => PodGroup | undefined;
  /** The priority classes of kinds in the installation's settings. */
  readonly kindPriorities: KindPriorities;
  /** Whether the pods of a Knative revision are a gang. */
  readonly gangScheduleKnative: boolean;
  /** Whether the MPIJob of this name, in the pod's namespace, has a launcher pod that is not terminating. */
  readonly hasLauncher: (job: string) => boolean;
}

/** The group of a pod. The chain goes from the pod's own owner to the top owner. */
export function groupPod(pod: Pod, chain: readonly Workload[], facts: GroupFacts): WantedGroup | NoGroup {
  const annotations = pod.metadata.annotations ?? {};
  if (annotations[annotationKeys.skipPodGrouper] !== undefined) return { skip: "the pod says so" };
  if (chain.some(({ metadata }) => metadata.annotations?.[annotationKeys.skipPodGrouper] !== undefined)) {
    return { skip: "an owner says so" };
  }
  if (chain.length === 0 && annotations[annotationKeys.podGroup] !== undefined) return { skip: "it has a group" };

  const self: Workload = { ...pod, apiVersion: "v1", kind: "Pod" };
  const passed = chain.filter((owner) => passedOver.has(kindName(owner)));
  const counted = chain.filter((owner) => !passedOver.has(kindName(owner)));
  const top = counted.at(-1) ?? self;
  // Labels of an owner that is passed over apply to the owner below it.
  const labels: Record<string, string> = { ...passedDown(passed), ...top.metadata.labels };
  const ownerAnnotations = { ...top.metadata.annotations };
  const grouper = groupers[kindName(top)] ?? defaultGrouper;
  const defaultName = `pg-${top.metadata.name}-${top.metadata.uid}`;
  const { gangScheduleKnative, hasLauncher } = facts;
  const input = { pod, top, chain: counted, gangScheduleKnative, hasLauncher };
  const withSubGroups = grouper({ ...input, maySubGroup: true });
  const existing = facts.existing(withSubGroups.name ?? defaultName);
  // A group that was created without subgroups keeps none: its pods have no subgroup label.
  const isFlat = existing !== undefined && (existing.spec?.subGroups?.length ?? 0) === 0;
  const grouping = isFlat ? grouper({ ...input, maySubGroup: false }) : withSubGroups;

  const podLabels = pod.metadata.labels ?? {};
  const nodePool = labels[labelKeys.nodePool] ?? podLabels[labelKeys.nodePool];
  // The kind of an owner that is passed over may have a priority class too, which is looked at first.
  const kindDefaults = [...passed, top].map(({ apiVersion: version, kind: of }) =>
    kindPriority(facts.kindPriorities, splitApiVersion(version).group, of),
  );
  const priorityClassName = priorityClassOf(pod, labels, kindDefaults, grouping.priorityClass, facts);
  const preemptibility = labels[labelKeys.preemptibility] ?? podLabels[labelKeys.preemptibility];
  const topology = grouping.topology ?? topologyOf(ownerAnnotations) ?? topologyOf(annotations);
  const problems: string[] = [];
  // An invalid duration would cause the API to refuse the group, and the pod would stay pending.
  const durationAt = (key: string): string | undefined => {
    const given = [ownerAnnotations[key], annotations[key]].filter((text) => text !== undefined);
    for (const text of given)
      if (durationToMs(text) === undefined) problems.push(`${key}: ${text} is not a valid duration`);
    return given.find((text) => durationToMs(text) !== undefined);
  };
  const delay = durationAt(annotationKeys.preemptionDelay);
  const grace = durationAt(annotationKeys.stalenessGracePeriod);
  const hasSubGroups = (grouping.subGroups?.length ?? 0) > 0;
  const { apiVersion, kind, metadata } = top;
  return {
    name: grouping.name ?? defaultName,
    namespace: pod.metadata.namespace ?? "",
    labels: { ...labels, ...(nodePool !== undefined && { [labelKeys.nodePool]: nodePool }) },
    annotations: {
      ...withoutBulk(ownerAnnotations),
      [annotationKeys.topOwner]: `name: ${metadata.name}\nuid: ${metadata.uid}\napiVersion: ${apiVersion}\nkind: ${kind}\n`,
    },
    owner: { apiVersion, kind, name: metadata.name, uid: metadata.uid },
    spec: {
      queue: queueOf(pod, labels),
      priorityClassName,
      ...(hasSubGroups
        ? {
            subGroups: [...(grouping.subGroups ?? [])],
            ...(grouping.minSubGroup !== undefined && { minSubGroup: grouping.minSubGroup }),
          }
        : { minMember: grouping.minMember ?? 1 }),
      ...((preemptibility === "preemptible" || preemptibility === "non-preemptible") && { preemptibility }),
      ...(topology !== undefined && { topologyConstraint: topology }),
      ...(delay !== undefined && { preemptionDelay: delay }),
      ...(grace !== undefined && { stalenessGracePeriod: grace }),
    },
    subGroup: hasSubGroups ? grouping.subGroup : undefined,
    problems: [...new Set(problems)],
  };
}

/**
 * The queue label of the owner, then of the pod; the older label `project` in the same order; otherwise
 * `default-queue`.
 */
function queueOf(pod: Pod, ownerLabels: Readonly<Record<string, string>>): string {
  const podLabels = pod.metadata.labels ?? {};
  const named = ownerLabels[labelKeys.queue] ?? podLabels[labelKeys.queue];
  if (named !== undefined) return named;
  const project = ownerLabels[labelKeys.project] ?? podLabels[labelKeys.project];
  if (project === undefined) return defaultQueueName;
  const pool = podLabels[labelKeys.nodePool];
  return pool === undefined ? project : `${project}-${pool}`;
}

function priorityClassOf(
  pod: Pod,
  ownerLabels: Readonly<Record<string, string>>,
  kindDefaults: readonly (string | undefined)[],
  ofKind: string,
  { hasPriorityClass }: GroupFacts,
): string {
  const asked = [
    ownerLabels[labelKeys.priorityClass],
    pod.metadata.labels?.[labelKeys.priorityClass],
    pod.spec?.priorityClassName,
    ...kindDefaults,
  ];
  return asked.find((name) => name !== undefined && name !== "" && hasPriorityClass(name)) ?? ofKind;
}

function topologyOf(annotations: Readonly<Record<string, string>>): PodGroupSpec["topologyConstraint"] | undefined {
  const topology = annotations[annotationKeys.topology];
  const required = annotations[annotationKeys.topologyRequired];
  const preferred = annotations[annotationKeys.topologyPreferred];
  if (topology === undefined) return undefined;
  return {
    topology,
    ...(required !== undefined && { requiredTopologyLevel: required }),
    ...(preferred !== undefined && { preferredTopologyLevel: preferred }),
  };
}

function passedDown(passed: readonly Workload[]): Record<string, string> {
  return Object.assign({}, ...passed.map(({ metadata }) => metadata.labels ?? {})) as Record<string, string>;
}

/** Without the annotation in which `kubectl apply` keeps the last manifest. */
function withoutBulk(annotations: Readonly<Record<string, string>>): Record<string, string> {
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...rest } = annotations;
  return rest;
}

/** The object to create. */
export function newGroup(
  wanted: WantedGroup,
): Omit<PodGroup, "metadata"> & { metadata: { name: string; [field: string]: unknown } } {
  const { name, namespace, labels, annotations, owner, spec } = wanted;
  return {
    apiVersion: podGroupApiVersion,
    kind: "PodGroup",
    metadata: { name, namespace, labels, annotations, ownerReferences: [{ ...owner }] },
    spec,
  };
}

/**
 * The changes of an existing group. The queue stays as it is, and so does a topology constraint that the workload does
 * not name; other fields follow the workload. Undefined if there are none.
 */
export function groupChanges(existing: PodGroup, wanted: WantedGroup): Partial<PodGroupSpec> | undefined {
  const { queue: _queue, topologyConstraint, ...rest } = wanted.spec;
  const desired: Record<string, unknown> = { ...rest, ...(topologyConstraint !== undefined && { topologyConstraint }) };
  const changes: Record<string, unknown> = {};
  const current = (existing.spec ?? {}) as Record<string, unknown>;
  for (const [key, value] of Object.entries(desired)) {
    if (JSON.stringify(current[key]) !== JSON.stringify(value)) changes[key] = value;
  }
  return Object.keys(changes).length === 0 ? undefined : (changes as Partial<PodGroupSpec>);
}
