/** Gangs of every gang scheduler that is known: KAI and Grove as verify reads them, Volcano, and coscheduling. */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type ClusterSnapshot, objectsOf } from "../verify/clusterSnapshot.ts";
import { type Gang, gangsOf, record, whole } from "../verify/gangs.ts";
import type { KindName } from "../verify/readKinds.ts";

export const gangKinds = [
  "podgroups",
  "podgangs",
  "topologies",
  "volcanopodgroups",
  "coschedulingpodgroups",
] as const satisfies readonly KindName[];

interface GroupKind {
  readonly kind: KindName;
  /** How findings name the kind. */
  readonly resource: string;
  /** The name of the group that a pod is in. */
  readonly groupOf: (pod: Pod) => string | undefined;
}

const groupKinds: readonly GroupKind[] = [
  {
    kind: "volcanopodgroups",
    resource: "podgroups.scheduling.volcano.sh",
    groupOf: ({ metadata }) => metadata.annotations?.["scheduling.k8s.io/group-name"],
  },
  {
    kind: "coschedulingpodgroups",
    resource: "podgroups.scheduling.x-k8s.io",
    groupOf: ({ metadata }) => metadata.labels?.["scheduling.x-k8s.io/pod-group"],
  },
];

const cache = new WeakMap<ClusterSnapshot, readonly Gang[]>();

export function allGangs(snapshot: ClusterSnapshot): readonly Gang[] {
  let gangs = cache.get(snapshot);
  if (gangs === undefined) {
    gangs = [...gangsOf(snapshot), ...groupKinds.flatMap((each) => gangsOfKind(snapshot, each))];
    cache.set(snapshot, gangs);
  }
  return gangs;
}

function gangsOfKind(snapshot: ClusterSnapshot, { kind, resource, groupOf }: GroupKind): Gang[] {
  const groups = objectsOf(snapshot, kind);
  if (groups.length === 0) return [];
  const members = new Map<string, Pod[]>();
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    const group = groupOf(pod);
    if (group === undefined) continue;
    const key = `${pod.metadata.namespace ?? ""}/${group}`;
    const there = members.get(key);
    if (there === undefined) members.set(key, [pod]);
    else there.push(pod);
  }
  return groups.map(({ metadata, spec }) => {
    const key = `${metadata.namespace ?? ""}/${metadata.name}`;
    const pods = members.get(key) ?? [];
    const min = whole(record(spec)["minMember"]) ?? 1;
    return {
      name: `${resource}/${key}`,
      members: pods,
      need: { type: "pods", name: "the gang", pods, min },
      domains: [],
    };
  });
}
