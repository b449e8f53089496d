/**
 * The PodGangs of one replica of a set: the base gang of everything up to the minimums, and one scaled gang for each
 * group replica beyond. A gang references its pods; the pods that it references may be scheduled.
 */
import { annotations as annotationKeys, components, labels, podGangApiVersion } from "../../../model/gang/keys.ts";
import { gangCliquesMax, groupReplicasInReach } from "../../../model/gang/reach.ts";
import {
  groupMinAvailable,
  groupsOf,
  membersOf,
  minAvailableOf,
  schedulerOf,
  standaloneCliques,
} from "../../../model/gang/setFacts.ts";
import type { GangSettings } from "../../../model/gang/settings.ts";
import type {
  CliqueTemplate,
  ClusterTopologyBinding,
  GangTopologyConstraint,
  GroupTemplate,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodGang,
  PodGangGroup,
  PodGangSpec,
  TopologyConstraint,
} from "../../../model/gang/types.ts";
import { requiredDomain } from "../../../model/gang/validateSetUpdate.ts";
import { topologyNameOf } from "../../../model/gang/validateTopology.ts";
import type { NewObject } from "../../../model/intent.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import { isFinished } from "../../../model/objects/podFacts.ts";
import { defaultLabels, isLeaving, ownerOf } from "../gangLabels.ts";
import { cliqueName, groupName, memberName, scaledGangName, setReplicaName } from "../names.ts";

export interface GangMember {
  /** The PodClique. */
  readonly name: string;
  readonly clique: CliqueTemplate;
}

/** A gang before its pods are known. */
export interface GangShape {
  readonly name: string;
  readonly setReplica: number;
  readonly members: readonly GangMember[];
  readonly constraint: TopologyConstraint | undefined;
  readonly parts: readonly {
    readonly name: string;
    readonly members: readonly string[];
    readonly constraint: TopologyConstraint;
  }[];
}

/** The current replicas of a group: of its spec if it exists, else of its template. */
export function liveGroupReplicas(
  set: PodCliqueSet,
  index: number,
  template: GroupTemplate,
  groups: readonly PodCliqueScalingGroup[],
): number {
  const name = groupName(set.metadata.name, index, template.name);
  return groupReplicasInReach(set, template, groups.find(({ metadata }) => metadata.name === name)?.spec);
}

export function gangShapes(set: PodCliqueSet, index: number, groups: readonly PodCliqueScalingGroup[]): GangShape[] {
  const { name } = set.metadata;
  const members: GangMember[] = standaloneCliques(set).map((clique) => ({
    name: cliqueName(name, index, clique.name),
    clique,
  }));
  const parts: GangShape["parts"][number][] = [];
  const scaled: GangShape[] = [];
  const own = set.spec.template.topologyConstraint;
  for (const template of groupsOf(set)) {
    const whole = groupName(name, index, template.name);
    const minimum = groupMinAvailable(template);
    // Bounds the loop: a set whose minimum exceeds the largest gang has no replicas.
    const replicas = Math.max(Math.min(minimum, gangCliquesMax), liveGroupReplicas(set, index, template, groups));
    for (let replica = 0; replica < replicas; replica++) {
      const ofReplica = membersOf(set, template).map((clique) => ({
        name: memberName(whole, replica, clique.name),
        clique,
      }));
      const { topologyConstraint } = template;
      if (replica < minimum) {
        members.push(...ofReplica);
        if (topologyConstraint !== undefined) {
          const names = ofReplica.map((member) => member.name);
          parts.push({ name: `${whole}-${replica}`, members: names, constraint: topologyConstraint });
        }
      } else {
        scaled.push({
          name: scaledGangName(whole, replica, minimum),
          setReplica: index,
          members: ofReplica,
          constraint: topologyConstraint ?? own,
          parts: [],
        });
      }
    }
  }
  return [{ name: setReplicaName(name, index), setReplica: index, members, constraint: own, parts }, ...scaled];
}

/**
 * Domains become the keys of node labels; a domain that the topology lacks is left out, and so is a constraint without
 * any.
 */
export function translate(
  constraint: TopologyConstraint | undefined,
  binding: ClusterTopologyBinding | undefined,
): GangTopologyConstraint | undefined {
  if (constraint === undefined || binding === undefined) return undefined;
  const keyOf = (domain: string | undefined): string | undefined =>
    domain === undefined ? undefined : binding.spec.levels.find((level) => level.domain === domain)?.key;
  const [required, preferred] = [keyOf(requiredDomain(constraint)), keyOf(constraint.pack?.preferred)];
  if (required === undefined && preferred === undefined) return undefined;
  return {
    packConstraint: { ...(required !== undefined && { required }), ...(preferred !== undefined && { preferred }) },
  };
}

/** The pods that a gang may reference: not terminating, not finished, and labelled with this gang. */
export function referablePods(pods: readonly Pod[], member: string, gang: string): Pod[] {
  return pods.filter(
    (pod) =>
      pod.metadata.labels?.[labels.clique] === member &&
      pod.metadata.labels[labels.podGang] === gang &&
      !isLeaving(pod) &&
      !isFinished(pod),
  );
}

export interface GangContext {
  readonly set: PodCliqueSet;
  readonly pods: readonly Pod[];
  readonly binding: ClusterTopologyBinding | undefined;
  readonly settings: GangSettings;
}

export function podGangSpec(shape: GangShape, { set, pods, binding, settings }: GangContext): PodGangSpec {
  const known = settings.topologyAware ? binding : undefined;
  const podgroups = shape.members.map(({ name, clique }): PodGangGroup => {
    const constraint = translate(clique.topologyConstraint, known);
    return {
      name,
      podReferences: referablePods(pods, name, shape.name)
        .map(({ metadata: { namespace = "default", name: pod, uid } }) => ({ namespace, name: pod, uid }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
      minReplicas: minAvailableOf(clique.spec),
      ...(constraint && { topologyConstraint: constraint }),
    };
  });
  const whole = translate(shape.constraint, known);
  const parts = shape.parts.flatMap(({ name, members, constraint }) => {
    const translated = translate(constraint, known);
    return translated === undefined ? [] : [{ name, podGroupNames: [...members], topologyConstraint: translated }];
  });
  const { priorityClassName = "" } = set.spec.template;
  return {
    podgroups,
    ...(whole && { topologyConstraint: whole }),
    ...(parts.length > 0 && { topologyConstraintGroupConfigs: parts }),
    ...(priorityClassName !== "" && { priorityClassName }),
  };
}

/** Whether a gang references this pod. Where the CRD prunes the UID, only the name is compared. */
export function namesPod({ spec }: PodGang, { metadata }: Pod): boolean {
  return spec.podgroups.some(({ podReferences }) =>
    podReferences.some(({ name, uid }) => name === metadata.name && (uid === undefined || uid === metadata.uid)),
  );
}

/** Whether a stored gang equals the desired one. References without UIDs are compared by name. */
export function isSameGang(stored: PodGangSpec, wanted: PodGangSpec): boolean {
  const references = stored.podgroups.flatMap(({ podReferences }) => podReferences);
  const keepsNone = references.length > 0 && references.every(({ uid }) => uid === undefined);
  return equalFields(stored, keepsNone ? withoutUids(wanted) : wanted);
}

function withoutUids(spec: PodGangSpec): PodGangSpec {
  const podgroups = spec.podgroups.map((group) => ({
    ...group,
    podReferences: group.podReferences.map(({ namespace, name }) => ({ namespace, name })),
  }));
  return { ...spec, podgroups };
}

export function hasConstraint({ topologyConstraint, topologyConstraintGroupConfigs, podgroups }: PodGangSpec): boolean {
  return (
    topologyConstraint !== undefined ||
    topologyConstraintGroupConfigs !== undefined ||
    podgroups.some((group) => group.topologyConstraint !== undefined)
  );
}

const own = (key: string): boolean => key.startsWith("grove.io/");
/** An annotation that a scheduler's own controller has set on a gang is kept. */
const ofScheduler = (key: string): boolean => key === annotationKeys.skipPodGrouper;

/**
 * Labels and annotations of the set are mirrored; labels and annotations of the operator or the scheduler on an
 * existing gang stay.
 */
export function podGangObject(
  shape: GangShape,
  around: GangContext,
  stored: PodGang | undefined,
): NewObject & { spec: PodGangSpec } {
  const { set, settings } = around;
  const spec = podGangSpec(shape, around);
  const mirrored = (from: Record<string, string> | undefined) =>
    Object.fromEntries(Object.entries(from ?? {}).filter(([key]) => !own(key)));
  const kept = (from: Record<string, string> | undefined, isKept: (key: string) => boolean) =>
    Object.fromEntries(Object.entries(from ?? {}).filter(([key]) => isKept(key)));
  const { [annotationKeys.topologyName]: _old, ...annotations } = {
    ...kept(stored?.metadata.annotations, (key) => own(key) || ofScheduler(key)),
    ...mirrored(set.metadata.annotations),
  };
  const topology = hasConstraint(spec) ? topologyNameOf(set) : undefined;
  const all = { ...annotations, ...(topology !== undefined && { [annotationKeys.topologyName]: topology }) };
  return {
    apiVersion: podGangApiVersion,
    kind: "PodGang",
    metadata: {
      name: shape.name,
      namespace: set.metadata.namespace ?? "default",
      labels: {
        ...kept(stored?.metadata.labels, own),
        ...mirrored(set.metadata.labels),
        ...defaultLabels(set.metadata.name),
        [labels.component]: components.podGang,
        // Not in Grove: the owner of a gang must not be guessed from its name.
        [labels.setReplica]: String(shape.setReplica),
        [labels.schedulerName]: schedulerOf(set, settings.defaultProfile),
      },
      ...(Object.keys(all).length > 0 && { annotations: all }),
      ownerReferences: [ownerOf(set)],
    },
    spec,
  };
}
