/**
 * The PodClique that should exist for a clique of a set, in a replica of the set and, for a member of a scaling group,
 * in a replica of the group.
 */
import {
  annotations as annotationKeys,
  components,
  finalizers,
  groveApiVersion,
  labels,
  variables,
} from "../../../model/gang/keys.ts";
import { groupMinAvailable, membersOf, minAvailableOf } from "../../../model/gang/setFacts.ts";
import type {
  CliqueTemplate,
  GroupTemplate,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodCliqueSpec,
} from "../../../model/gang/types.ts";
import type { NewObject } from "../../../model/intent.ts";
import type { Container, EnvVar, PodSpec } from "../../../model/kubernetes.generated.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { childLabels, ownerOf } from "../gangLabels.ts";
import { cliqueName, memberName, scaledGangName, setReplicaName } from "../names.ts";
import { templateHash } from "../sets/hashes.ts";
import { reservedVariables, startsAfter } from "./startOrder.ts";

export interface CliquePlace {
  readonly set: PodCliqueSet;
  readonly setReplica: number;
  readonly clique: CliqueTemplate;
  readonly group?: {
    readonly template: GroupTemplate;
    readonly object: PodCliqueScalingGroup;
    readonly replica: number;
  };
}

export function nameOfClique({ set, setReplica, clique, group }: CliquePlace): string {
  return group === undefined
    ? cliqueName(set.metadata.name, setReplica, clique.name)
    : memberName(group.object.metadata.name, group.replica, clique.name);
}

/** The gang of a clique: the base gang, or its own beyond the group's minimum. */
export function gangOfClique({ set, setReplica, group }: CliquePlace): {
  readonly gang: string;
  readonly base?: string;
} {
  const base = setReplicaName(set.metadata.name, setReplica);
  if (group === undefined) return { gang: base };
  const minimum = groupMinAvailable(group.template);
  if (group.replica < minimum) return { gang: base };
  return { gang: scaledGangName(group.object.metadata.name, group.replica, minimum), base };
}

export function cliqueObject(place: CliquePlace): NewObject & { spec: PodCliqueSpec } {
  const { set, setReplica, clique, group } = place;
  const name = nameOfClique(place);
  const { gang, base } = gangOfClique(place);
  const { [annotationKeys.topologyName]: _topology, ...annotations } = clique.annotations ?? {};
  const waitsFor = startsAfter(set, {
    setReplica,
    clique: clique.name,
    ...(group && { groupReplica: group.replica }),
  });
  const { startsAfter: _names, ...spec } = clique.spec;
  return {
    apiVersion: groveApiVersion,
    kind: "PodClique",
    metadata: {
      name,
      namespace: set.metadata.namespace ?? "default",
      labels: {
        ...clique.labels,
        ...childLabels(set.metadata.name, group === undefined ? components.setClique : components.groupClique, name),
        [labels.setReplica]: String(setReplica),
        [labels.podGang]: gang,
        [labels.templateHash]: templateHash(set, clique),
        ...(group && {
          [labels.group]: group.object.metadata.name,
          [labels.groupReplica]: String(group.replica),
        }),
        ...(base !== undefined && { [labels.basePodGang]: base }),
      },
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ownerReferences: [ownerOf(group === undefined ? set : group.object)],
      finalizers: [finalizers.PodClique],
    },
    spec: {
      ...spec,
      minAvailable: minAvailableOf(spec),
      podSpec: group === undefined ? spec.podSpec : withGroupVariables(set, group.template, spec.podSpec),
      ...(waitsFor.length > 0 && { startsAfter: waitsFor }),
    },
  };
}

/**
 * The patch that makes a clique what its template says, or undefined. `replicas` stays: it is set at creation and
 * belongs to the autoscaler or user that scales the clique since.
 */
export function cliquePatch(stored: PodClique, wanted: ReturnType<typeof cliqueObject>): JsonObject | undefined {
  const { replicas: _replicas, ...spec } = wanted.spec;
  const { replicas: _stored, ...storedSpec } = stored.spec;
  const metadata = metadataPatch(stored, wanted);
  const isSameSpec = equalFields(spec, storedSpec);
  if (metadata === undefined && isSameSpec) return undefined;
  return {
    ...(metadata && { metadata }),
    ...(!isSameSpec && { spec: replaced(spec, storedSpec) as JsonObject }),
  };
}

/** The labels, annotations and owner that differ from the desired ones. Those of other clients stay. */
export function metadataPatch(stored: KubeObject, wanted: NewObject): JsonObject | undefined {
  const patch: JsonObject = {};
  for (const field of ["labels", "annotations"] as const) {
    const differing: JsonObject = {};
    for (const [key, value] of Object.entries(wanted.metadata[field] ?? {})) {
      if (stored.metadata[field]?.[key] !== value) differing[key] = value;
    }
    if (Object.keys(differing).length > 0) patch[field] = differing;
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

/**
 * A merge patch that leaves exactly the desired fields: other stored fields are removed. Lists are replaced as a whole.
 */
export function replaced(wanted: object, stored: object): object {
  const patch: Record<string, unknown> = {};
  const [now, then] = [wanted as Record<string, unknown>, stored as Record<string, unknown>];
  for (const key of Object.keys(then)) if (now[key] === undefined) patch[key] = null;
  for (const [key, value] of Object.entries(now)) {
    if (value === undefined || equalFields(value, then[key])) continue;
    const isTree = isPlain(value) && isPlain(then[key]);
    patch[key] = isTree ? replaced(value as object, then[key] as object) : value;
  }
  return patch;
}

function isPlain(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const fromLabel = (name: string, label: string): EnvVar => ({
  name,
  valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: `metadata.labels['${label}']` } },
});

/** Environment variables for every container, before the user's own, so that the user's values can refer to them. */
export function withVariables(podSpec: PodSpec, own: readonly EnvVar[]): PodSpec {
  const names = new Set(own.map(({ name }) => name));
  const told = (container: Container): Container => ({
    ...container,
    env: [...own, ...(container.env ?? []).filter(({ name }) => !names.has(name))],
  });
  return {
    ...podSpec,
    containers: podSpec.containers.map(told),
    ...(podSpec.initContainers && { initContainers: podSpec.initContainers.map(told) }),
  };
}

function withGroupVariables(set: PodCliqueSet, group: GroupTemplate, podSpec: PodSpec): PodSpec {
  const pods = membersOf(set, group).reduce((sum, { spec }) => sum + spec.replicas, 0);
  const clean = (container: Container): Container =>
    container.env === undefined
      ? container
      : { ...container, env: container.env.filter(({ name }) => !reservedVariables.has(name)) };
  const cleaned = {
    ...podSpec,
    containers: podSpec.containers.map(clean),
    ...(podSpec.initContainers && { initContainers: podSpec.initContainers.map(clean) }),
  };
  return withVariables(cleaned, [
    fromLabel(variables.groupName, labels.group),
    { name: variables.groupPods, value: String(pods) },
    fromLabel(variables.groupIndex, labels.groupReplica),
  ]);
}
