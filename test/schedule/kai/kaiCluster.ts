import type { ClusterObjects } from "../../../src/decide/schedule/model/clusterOf.ts";
import type {
  Node,
  Pod,
  PriorityClass,
  ResourceClaim,
  ResourceSlice,
} from "../../../src/model/kubernetes.generated.ts";
import type { BindRequest } from "../../../src/model/scheduling/bindRequest.ts";
import type { PodGroup, SubGroup, TopologyConstraint } from "../../../src/model/scheduling/podGroup.ts";
import type { Queue } from "../../../src/model/scheduling/queue.ts";
import type { KaiCase, KaiGroup, KaiJob, KaiNode, KaiStatus, KaiTask, KaiTopologyConstraint } from "./kaiCase.ts";

/** The cluster of one of KAI's cases as a cluster's API would have it, at one moment between its cycles. */

export interface TaskState {
  readonly status: KaiStatus;
  readonly node: string;
  readonly groups: readonly string[];
}

export interface KaiState {
  readonly states: Map<string, TaskState>;
  claims: ResourceClaim[];
  /** Since when a controller has noted that a gang is below its minimum. */
  readonly stale: Map<string, number>;
}

export const nowMs = Date.UTC(2026, 0, 1, 12);

const activeStatuses = new Set<KaiStatus>(["Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing"]);

export function isActive({ status }: TaskState): boolean {
  return activeStatuses.has(status);
}

export function uidOf({ Pod: pod }: KaiTask): string {
  return pod.metadata.uid;
}

export function stateOf({ states }: KaiState, task: KaiTask): TaskState {
  return states.get(uidOf(task)) as TaskState;
}

/** The state in which a case begins. */
export function initialState(kaiCase: KaiCase): KaiState {
  const states = new Map<string, TaskState>();
  for (const { Tasks: tasks } of kaiCase.input.Jobs) {
    for (const task of tasks) {
      states.set(uidOf(task), {
        status: task.Status,
        node: task.Pod.spec?.nodeName ?? "",
        groups: [...(task.GPUGroups ?? [])].sort(),
      });
    }
  }
  mergeGroups(kaiCase, states);
  return { states, claims: kaiCase.input.ResourceClaims.map((claim) => claimOf(kaiCase, claim)), stale: new Map() };
}

/**
 * Where a case names no groups, KAI's tests make one up for each pod, which can be more GPUs than the node has. Then
 * pods share, first fit.
 */
function mergeGroups({ input }: KaiCase, states: Map<string, TaskState>): void {
  for (const { Node: node, GPUs: gpus } of input.Nodes) {
    const shares: { uid: string; group: string | undefined; share: number }[] = [];
    const groups = new Set<string>();
    let whole = 0;
    for (const task of input.Jobs.flatMap(({ Tasks: tasks }) => tasks)) {
      const uid = uidOf(task);
      const state = states.get(uid) as TaskState;
      if (state.node !== node.metadata.name || !isActive(state)) continue;
      const share = Number(task.Pod.metadata.annotations?.["gpu-fraction"] || 0);
      if (share > 0) {
        for (const group of state.groups) groups.add(group);
        shares.push({ uid, group: state.groups.length === 1 ? state.groups[0] : undefined, share });
      } else whole += Number(task.Pod.spec?.containers[0]?.resources?.requests?.["nvidia.com/gpu"] ?? 0);
    }
    if (whole + groups.size <= gpus) continue;
    const left = new Map<string, number>();
    for (const { uid, group, share } of shares) {
      if (group === undefined || !/^[0-9a-f]{8}-/.test(group)) continue;
      const joined = [...left].find(([, room]) => room >= share - 1e-9)?.[0] ?? group;
      left.set(joined, (left.get(joined) ?? 1) - share);
      states.set(uid, { ...(states.get(uid) as TaskState), groups: [joined] });
    }
  }
}

function claimOf({ input }: KaiCase, source: ResourceClaim): ResourceClaim {
  const claim = structuredClone(source);
  const namespace = source.metadata.namespace || "default";
  const metadata: ResourceClaim["metadata"] = {
    ...claim.metadata,
    namespace,
    uid: `claim-${namespace}-${source.metadata.name}`,
  };
  // The tests have the name of the claim where the API has the name of a request.
  for (const each of claim.status?.allocation?.devices?.results ?? []) {
    each.request = claim.spec.devices?.requests?.[0]?.name ?? "";
  }
  for (const task of input.Jobs.flatMap(({ Tasks: tasks }) => tasks)) {
    if (!Object.values(task.ClaimTemplates ?? {}).includes(source.metadata.name)) continue;
    const { name, uid } = task.Pod.metadata;
    metadata.ownerReferences = [{ apiVersion: "v1", kind: "Pod", name, uid, controller: true }];
  }
  return { ...claim, apiVersion: "resource.k8s.io/v1", metadata };
}

/** All objects of the cluster. */
export function objectsOf(kaiCase: KaiCase, state: KaiState): ClusterObjects {
  const { input } = kaiCase;
  const pods: Pod[] = [];
  const groups: PodGroup[] = [];
  const requests: BindRequest[] = [];
  for (const job of input.Jobs) {
    const isFlat = hasOnePodSet(job);
    groups.push(groupOf(job, state));
    for (const task of job.Tasks) {
      pods.push(podOf(task, job, isFlat, stateOf(state, task)));
      const request = requestOf(task, job, stateOf(state, task));
      if (request !== undefined) requests.push(request);
    }
  }
  const priorities = new Set(input.Jobs.map(({ Priority: priority }) => priority));
  const hasDevices = input.DeviceClasses.length + input.ResourceClaims.length + input.ResourceSlices.length > 0;
  return {
    pods,
    nodes: input.Nodes.map(nodeOf),
    queues: input.Queues.map(queueOf),
    groups,
    requests,
    topologies: input.Topologies.map((each) => ({ ...each, metadata: withUid(each.metadata, "topology") })),
    priorityClasses: [...priorities].map(priorityClassOf),
    volumeClaims: [],
    volumes: [],
    classes: [],
    namespaces: [...new Set(pods.map(({ metadata }) => metadata.namespace ?? ""))].map((name) => ({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: {
        name,
        uid: `namespace-${name}`,
        resourceVersion: "1",
        creationTimestamp: isoTime(nowMs),
        labels: { "kubernetes.io/metadata.name": name },
      },
    })),
    ...(hasDevices && {
      devices: {
        claims: state.claims,
        slices: input.ResourceSlices.map((slice, at) => sliceOf(kaiCase, slice, at)),
        classes: input.DeviceClasses.map((each) => ({ ...each, metadata: withUid(each.metadata, "class") })),
      },
    }),
  };
}

function isoTime(ms: number): string {
  return new Date(Math.floor(ms / 1000) * 1000).toISOString().replace(".000Z", "Z");
}

function withUid<M extends { readonly name: string }>(metadata: M, kind: string): M {
  return { ...metadata, uid: `${kind}-${metadata.name}`, resourceVersion: "1" };
}

function nodeOf({ Node: node, GpuMemorySynced: knowsMemory, MaxTaskNum: podsMax }: KaiNode): Node {
  const { name } = node.metadata;
  const labels: Record<string, string> = { "kubernetes.io/hostname": name };
  for (const [key, text] of Object.entries(node.metadata.labels ?? {})) {
    if (text !== "" && (knowsMemory || key !== "nvidia.com/gpu.memory")) labels[key] = text;
  }
  const pods = String(podsMax === 500 ? 110 : podsMax);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      uid: `node-${name}`,
      resourceVersion: "1",
      creationTimestamp: isoTime(nowMs - 1_000_000),
      labels,
    },
    spec: {},
    status: {
      capacity: { ...node.status?.capacity, pods },
      allocatable: { ...node.status?.allocatable, pods },
      conditions: [{ type: "Ready", status: "True" }],
    },
  };
}

function queueOf(queue: Queue): Queue {
  const resources = structuredClone(queue.spec?.resources ?? {}) as Record<
    string,
    { quota?: number; limit?: number; overQuotaWeight?: number }
  >;
  for (const each of Object.values(resources)) {
    // The tests' default department has a weight of -1, which admission would refuse.
    each.overQuotaWeight = (each.overQuotaWeight ?? 0) < 0 ? 1 : (each.overQuotaWeight ?? 0);
    each.quota ??= 0;
    each.limit ??= 0;
  }
  return {
    ...queue,
    apiVersion: "scheduling.run.ai/v2",
    kind: "Queue",
    metadata: { ...queue.metadata, resourceVersion: "1" },
    spec: { ...queue.spec, resources },
  };
}

function priorityClassOf(value: number): PriorityClass {
  const name = `p${value}`;
  return {
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name, uid: name, resourceVersion: "1", creationTimestamp: isoTime(nowMs) },
    value,
  };
}

/** The tests fill all three ways of naming nodes, and count slices over all pools. */
function sliceOf({ input }: KaiCase, slice: ResourceSlice, at: number): ResourceSlice {
  const { allNodes, nodeName, ...spec } = structuredClone(slice.spec);
  const { name } = spec.pool;
  const resourceSliceCount = input.ResourceSlices.filter((each) => each.spec.pool.name === name).length;
  return {
    ...slice,
    metadata: withUid(slice.metadata, "slice"),
    spec: {
      ...spec,
      ...(allNodes === true && { allNodes }),
      ...(nodeName !== undefined && nodeName !== "" && { nodeName }),
      pool: { name: name || `pool-${at}`, generation: 1, resourceSliceCount },
    },
  };
}

function hasOnePodSet({ Root: root }: KaiJob): boolean {
  const [first, ...others] = root.PodSets ?? [];
  if ((root.Groups ?? []).length > 0 || first === undefined || others.length > 0) return false;
  return first.Name === "default" && (first.Topology === null || root.Topology === null);
}

function constraintOf(constraint: KaiTopologyConstraint | null): { topologyConstraint?: TopologyConstraint } {
  if (constraint === null) return {};
  const { Topology: topology, RequiredLevel: required, PreferredLevel: preferred } = constraint;
  return {
    topologyConstraint: {
      topology,
      ...(required && { requiredTopologyLevel: required }),
      ...(preferred && { preferredTopologyLevel: preferred }),
    },
  };
}

function subGroupsOf({ PodSets: podSets, Groups: groups }: KaiGroup, parent: string | undefined): SubGroup[] {
  const below = parent === undefined ? {} : { parent };
  return [
    ...(podSets ?? []).map((set) => ({
      name: set.Name,
      ...below,
      minMember: set.MinAvailable,
      ...constraintOf(set.Topology),
    })),
    ...(groups ?? []).flatMap((group) => [
      { name: group.Name, ...below, ...constraintOf(group.Topology) },
      ...subGroupsOf(group, group.Name),
    ]),
  ];
}

function groupOf(job: KaiJob, state: KaiState): PodGroup {
  const { Root: root, Name: name } = job;
  const isFlat = hasOnePodSet(job);
  const [only] = root.PodSets ?? [];
  const staleMs = state.stale.get(name) ?? (job.StaleSeconds === null ? undefined : nowMs - job.StaleSeconds * 1000);
  const isPlaced = job.Tasks.some((task) =>
    ["Allocated", "Bound", "Binding", "Running"].includes(stateOf(state, task).status),
  );
  return {
    apiVersion: "scheduling.run.ai/v2alpha2",
    kind: "PodGroup",
    metadata: {
      name,
      namespace: job.Namespace || "default",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: isoTime(nowMs - job.AgeSeconds * 1000),
      annotations: {
        ...(staleMs !== undefined && { "kai.scheduler/stale-podgroup-timestamp": isoTime(staleMs) }),
        ...(isPlaced && { "kai.scheduler/last-start-timestamp": isoTime(nowMs - 60_000) }),
      },
    },
    spec: {
      queue: job.Queue,
      priorityClassName: `p${job.Priority}`,
      preemptibility: job.Preemptibility,
      ...(isFlat ? { minMember: only?.MinAvailable ?? 1 } : { subGroups: subGroupsOf(root, undefined) }),
      ...constraintOf(root.Topology ?? (isFlat ? (only?.Topology ?? null) : null)),
    },
  };
}

function podOf(task: KaiTask, job: KaiJob, isFlat: boolean, state: TaskState): Pod {
  const { metadata, status } = task.Pod;
  const annotations: Record<string, string> = { "pod-group-name": job.Name };
  for (const [key, text] of Object.entries(metadata.annotations ?? {})) {
    const isEmpty = text === "" || (key === "gpu-memory" && text === "0");
    if (isEmpty || key === "received-resource-type" || key.startsWith("nvidia.com/mig")) continue;
    annotations[key] = text;
  }
  if (job.Multi !== null) annotations["gpu-fraction-num-devices"] = String(job.Multi);
  annotations["pod-group-name"] = job.Name;
  const labels: Record<string, string> = {};
  for (const [key, text] of Object.entries(metadata.labels ?? {})) {
    if (!key.startsWith("runai-gpu-group")) labels[key] = text;
  }
  // The tests give groups to pods with whole GPUs too; in a cluster only shares have them.
  const isShare = annotations["gpu-fraction"] !== undefined || annotations["gpu-memory"] !== undefined;
  const hasEnded = state.status === "Failed" || state.status === "Succeeded";
  if (isShare && (isActive(state) || hasEnded)) {
    const [first, ...others] = state.groups;
    if (first !== undefined && others.length === 0) labels["runai-gpu-group"] = first;
    else for (const group of state.groups) labels[`runai-gpu-group/${group}`] = group;
  }
  if (!isFlat) labels["kai.scheduler/subgroup-name"] = task.SubGroup || "default";
  const isBound = hasEnded || ["Running", "Bound", "Releasing"].includes(state.status);
  const isRunning = state.status === "Running" || state.status === "Releasing";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: metadata.name,
      namespace: job.Namespace || "default",
      uid: metadata.uid,
      resourceVersion: "1",
      creationTimestamp: isoTime(nowMs - job.AgeSeconds * 1000),
      labels,
      annotations,
      ...(state.status === "Releasing" && { deletionTimestamp: isoTime(nowMs) }),
    },
    spec: {
      ...specOf(task),
      ...(state.status === "Gated" && { schedulingGates: [{ name: "test" }] }),
      ...(isBound && state.node !== "" && { nodeName: state.node }),
    },
    status: { ...status, phase: hasEnded ? state.status : isRunning ? "Running" : "Pending" },
  };
}

function specOf({ Pod: pod }: KaiTask): NonNullable<Pod["spec"]> {
  const { nodeName: _, ...spec } = structuredClone(pod.spec ?? { containers: [] });
  for (const container of spec.containers) {
    // A slot on the node is no request that a pod can make.
    delete container.resources?.requests?.["pods"];
    container.name ||= "main";
  }
  return spec;
}

function requestOf(task: KaiTask, job: KaiJob, { status, node, groups }: TaskState): BindRequest | undefined {
  if (!["Allocated", "Binding", "Pipelined"].includes(status) || node === "") return undefined;
  const uid = uidOf(task);
  return {
    apiVersion: "scheduling.run.ai/v1alpha2",
    kind: "BindRequest",
    metadata: {
      name: uid,
      namespace: job.Namespace || "default",
      uid: `request-${uid}`,
      resourceVersion: "1",
      creationTimestamp: isoTime(nowMs),
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: uid, uid }],
    },
    spec: { podName: uid, selectedNode: node, selectedGPUGroups: [...groups] },
  };
}
