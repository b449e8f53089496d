/** The pods and PodGroups that the API would have after a manifest was applied. */
import type { Container, Pod, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { podFromTemplate } from "../../../model/objects/ownership.ts";
import { firstRevision } from "../../../model/revision.ts";
import { annotationKeys, kaiSchedulerName, labelKeys } from "../../../model/scheduling/keys.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { formatTime } from "../../../model/values/time.ts";
import { noKindPriorities } from "../grouper/grouperSettings.ts";
import { groupPod, newGroup } from "../grouper/groupPod.ts";
import type { Workload } from "../grouper/workload.ts";
import type { ClusterObjects } from "../model/clusterOf.ts";

/** An object of a manifest. */
export interface NewWorkload {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown };
  readonly spec?: object;
}

type Templated = NewWorkload & {
  readonly spec?: {
    readonly replicas?: number;
    readonly parallelism?: number;
    readonly completions?: number;
    readonly template?: PodTemplateSpec;
  };
};

const replicasOf = ({ spec }: Templated): number => spec?.replicas ?? 1;

/** The number of pods that controllers create for a workload at first, by kind. */
const podCounts: Readonly<Record<string, (workload: Templated) => number>> = {
  Deployment: replicasOf,
  Job: ({ spec }) => Math.min(spec?.parallelism ?? 1, spec?.completions ?? Number.POSITIVE_INFINITY),
  ReplicaSet: replicasOf,
  ReplicationController: replicasOf,
  StatefulSet: replicasOf,
};

export const workloadKinds: readonly string[] = ["Pod", "PodGroup", ...Object.keys(podCounts)].sort();

/** Why a manifest cannot be projected, or undefined. */
export function whyUnsupported(workload: NewWorkload): string | undefined {
  const { kind } = workload;
  if (!workloadKinds.includes(kind)) return `it is a ${kind}, and the supported kinds are ${workloadKinds.join(", ")}`;
  const spec = kind === "Pod" ? (workload.spec as Pod["spec"]) : (workload as Templated).spec?.template?.spec;
  const claim = spec?.resourceClaims?.find(({ resourceClaimTemplateName }) => resourceClaimTemplateName !== undefined);
  if (claim === undefined) return undefined;
  return `its resource claim ${claim.name} is created from a ResourceClaimTemplate`;
}

/** The objects with the pods of new workloads, pending, and their PodGroups. */
export function withWorkloads(
  objects: ClusterObjects,
  workloads: readonly NewWorkload[],
  nowMs: number,
): ClusterObjects {
  const groups = [...objects.groups];
  const pods = [...objects.pods];
  const created = (object: object, uid: string): KubeObject => {
    const { metadata, ...rest } = object as NewWorkload;
    const names = { namespace: "default", ...metadata };
    return {
      ...rest,
      metadata: { ...names, uid, resourceVersion: firstRevision, creationTimestamp: formatTime(nowMs) },
    };
  };
  for (const [at, workload] of workloads.entries()) {
    const uid = `new-${at}-${workload.metadata.name}`;
    const object = created(workload, uid);
    if (workload.kind === "PodGroup") {
      groups.push(object as PodGroup);
      continue;
    }
    const { chain, templates } = expand(object, uid);
    for (const [number, template] of templates.entries()) {
      const pod = withDefaults(created(template, `${uid}-${number}`) as Pod, objects);
      if (pod.spec?.schedulerName !== kaiSchedulerName) {
        pods.push(pod);
        continue;
      }
      const wanted = groupPod(pod, chain, {
        hasPriorityClass: (name) => objects.priorityClasses.some(({ metadata }) => metadata.name === name),
        existing: (name) => groups.find((each) => each.metadata.name === name),
        kindPriorities: noKindPriorities,
        gangScheduleKnative: false,
        hasLauncher: () => false,
      });
      if ("skip" in wanted) {
        pods.push(pod);
        continue;
      }
      if (!groups.some(({ metadata }) => metadata.name === wanted.name && metadata.namespace === wanted.namespace)) {
        groups.push(created(newGroup(wanted), `${uid}-group`) as PodGroup);
      }
      const labels = {
        ...pod.metadata.labels,
        ...(wanted.subGroup !== undefined && { [labelKeys.subGroup]: wanted.subGroup }),
      };
      const annotations = { ...pod.metadata.annotations, [annotationKeys.podGroup]: wanted.name };
      pods.push({ ...pod, metadata: { ...pod.metadata, labels, annotations } });
    }
  }
  return { ...objects, groups, pods };
}

/** The owners of the pods, from their own to the top one, and the pods to create. */
function expand(
  object: KubeObject,
  uid: string,
): { readonly chain: readonly Workload[]; readonly templates: readonly object[] } {
  if (object.kind === "Pod") return { chain: [], templates: [{ ...object, status: { phase: "Pending" } }] };
  const top = object as Workload & KubeObject;
  const metadata = { ...object.metadata, name: `${object.metadata.name}-0`, uid: `${uid}-0` };
  const set = { ...top, apiVersion: "apps/v1", kind: "ReplicaSet", metadata };
  const chain = object.kind === "Deployment" ? [set, top] : [top];
  const owner = chain[0] as KubeObject;
  const templated: Templated = { ...top, spec: top.spec as NonNullable<Templated["spec"]> };
  const count = podCounts[object.kind]?.(templated) ?? 0;
  const templates = Array.from({ length: count }, (_, number) => ({
    ...podFromTemplate(owner, templated.spec?.template, `${owner.metadata.name}-${number}`),
    status: { phase: "Pending" },
  }));
  return { chain, templates };
}

/** As the API server does: the priority of a class, and requests that are not given are the limits. */
function withDefaults(pod: Pod, { priorityClasses }: ClusterObjects): Pod {
  const { spec } = pod;
  if (spec === undefined) return pod;
  const named = priorityClasses.find(({ metadata }) => metadata.name === spec.priorityClassName);
  const priority = spec.priority ?? named?.value;
  const withRequests = <C extends Container>(container: C): C => {
    const { resources } = container;
    return { ...container, resources: { ...resources, requests: { ...resources?.limits, ...resources?.requests } } };
  };
  const { initContainers } = spec;
  return {
    ...pod,
    spec: {
      ...spec,
      ...(priority !== undefined && { priority }),
      containers: spec.containers.map(withRequests),
      ...(initContainers && { initContainers: initContainers.map(withRequests) }),
    },
  };
}
