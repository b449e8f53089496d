import type { PodGroup as PlainGroup, Pod } from "../../../model/kubernetes.generated.ts";
import type { PodGroupSpec } from "../../../model/scheduling/podGroup.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";

/**
 * Kubernetes' own gangs: pods without a queue that name a PodGroup of `scheduling.k8s.io`, and start when enough of
 * them fit.
 */

/** The id of the job of such a group; jobs of KAI's groups have ids without the suffix. */
export function plainGangId(namespace: string, name: string): string {
  return `${namespace}/${name} (scheduling.k8s.io)`;
}

/** Whether a job is that of such a group. */
export function isPlainGang({ id }: { readonly id: string }): boolean {
  return id.endsWith(" (scheduling.k8s.io)");
}

/** The job of a pod of `default-scheduler` that names a PodGroup. */
export function plainGangOf({ metadata, spec }: Pod): string | undefined {
  const name = spec?.schedulingGroup?.podGroupName;
  return name === undefined ? undefined : plainGangId(metadata.namespace ?? "", name);
}

/** The spec of the group as that of a KAI PodGroup. */
export function plainGangSpec({ spec }: PlainGroup): PodGroupSpec {
  const key = topologyKey(spec);
  return {
    minMember: Math.max(1, spec.schedulingPolicy.gang?.minCount ?? 1),
    ...(key !== undefined && {
      topologyConstraint: { topology: impliedTopologyName(key), requiredTopologyLevel: key },
    }),
  };
}

/** The topology key of a gang as a Topology of one level. */
export function impliedTopology(group: PlainGroup): Topology | undefined {
  const key = topologyKey(group.spec);
  if (key === undefined) return undefined;
  const name = impliedTopologyName(key);
  return {
    apiVersion: "kai.scheduler/v1alpha1",
    kind: "Topology",
    metadata: { name, uid: name, resourceVersion: "0" },
    spec: { levels: [{ nodeLabel: key }] },
  } as Topology;
}

function topologyKey({ schedulingConstraints }: PlainGroup["spec"]): string | undefined {
  return schedulingConstraints?.topology?.[0]?.key;
}

/** A name that no object can have. */
function impliedTopologyName(key: string): string {
  return `label ${key}`;
}
