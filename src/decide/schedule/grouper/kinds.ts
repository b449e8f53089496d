import type { Pod } from "../../../model/kubernetes.generated.ts";
import { annotationKeys } from "../../../model/scheduling/keys.ts";
import type { SubGroup } from "../../../model/scheduling/podGroup.ts";
import { field, type Grouping, type GroupingInput, listAt, numberAt, objectAt, wholeNumber } from "./workload.ts";

export type Grouper = (input: GroupingInput) => Grouping;

const train = "train";
const segmentsMax = 10_000;

const one =
  (priorityClass = train): Grouper =>
  () => ({ minMember: 1, priorityClass });

/** Pods of a Spark application have a common label. */
const barePod: Grouper = ({ pod }) => {
  const labels = pod.metadata.labels ?? {};
  const selector = labels["spark-app-selector"];
  const isSpark = selector !== undefined && labels["spark-app-name"] !== undefined;
  return { minMember: 1, priorityClass: train, ...(isSpark && { name: selector }) };
};

/** Replicas scale one by one, so each has a group of its own. */
const deployment: Grouper = ({ pod }) => ({
  name: `pg-${pod.metadata.name}-${pod.metadata.uid}`,
  minMember: 1,
  priorityClass: "inference",
});

const batchJob: Grouper = ({ chain }) => {
  const job = chain.find(({ kind }) => kind === "Job") ?? chain[0];
  const wanted = wholeNumber(job?.metadata.annotations?.[annotationKeys.batchMinMember]);
  return {
    ...(job !== undefined && { name: `pg-${job.metadata.name}-${job.metadata.uid}` }),
    minMember: wanted ?? 1,
    priorityClass: train,
  };
};

interface Replicas {
  readonly role: string;
  readonly count: number;
}

function replicasOf(spec: unknown): Replicas[] {
  for (const [key, value] of Object.entries(objectAt(spec))) {
    if (!key.endsWith("ReplicaSpecs")) continue;
    return Object.keys(objectAt(value))
      .sort()
      .map((role) => ({ role, count: numberAt(value, role, "replicas") ?? 1 }));
  }
  return [];
}

function sumOf(replicas: readonly Replicas[]): number {
  return replicas.reduce((sum, { count }) => sum + count, 0);
}

function minAvailable(spec: unknown): number | undefined {
  return numberAt(spec, "runPolicy", "schedulingPolicy", "minAvailable");
}

const kubeflow: Grouper = ({ top: { spec } }) => ({
  minMember: minAvailable(spec) ?? Math.max(1, sumOf(replicasOf(spec))),
  priorityClass: train,
});

/** A launcher that is created only after the workers are ready does not count before it exists. */
const mpiJob: Grouper = ({ top: { spec, metadata }, pod, hasLauncher }) => {
  const replicas = replicasOf(spec);
  const launchers = replicas.find(({ role }) => role === "Launcher")?.count ?? 0;
  const isLate = field(spec, "launcherCreationPolicy") === "WaitForWorkersReady";
  const isThere = launchedJob(pod) !== undefined || hasLauncher(metadata.name);
  const wanted = minAvailable(spec) ?? sumOf(replicas);
  return { minMember: Math.max(1, isLate && !isThere ? wanted - launchers : wanted), priorityClass: train };
};

function roleOf(labels: Readonly<Record<string, string>> | undefined): string {
  const role = labels?.["training.kubeflow.org/replica-type"] ?? labels?.["training.kubeflow.org/job-role"] ?? "";
  return role.toLowerCase();
}

/** The job that a pod launches, if it is a launcher and not terminating. */
export function launchedJob({ metadata: { labels, deletionTimestamp } }: Pod): string | undefined {
  if (deletionTimestamp !== undefined || roleOf(labels) !== "launcher") return undefined;
  return labels?.["training.kubeflow.org/job-name"] ?? "";
}

/**
 * Master and workers are subgroups; with segments the workers are split into subgroups that are placed close together.
 */
const pyTorchJob: Grouper = ({ top, pod, maySubGroup }) => {
  const { spec, metadata } = top;
  const replicas = replicasOf(spec);
  const total = minAvailable(spec) ?? numberAt(spec, "elasticPolicy", "minReplicas") ?? Math.max(1, sumOf(replicas));
  const masters = replicas.find(({ role }) => role === "Master")?.count ?? 0;
  const workers = replicas.find(({ role }) => role === "Worker")?.count ?? 0;
  if (!maySubGroup || masters === 0 || workers === 0) return { minMember: total, priorityClass: train };
  const isMaster = roleOf(pod.metadata.labels) === "master";
  const workersMin = Math.max(0, total - masters);
  const size = wholeNumber(metadata.annotations?.[annotationKeys.segmentSize]);
  const master: SubGroup = { name: "master", minMember: masters };
  if (size === undefined || size < 1 || Math.ceil(workers / size) > segmentsMax) {
    return {
      subGroups: [master, { name: "worker", minMember: workersMin }],
      subGroup: isMaster ? "master" : "worker",
      priorityClass: train,
    };
  }
  const index = wholeNumber(pod.metadata.labels?.["training.kubeflow.org/replica-index"]) ?? 0;
  const cut = segments("worker", { workers, workersMin, size, index }, metadata.annotations ?? {});
  return {
    subGroups: [master, ...cut.subGroups],
    subGroup: isMaster ? "master" : cut.subGroup,
    priorityClass: train,
  };
};

/** Splits workers into segments that are each placed close together; segments beyond the minimum are optional. */
function segments(
  parent: string,
  { workers, workersMin, size, index }: { workers: number; workersMin: number; size: number; index: number },
  annotations: Readonly<Record<string, string>>,
): { readonly subGroups: SubGroup[]; readonly subGroup: string } {
  const required = annotations[annotationKeys.segmentTopologyRequired];
  const preferred = annotations[annotationKeys.segmentTopologyPreferred];
  const constraint = {
    topology: annotations[annotationKeys.topology] ?? "",
    ...(required !== undefined && { requiredTopologyLevel: required }),
    ...(preferred !== undefined && { preferredTopologyLevel: preferred }),
  };
  const hasConstraint = required !== undefined || preferred !== undefined;
  const count = Math.ceil(workers / size);
  const needed = Math.ceil(workersMin / size);
  const leaves = Array.from({ length: count }, (_, at): SubGroup => {
    const here = Math.min(size, workers - at * size);
    return {
      name: `${parent}-${at}`,
      parent,
      minMember: at < needed ? Math.min(here, workersMin - at * size) : 0,
      ...(hasConstraint && { topologyConstraint: constraint }),
    };
  });
  return {
    subGroups: [{ name: parent, minSubGroup: needed }, ...leaves],
    subGroup: `${parent}-${Math.min(count - 1, Math.floor(index / size))}`,
  };
}

/** A head and its groups of workers. */
const ray: Grouper = ({ top, chain, pod, maySubGroup }) => {
  const cluster = chain.find(({ kind }) => kind === "RayCluster") ?? top;
  const spec =
    cluster.kind === "RayCluster"
      ? cluster.spec
      : (field(top.spec, "rayClusterSpec") ?? field(top.spec, "rayClusterConfig"));
  const groups = listAt(spec, "workerGroupSpecs").map((each, at) => {
    const least = numberAt(each, "minReplicas") ?? 0;
    const replicas = least > 0 ? least : (numberAt(each, "replicas") ?? 0);
    const name = field(each, "groupName");
    return {
      name: (typeof name === "string" ? name : `workers-${at}`).toLowerCase(),
      minMember: replicas * (numberAt(each, "numOfHosts") ?? 1),
    };
  });
  const priorityClass = top.metadata.labels?.["ray.io/priority-class-name"] ?? train;
  const minMember = 1 + groups.reduce((sum, each) => sum + each.minMember, 0);
  if (!maySubGroup) return { minMember, priorityClass };
  const isHead = pod.metadata.labels?.["ray.io/node-type"] === "head";
  const subGroup = isHead ? "headgroup" : (pod.metadata.labels?.["ray.io/group"] ?? "").toLowerCase();
  if (subGroup !== "headgroup" && !groups.some(({ name }) => name === subGroup)) return { minMember, priorityClass };
  return { subGroups: [{ name: "headgroup", minMember: 1 }, ...groups], subGroup, priorityClass };
};

/** Every replicated job is a subgroup of its replicas, each as wide as its parallelism. */
const jobSet: Grouper = ({ top, pod, maySubGroup }) => {
  const { spec, metadata } = top;
  const jobs = listAt(spec, "replicatedJobs").map((each) => ({
    name: String(field(each, "name") ?? ""),
    replicas: numberAt(each, "replicas") ?? 1,
    parallelism:
      wholeNumber(textAt(each, "template", "metadata", "annotations", annotationKeys.batchMinMember)) ??
      numberAt(each, "template", "spec", "parallelism") ??
      1,
    topology: topologyAt(objectAt(each, "template", "metadata", "annotations")),
  }));
  const asked = wholeNumber(metadata.annotations?.[annotationKeys.batchMinMember]);
  const isInOrder = field(spec, "startupPolicy", "startupPolicyOrder") === "InOrder";
  const labels = pod.metadata.labels ?? {};
  const name = labels["jobset.sigs.k8s.io/replicatedjob-name"];
  const index = labels["jobset.sigs.k8s.io/job-index"];
  // More replicas than a PodGroup can list have one subgroup together.
  const isTooMany = jobs.reduce((sum, { replicas }) => sum + replicas, 0) > segmentsMax;
  if (!maySubGroup || isTooMany || jobs.length === 0 || name === undefined || index === undefined) {
    return {
      minMember: jobs.reduce((sum, { replicas, parallelism }) => sum + replicas * parallelism, 0) || 1,
      priorityClass: train,
    };
  }
  const subGroups = jobs.flatMap(({ name: job, replicas, parallelism, topology }): SubGroup[] => [
    { name: job, minSubGroup: replicas },
    ...Array.from({ length: replicas }, (_, at) => ({
      name: `${job}-replica-${at}`,
      parent: job,
      minMember: parallelism,
      ...(topology !== undefined && { topologyConstraint: topology }),
    })),
  ]);
  return {
    subGroups,
    minSubGroup: asked !== undefined ? Math.min(asked, jobs.length) : isInOrder ? 1 : jobs.length,
    subGroup: `${name}-replica-${index}`,
    priorityClass: train,
  };
};

/** Each group of a leader and its workers has a PodGroup of its own. */
const leaderWorkerSet: Grouper = ({ top, pod, maySubGroup }) => {
  const labels = pod.metadata.labels ?? {};
  const index = labels["leaderworkerset.sigs.k8s.io/group-index"] ?? "0";
  const size = numberAt(top.spec, "leaderWorkerTemplate", "size") ?? 1;
  const name = `pg-${top.metadata.name}-${top.metadata.uid}-group-${index}`;
  const isLeader = (labels["leaderworkerset.sigs.k8s.io/worker-index"] ?? "0") === "0";
  const isLeaderFirst = field(top.spec, "startupPolicy") === "LeaderReady";
  // Workers are not created before their leader is ready, so the leader must not wait for them.
  if (isLeaderFirst && isLeader && (pod.spec?.nodeName ?? "") === "")
    return { name, minMember: 1, priorityClass: train };
  if (!maySubGroup || size < 2) return { name, minMember: size, priorityClass: train };
  const segment = wholeNumber(top.metadata.annotations?.[annotationKeys.segmentSize]);
  if (segment !== undefined && segment >= 1) {
    const workers = size - 1;
    const index = Math.max(0, (wholeNumber(labels["leaderworkerset.sigs.k8s.io/worker-index"]) ?? 1) - 1);
    const cut = segments(
      "workers",
      { workers, workersMin: workers, size: segment, index },
      top.metadata.annotations ?? {},
    );
    return {
      name,
      subGroups: [{ name: "leader", minMember: 1 }, ...cut.subGroups],
      subGroup: isLeader ? "leader" : cut.subGroup,
      priorityClass: train,
    };
  }
  return {
    name,
    subGroups: [
      { name: "leader", minMember: 1 },
      { name: "workers", minMember: size - 1 },
    ],
    subGroup: isLeader ? "leader" : "workers",
    priorityClass: train,
  };
};

const amlJob: Grouper = ({ pod }) => {
  const env = pod.spec?.containers.flatMap((container) => container.env ?? []);
  const nodes = wholeNumber(env?.find(({ name }) => name === "AZUREML_NODE_COUNT")?.value);
  return { minMember: nodes ?? 1, priorityClass: train };
};

const knative: Grouper = ({ pod, chain, gangScheduleKnative }) => {
  if (!gangScheduleKnative) {
    return { name: `pg-${pod.metadata.name}-${pod.metadata.uid}`, minMember: 1, priorityClass: "inference" };
  }
  const revision = chain.find(({ kind }) => kind === "Revision");
  const min = wholeNumber(pod.metadata.annotations?.["autoscaling.knative.dev/min-scale"]);
  return {
    ...(revision !== undefined && { name: `pg-${revision.metadata.name}-${revision.metadata.uid}` }),
    minMember: Math.max(1, min ?? 1),
    priorityClass: "inference",
  };
};

function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = field(value, ...path);
  return typeof found === "string" ? found : undefined;
}

function topologyAt(annotations: Readonly<Record<string, unknown>>): SubGroup["topologyConstraint"] | undefined {
  const topology = textAt(annotations, annotationKeys.topology);
  const required = textAt(annotations, annotationKeys.topologyRequired);
  const preferred = textAt(annotations, annotationKeys.topologyPreferred);
  if (topology === undefined || (required === undefined && preferred === undefined)) return undefined;
  return {
    topology,
    ...(required !== undefined && { requiredTopologyLevel: required }),
    ...(preferred !== undefined && { preferredTopologyLevel: preferred }),
  };
}

/** By group and kind of the top owner. */
export const groupers: Readonly<Record<string, Grouper>> = {
  "/Pod": barePod,
  "apps/Deployment": deployment,
  "apps/ReplicaSet": one(),
  "apps/StatefulSet": one(),
  "batch/Job": batchJob,
  "batch/CronJob": batchJob,
  "kubeflow.org/TFJob": kubeflow,
  "kubeflow.org/XGBoostJob": kubeflow,
  "kubeflow.org/JAXJob": kubeflow,
  "kubeflow.org/PyTorchJob": pyTorchJob,
  "kubeflow.org/MPIJob": mpiJob,
  "kubeflow.org/Notebook": one("build"),
  "ray.io/RayCluster": ray,
  "ray.io/RayJob": ray,
  "ray.io/RayService": ray,
  "jobset.x-k8s.io/JobSet": jobSet,
  "leaderworkerset.x-k8s.io/LeaderWorkerSet": leaderWorkerSet,
  "serving.knative.dev/Service": knative,
  "amlarc.azureml.com/AmlJob": amlJob,
  "egx.nvidia.io/SPOTRequest": one("inference"),
};

/** Owners that are skipped: the owner below them determines the group. */
export const passedOver: ReadonlySet<string> = new Set([
  "trainer.kubeflow.org/TrainJob",
  "argoproj.io/Workflow",
  "nvidia.com/DynamoGraphDeployment",
]);

export const defaultGrouper: Grouper = one();
