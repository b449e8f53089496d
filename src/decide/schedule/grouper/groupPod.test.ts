import { describe, expect, test } from "vitest";
import { pod } from "../../../../testing/decide/scheduleCluster.ts";
import { partly } from "../../../../testing/partly.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { hasLabels, noKindPriorities, readGrouperSettings, readKindPriorities } from "./grouperSettings.ts";
import { type GroupFacts, groupChanges, groupPod, newGroup, type WantedGroup } from "./groupPod.ts";
import { launchedJob } from "./kinds.ts";
import type { Workload } from "./workload.ts";

const facts: GroupFacts = {
  hasPriorityClass: (name) => ["train", "build", "inference", "urgent"].includes(name),
  existing: () => undefined,
  kindPriorities: noKindPriorities,
  gangScheduleKnative: true,
  hasLauncher: () => false,
};

function owner(
  apiVersion: string,
  kind: string,
  more: { name?: string; spec?: unknown; labels?: Record<string, string>; annotations?: Record<string, string> } = {},
): Workload {
  const { name = "w", spec, labels, annotations } = more;
  return {
    apiVersion,
    kind,
    metadata: { name, uid: `uid-${name}`, ...(labels && { labels }), ...(annotations && { annotations }) },
    spec,
  };
}

function wanted(chain: Workload[], member: Pod = pod("p"), more: Partial<GroupFacts> = {}): WantedGroup {
  const group = groupPod(member, chain, { ...facts, ...more });
  if ("skip" in group) throw new Error(group.skip);
  return group;
}

const replicas = (key: string, roles: Record<string, number>, more: object = {}) => ({
  [key]: Object.fromEntries(Object.entries(roles).map(([role, count]) => [role, { replicas: count }])),
  ...more,
});

describe("by kind of workload", () => {
  test("a bare pod has a group of its own", () => {
    expect(wanted([])).toMatchObject({
      name: "pg-p-pod-default-p",
      spec: { minMember: 1, priorityClassName: "train", queue: "default-queue" },
    });
  });

  test("pods of a Spark application share one", () => {
    const labels = { "spark-app-name": "etl", "spark-app-selector": "spark-42" };
    expect(wanted([], pod("driver", { labels })).name).toBe("spark-42");
  });

  test("every replica of a Deployment has its own, for inference", () => {
    const chain = [owner("apps/v1", "ReplicaSet", { name: "rs" }), owner("apps/v1", "Deployment")];
    expect(wanted(chain)).toMatchObject({
      name: "pg-p-pod-default-p",
      owner: { kind: "Deployment" },
      spec: { minMember: 1, priorityClassName: "inference" },
    });
  });

  test.each(["ReplicaSet", "StatefulSet"])("a %s has one, without a gang", (kind) => {
    expect(wanted([owner("apps/v1", kind)])).toMatchObject({
      name: "pg-w-uid-w",
      spec: { minMember: 1, priorityClassName: "train" },
    });
  });

  test("a Job's minimum can be said", () => {
    expect(wanted([owner("batch/v1", "Job")]).spec.minMember).toBe(1);
    expect(
      wanted([owner("batch/v1", "Job", { annotations: { "kai.scheduler/batch-min-member": "4" } })]).spec.minMember,
    ).toBe(4);
  });

  test("every Job of a CronJob has its own group", () => {
    expect(wanted([owner("batch/v1", "Job", { name: "run1" }), owner("batch/v1", "CronJob")]).name).toBe(
      "pg-run1-uid-run1",
    );
  });

  test.each([
    ["TFJob", "tfReplicaSpecs"],
    ["XGBoostJob", "xgbReplicaSpecs"],
    ["JAXJob", "jaxReplicaSpecs"],
  ])("a %s waits for all its replicas, or for as many as it says", (kind, key) => {
    expect(wanted([owner("kubeflow.org/v1", kind, { spec: replicas(key, { PS: 1, Worker: 3 }) })]).spec.minMember).toBe(
      4,
    );
    const policy = { runPolicy: { schedulingPolicy: { minAvailable: 2 } } };
    expect(
      wanted([owner("kubeflow.org/v1", kind, { spec: replicas(key, { PS: 1, Worker: 3 }, policy) })]).spec.minMember,
    ).toBe(2);
  });

  test("a PyTorchJob has master and workers as subgroups", () => {
    const job = owner("kubeflow.org/v1", "PyTorchJob", {
      spec: replicas("pytorchReplicaSpecs", { Master: 1, Worker: 3 }),
    });
    const worker = pod("p", { labels: { "training.kubeflow.org/replica-type": "worker" } });
    expect(wanted([job], worker)).toMatchObject({
      subGroup: "worker",
      spec: {
        subGroups: [
          { name: "master", minMember: 1 },
          { name: "worker", minMember: 3 },
        ],
      },
    });
    const elastic = owner("kubeflow.org/v1", "PyTorchJob", {
      spec: replicas("pytorchReplicaSpecs", { Master: 1, Worker: 3 }, { elasticPolicy: { minReplicas: 2 } }),
    });
    expect(wanted([elastic], worker).spec.subGroups?.[1]?.minMember).toBe(1);
    const both = { elasticPolicy: { minReplicas: 2 }, runPolicy: { schedulingPolicy: { minAvailable: 3 } } };
    const said = owner("kubeflow.org/v1", "PyTorchJob", {
      spec: replicas("pytorchReplicaSpecs", { Master: 1, Worker: 3 }, both),
    });
    expect(wanted([said], worker).spec.subGroups?.[1]?.minMember).toBe(2);
  });

  test("segments of a PyTorchJob are subgroups of the workers, those beyond the minimum optional", () => {
    const job = owner("kubeflow.org/v1", "PyTorchJob", {
      annotations: {
        "kai.scheduler/segment-size": "2",
        "kai.scheduler/topology": "t",
        "kai.scheduler/segment-topology-required-placement": "rack",
      },
      spec: replicas(
        "pytorchReplicaSpecs",
        { Master: 1, Worker: 6 },
        { runPolicy: { schedulingPolicy: { minAvailable: 5 } } },
      ),
    });
    const worker = pod("p", {
      labels: { "training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "3" },
    });
    const { spec, subGroup } = wanted([job], worker);
    expect(subGroup).toBe("worker-1");
    expect(spec.subGroups?.map(({ name, minMember, minSubGroup }) => [name, minMember ?? `of ${minSubGroup}`])).toEqual(
      [
        ["master", 1],
        ["worker", "of 2"],
        ["worker-0", 2],
        ["worker-1", 2],
        ["worker-2", 0],
      ],
    );
    expect(spec.subGroups?.[2]?.topologyConstraint).toEqual({ topology: "t", requiredTopologyLevel: "rack" });
  });

  describe.each(["kubeflow.org/v1", "kubeflow.org/v2beta1"])("an MPIJob of %s", (version) => {
    const job = (policy: object) =>
      owner(version, "MPIJob", { spec: replicas("mpiReplicaSpecs", { Launcher: 1, Worker: 4 }, policy) });
    const late = job({ launcherCreationPolicy: "WaitForWorkersReady" });
    const launcher = (more: object = {}) =>
      pod("l", {
        labels: { "training.kubeflow.org/job-name": "w", "training.kubeflow.org/job-role": "launcher" },
        ...more,
      });

    test("waits for all its replicas, or for as many as it says, without subgroups", () => {
      expect(wanted([job({})]).spec).toMatchObject({ minMember: 5, priorityClassName: "train" });
      const said = { runPolicy: { schedulingPolicy: { minAvailable: 3 } } };
      expect(wanted([job(said)]).spec.minMember).toBe(3);
      expect(wanted([job({})]).spec.subGroups).toBeUndefined();
    });

    test("does not wait for a launcher that comes after its workers", () => {
      expect(wanted([late]).spec.minMember).toBe(4);
      const said = {
        launcherCreationPolicy: "WaitForWorkersReady",
        runPolicy: { schedulingPolicy: { minAvailable: 3 } },
      };
      expect(wanted([job(said)]).spec.minMember).toBe(2);
    });

    test("counts its launcher once that is there, whichever pod is looked at", () => {
      expect(wanted([late], launcher()).spec.minMember).toBe(5);
      const worker = pod("p", { labels: { "training.kubeflow.org/job-role": "worker" } });
      expect(wanted([late], worker, { hasLauncher: (name) => name === "w" }).spec.minMember).toBe(5);
      expect(wanted([late], worker, { hasLauncher: (name) => name !== "w" }).spec.minMember).toBe(4);
    });

    test("has no launcher in one that is about to go", () => {
      expect(launchedJob(launcher())).toBe("w");
      expect(launchedJob(launcher({ deletedMs: 1 }))).toBeUndefined();
      expect(launchedJob(pod("p", { labels: { "training.kubeflow.org/job-role": "worker" } }))).toBeUndefined();
    });
  });

  test("a Ray cluster is a head and groups of workers", () => {
    const spec = {
      workerGroupSpecs: [
        { groupName: "small", minReplicas: 2, replicas: 5 },
        { groupName: "wide", replicas: 1, numOfHosts: 4 },
      ],
    };
    const cluster = owner("ray.io/v1", "RayCluster", { spec, labels: { "ray.io/priority-class-name": "urgent" } });
    expect(wanted([cluster], pod("h", { labels: { "ray.io/node-type": "head" } }))).toMatchObject({
      subGroup: "headgroup",
      spec: {
        priorityClassName: "urgent",
        subGroups: [
          { name: "headgroup", minMember: 1 },
          { name: "small", minMember: 2 },
          { name: "wide", minMember: 4 },
        ],
      },
    });
    expect(
      wanted([cluster, owner("ray.io/v1", "RayJob", { name: "j" })], pod("w", { labels: { "ray.io/group": "small" } })),
    ).toMatchObject({ name: "pg-j-uid-j", subGroup: "small" });
  });

  test("a JobSet with more replicas than can be listed is one group", () => {
    const spec = { replicatedJobs: [{ name: "workers", replicas: 2_147_483_647 }] };
    const labels = { "jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/job-index": "1" };
    const chain = [owner("batch/v1", "Job", { name: "j" }), owner("jobset.x-k8s.io/v1alpha2", "JobSet", { spec })];
    const group = wanted(chain, pod("p", { labels }));
    expect(group.spec).toMatchObject({ minMember: 2_147_483_647 });
    expect(group.spec.subGroups ?? []).toEqual([]);
  });

  test("a JobSet is a tree of replicated jobs", () => {
    const spec = {
      replicatedJobs: [
        { name: "driver", replicas: 1 },
        { name: "workers", replicas: 2, template: { spec: { parallelism: 4 } } },
      ],
    };
    const labels = { "jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/job-index": "1" };
    const set = (more: object = {}, annotations = {}) =>
      wanted(
        [
          owner("batch/v1", "Job", { name: "j" }),
          owner("jobset.x-k8s.io/v1alpha2", "JobSet", { spec: { ...spec, ...more }, annotations }),
        ],
        pod("p", { labels }),
      );
    expect(set()).toMatchObject({ subGroup: "workers-replica-1", spec: { minSubGroup: 2 } });
    expect(set().spec.subGroups).toMatchObject([
      { name: "driver", minSubGroup: 1 },
      { name: "driver-replica-0", parent: "driver", minMember: 1 },
      { name: "workers", minSubGroup: 2 },
      { name: "workers-replica-0", minMember: 4 },
      { name: "workers-replica-1", minMember: 4 },
    ]);
    expect(set({ startupPolicy: { startupPolicyOrder: "InOrder" } }).spec.minSubGroup).toBe(1);
    expect(set({}, { "kai.scheduler/batch-min-member": "9" }).spec.minSubGroup).toBe(2);
  });

  test("each group of a LeaderWorkerSet stands alone, and waits for its workers only when they can exist", () => {
    const lws = (more: object = {}) =>
      owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", { spec: { leaderWorkerTemplate: { size: 4 }, ...more } });
    const labels = { "leaderworkerset.sigs.k8s.io/group-index": "2", "leaderworkerset.sigs.k8s.io/worker-index": "0" };
    expect(wanted([lws()], pod("p", { labels }))).toMatchObject({
      name: "pg-w-uid-w-group-2",
      subGroup: "leader",
      spec: { subGroups: [{ minMember: 1 }, { minMember: 3 }] },
    });
    expect(wanted([lws({ startupPolicy: "LeaderReady" })], pod("p", { labels })).spec.minMember).toBe(1);
  });

  test("workers of a LeaderWorkerSet are cut into segments where it says how large", () => {
    const set = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {
      spec: { leaderWorkerTemplate: { size: 6 } },
      annotations: {
        "kai.scheduler/segment-size": "2",
        "kai.scheduler/topology": "t",
        "kai.scheduler/segment-topology-preferred-placement": "rack",
      },
    });
    const labels = { "leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "3" };
    const { spec, subGroup } = wanted([set], pod("p", { labels }));
    expect(subGroup).toBe("workers-1");
    expect(spec.subGroups?.map(({ name, minMember, minSubGroup }) => [name, minMember ?? `of ${minSubGroup}`])).toEqual(
      [
        ["leader", 1],
        ["workers", "of 3"],
        ["workers-0", 2],
        ["workers-1", 2],
        ["workers-2", 1],
      ],
    );
    expect(spec.subGroups?.[2]?.topologyConstraint).toEqual({ topology: "t", preferredTopologyLevel: "rack" });
  });

  test.each([
    ["RayJob", { rayClusterSpec: { workerGroupSpecs: [{ groupName: "w", replicas: 3 }] } }],
    ["RayService", { rayClusterConfig: { workerGroupSpecs: [{ groupName: "w", replicas: 3 }] } }],
  ])("a %s that is read before its cluster knows its workers", (kind, spec) => {
    const head = pod("h", { labels: { "ray.io/node-type": "head" } });
    expect(wanted([owner("ray.io/v1", kind, { spec })], head).spec.subGroups).toEqual([
      { name: "headgroup", minMember: 1 },
      { name: "w", minMember: 3 },
    ]);
  });

  test("a JobSet's templates say how many of a replica start together, and how close", () => {
    const annotations = {
      "kai.scheduler/batch-min-member": "2",
      "kai.scheduler/topology": "t",
      "kai.scheduler/topology-required-placement": "rack",
    };
    const template = { metadata: { annotations }, spec: { parallelism: 4 } };
    const set = owner("jobset.x-k8s.io/v1alpha2", "JobSet", {
      spec: { replicatedJobs: [{ name: "w", replicas: 1, template }] },
    });
    const labels = { "jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "0" };
    expect(wanted([set], pod("p", { labels })).spec.subGroups?.[1]).toEqual({
      name: "w-replica-0",
      parent: "w",
      minMember: 2,
      topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" },
    });
  });

  test("every revision of a Knative service is a group of its smallest scale, for inference", () => {
    const chain = [
      owner("serving.knative.dev/v1", "Revision", { name: "r1" }),
      owner("serving.knative.dev/v1", "Service", { name: "s" }),
    ];
    const member = pod("p", { annotations: { "autoscaling.knative.dev/min-scale": "3" } });
    expect(wanted(chain, member)).toMatchObject({
      name: "pg-r1-uid-r1",
      spec: { minMember: 3, priorityClassName: "inference" },
    });
  });

  test("pods of a Knative service stand alone where gangs of them are switched off", () => {
    const chain = [
      owner("serving.knative.dev/v1", "Revision", { name: "r1" }),
      owner("serving.knative.dev/v1", "Service"),
    ];
    const member = pod("p", { annotations: { "autoscaling.knative.dev/min-scale": "3" } });
    expect(wanted(chain, member, { gangScheduleKnative: false })).toMatchObject({
      name: "pg-p-pod-default-p",
      spec: { minMember: 1, priorityClassName: "inference" },
    });
  });

  test.each([
    ["kubeflow.org/v1beta1", "ScheduledWorkflow"],
    ["machinelearning.seldon.io/v1", "SeldonDeployment"],
    ["kubevirt.io/v1", "VirtualMachineInstance"],
    ["workspace.devfile.io/v1alpha2", "DevWorkspace"],
    ["tekton.dev/v1", "PipelineRun"],
    ["tekton.dev/v1", "TaskRun"],
  ])("%s %s has one group of its owner, for training", (apiVersion, kind) => {
    expect(wanted([owner(apiVersion, kind)])).toMatchObject({
      name: "pg-w-uid-w",
      spec: { minMember: 1, priorityClassName: "train" },
    });
  });

  test("a PyTorchJob of more segments than is sensible is not cut", () => {
    const job = owner("kubeflow.org/v1", "PyTorchJob", {
      annotations: { "kai.scheduler/segment-size": "1" },
      spec: replicas("pytorchReplicaSpecs", { Master: 1, Worker: 10_001 }),
    });
    const worker = pod("p", { labels: { "training.kubeflow.org/replica-type": "worker" } });
    expect(wanted([job], worker).spec.subGroups).toHaveLength(2);
  });

  test("a Ray cluster that was grouped flat stays flat, with all of it as its minimum", () => {
    const spec = { workerGroupSpecs: [{ groupName: "w", replicas: 3, numOfHosts: 2 }] };
    const head = pod("h", { labels: { "ray.io/node-type": "head" } });
    const flat = { spec: { minMember: 7 } } as PodGroup;
    expect(wanted([owner("ray.io/v1", "RayCluster", { spec })], head, { existing: () => flat })).toMatchObject({
      subGroup: undefined,
      spec: { minMember: 7 },
    });
  });

  test("a group of a LeaderWorkerSet waits for its workers when its leader has a node", () => {
    const set = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {
      spec: { leaderWorkerTemplate: { size: 4 }, startupPolicy: "LeaderReady" },
    });
    const labels = { "leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "0" };
    expect(wanted([set], pod("p", { labels, on: "n1" })).spec.subGroups).toMatchObject([
      { minMember: 1 },
      { minMember: 3 },
    ]);
  });

  test("an AmlJob waits for as many pods as it has nodes, a SPOTRequest is for inference", () => {
    const containers = [{ name: "c", image: "i", env: [{ name: "AZUREML_NODE_COUNT", value: "4" }] }];
    const member = pod("p", { spec: { containers } as never });
    expect(wanted([owner("amlarc.azureml.com/v1alpha1", "AmlJob")], member).spec.minMember).toBe(4);
    expect(wanted([owner("egx.nvidia.io/v1", "SPOTRequest")]).spec.priorityClassName).toBe("inference");
  });

  test("owners that only pass on are passed over, and their labels are kept", () => {
    const chain = [
      owner("jobset.x-k8s.io/v1alpha2", "JobSet"),
      owner("trainer.kubeflow.org/v1alpha1", "TrainJob", { name: "t", labels: { "kai.scheduler/queue": "team" } }),
    ];
    expect(wanted(chain)).toMatchObject({ owner: { kind: "JobSet" }, spec: { queue: "team" } });
    expect(wanted([owner("argoproj.io/v1alpha1", "Workflow")])).toMatchObject({ owner: { kind: "Pod" } });
  });

  test("an unknown kind has one group of its owner", () => {
    expect(wanted([owner("example.com/v1", "Thing")])).toMatchObject({ name: "pg-w-uid-w", spec: { minMember: 1 } });
    expect(wanted([owner("kubeflow.org/v1", "Notebook")]).spec.priorityClassName).toBe("build");
  });
});

describe("for every kind", () => {
  test.each([
    ["the label of the owner", { "kai.scheduler/queue": "a" }, { "kai.scheduler/queue": "b" }, "a"],
    ["the label of the pod", {}, { "kai.scheduler/queue": "b", project: "c" }, "b"],
    ["the project of the owner", { project: "o" }, { project: "p" }, "o"],
    ["the project of the pod, with its node pool", {}, { project: "p", "kai.scheduler/node-pool": "gold" }, "p-gold"],
    ["the queue that is always there", {}, {}, "default-queue"],
  ])("the queue is %s", (_, ownerLabels, podLabels, queue) => {
    expect(
      wanted([owner("batch/v1", "Job", { labels: ownerLabels })], pod("p", { labels: podLabels })).spec.queue,
    ).toBe(queue);
  });

  test("the priority class is the owner's, the pod's, then that of the kind; it must exist", () => {
    const of = (ownerLabels: Record<string, string>, podLabels: Record<string, string>, spec = {}) =>
      wanted([owner("batch/v1", "Job", { labels: ownerLabels })], pod("p", { labels: podLabels, spec: spec as never }))
        .spec.priorityClassName;
    expect(of({ priorityClassName: "urgent" }, { priorityClassName: "build" })).toBe("urgent");
    expect(of({ priorityClassName: "nobody" }, { priorityClassName: "build" })).toBe("build");
    expect(of({}, {}, { priorityClassName: "inference" })).toBe("inference");
    expect(of({}, {})).toBe("train");
  });

  describe("the installation says which class a kind has", () => {
    const types = [
      { typeName: "Job", group: "batch", priorityName: "build" },
      { typeName: "Job", priorityName: "inference" },
      { typeName: "Workflow", group: "argoproj.io", priorityName: "urgent" },
      { typeName: "StatefulSet", group: "apps", priorityName: "nobody" },
    ];
    const kindPriorities = readKindPriorities(JSON.stringify(types));
    const classOf = (chain: Workload[], member = pod("p")) =>
      wanted(chain, member, { kindPriorities }).spec.priorityClassName;
    test.each([
      ["by group and kind", [owner("batch/v1", "Job")], "build"],
      ["by kind alone", [owner("example.com/v1", "Job")], "inference"],
      ["not where the class does not exist", [owner("apps/v1", "StatefulSet")], "train"],
      ["not of kinds that it does not name", [owner("apps/v1", "ReplicaSet")], "train"],
      ["also of an owner that only passes on", [owner("argoproj.io/v1alpha1", "Workflow")], "urgent"],
      [
        "not where the workload says otherwise",
        [owner("batch/v1", "Job", { labels: { priorityClassName: "train" } })],
        "train",
      ],
    ])("%s", (_, chain, expected) => {
      expect(classOf(chain)).toBe(expected);
    });

    test.each(["", "no JSON", "{}", "[1]", '[{"typeName":7}]'])("in %j nothing is said", (text) => {
      expect(readKindPriorities(text).size).toBe(0);
    });
  });

  test.each([
    ["labels and annotations of its owner, without the bulk of kubectl", { team: "a" }, { note: "x" }],
    ["nothing where its owner has none", {}, {}],
  ])("the group has %s", (_, labels, annotations) => {
    const bulk = { "kubectl.kubernetes.io/last-applied-configuration": "{}" };
    const group = newGroup(wanted([owner("batch/v1", "Job", { labels, annotations: { ...annotations, ...bulk } })]));
    expect(group.metadata["labels"]).toEqual(labels);
    expect(group.metadata["annotations"]).toEqual({
      ...annotations,
      "kai.scheduler/top-owner-metadata": "name: w\nuid: uid-w\napiVersion: batch/v1\nkind: Job\n",
    });
    expect(group.metadata["ownerReferences"]).toEqual([
      { apiVersion: "batch/v1", kind: "Job", name: "w", uid: "uid-w" },
    ]);
    expect(group.metadata["namespace"]).toBe("default");
  });

  test.each([
    ["the owner", { "kai.scheduler/node-pool": "gold" }, {}],
    ["the owner before the pod", { "kai.scheduler/node-pool": "gold" }, { "kai.scheduler/node-pool": "silver" }],
    ["the pod", {}, { "kai.scheduler/node-pool": "gold" }],
  ])("the node pool of the group is that of %s", (_, ownerLabels, podLabels) => {
    const group = wanted([owner("batch/v1", "Job", { labels: ownerLabels })], pod("p", { labels: podLabels }));
    expect(group.labels).toMatchObject({ "kai.scheduler/node-pool": "gold" });
  });

  test("an invalid delay is reported and ignored, and the pod's own counts instead", () => {
    const key = "kai.scheduler/preemption-delay";
    const job = owner("batch/v1", "Job", { annotations: { [key]: "soon" } });
    expect(wanted([job]).spec).not.toHaveProperty("preemptionDelay");
    expect(wanted([job]).problems).toEqual([`${key}: soon is not a valid duration`]);
    const member = pod("p");
    member.metadata.annotations = { [key]: "5m" };
    expect(wanted([job], member).spec).toMatchObject({ preemptionDelay: "5m" });
  });

  test("preemptibility, topology, delay and grace are taken over", () => {
    const annotations = {
      "kai.scheduler/topology": "t",
      "kai.scheduler/topology-required-placement": "rack",
      "kai.scheduler/preemption-delay": "5m",
      "kai.scheduler/staleness-grace-period": "10s",
    };
    const job = owner("batch/v1", "Job", {
      labels: { "kai.scheduler/preemptibility": "non-preemptible" },
      annotations,
    });
    expect(wanted([job]).spec).toMatchObject({
      preemptibility: "non-preemptible",
      topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" },
      preemptionDelay: "5m",
      stalenessGracePeriod: "10s",
    });
  });

  test.each([
    ["the pod says so", [] as Workload[], pod("p", { annotations: { "kai.scheduler/skip-podgrouper": "true" } })],
    [
      "an owner says so",
      [owner("batch/v1", "Job", { annotations: { "kai.scheduler/skip-podgrouper": "" } })],
      pod("p"),
    ],
    ["it has a group and no owner", [] as Workload[], pod("p", { group: "mine" })],
  ])("nothing is grouped when %s", (_, chain, member) => {
    expect(groupPod(member, chain, facts)).toHaveProperty("skip");
  });

  test("a group that was made flat stays flat", () => {
    const job = owner("kubeflow.org/v1", "PyTorchJob", {
      spec: replicas("pytorchReplicaSpecs", { Master: 1, Worker: 3 }),
    });
    const flat = { spec: { minMember: 4 } } as PodGroup;
    expect(wanted([job], pod("p"), { existing: () => flat })).toMatchObject({
      subGroup: undefined,
      spec: { minMember: 4 },
    });
  });
});

describe("a group that exists", () => {
  const group = (spec: object) => partly<PodGroup>({ ...newGroup(wanted([owner("batch/v1", "Job")])), spec });

  test("keeps its queue and what the scheduler's users set", () => {
    const mine = group({
      ...wanted([owner("batch/v1", "Job")]).spec,
      queue: "elsewhere",
      markUnschedulable: false,
      schedulingBackoff: 1,
      topologyConstraint: { topology: "x" },
    });
    expect(groupChanges(mine, wanted([owner("batch/v1", "Job")]))).toBeUndefined();
  });

  test("keeps its labels, also those of its queue and its pool", () => {
    const labels = { "kai.scheduler/queue": "b", "kai.scheduler/node-pool": "b" };
    const moved = wanted([owner("batch/v1", "Job", { labels })]);
    expect(groupChanges(group(wanted([owner("batch/v1", "Job")]).spec), moved)).toBeUndefined();
  });

  test("follows the topology of its workload where that has one", () => {
    const annotations = { "kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack" };
    const near = wanted([owner("batch/v1", "Job", { annotations })]);
    const topologyConstraint = { topology: "t", requiredTopologyLevel: "rack" };
    expect(groupChanges(group(wanted([owner("batch/v1", "Job")]).spec), near)).toEqual({ topologyConstraint });
  });

  test("follows its workload", () => {
    const grown = wanted([owner("batch/v1", "Job", { annotations: { "kai.scheduler/batch-min-member": "3" } })]);
    expect(groupChanges(group({ ...grown.spec, minMember: 1 }), grown)).toEqual({ minMember: 3 });
  });
});

describe("the installation's Config", () => {
  test("that is missing or empty groups all pods", () => {
    const usual = { podLabels: {}, namespaceLabels: {}, priorities: undefined, gangScheduleKnative: true };
    expect(readGrouperSettings(undefined)).toEqual({ settings: usual, problems: [] });
    expect(readGrouperSettings({ global: { schedulerName: "kai-scheduler" } })).toEqual({
      settings: usual,
      problems: [],
    });
  });

  test("says which pods are grouped, where usual classes are, and whether Knative starts together", () => {
    const args = {
      gangScheduleKnative: false,
      defaultPrioritiesConfigMapName: "priorities",
      defaultPrioritiesConfigMapNamespace: "kai-scheduler",
    };
    const global = { podLabelSelector: { a: "1" }, namespaceLabelSelector: { b: "2" } };
    expect(readGrouperSettings({ global, podGrouper: { args } }).settings).toEqual({
      podLabels: { a: "1" },
      namespaceLabels: { b: "2" },
      priorities: "kai-scheduler/priorities",
      gangScheduleKnative: false,
    });
  });

  test.each([
    ["schedulerName", "mine", '"mine" is not supported, kai-scheduler is used'],
    ["queueLabelKey", "example.com/queue", '"example.com/queue" is not supported, kai.scheduler/queue is used'],
    ["nodePoolLabelKey", "example.com/pool", '"example.com/pool" is not supported, kai.scheduler/node-pool is used'],
  ])("that asks for another %s is told", (field, value, problem) => {
    expect(readGrouperSettings({ global: { [field]: value } }).problems).toEqual([`spec.global.${field}: ${problem}`]);
  });

  test.each([
    [{ a: "1" }, { a: "1", b: "2" }, true],
    [{ a: "1" }, { a: "2" }, false],
    [{ a: "1" }, undefined, false],
    [{}, undefined, true],
  ])("labels %o are had by %o: %s", (want, labels, has) => {
    expect(hasLabels(labels, want)).toBe(has);
  });
});
