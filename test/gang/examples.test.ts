/** The examples produce exactly the objects and names that Grove gives them. */
import { describe, expect, test } from "vitest";
import { labels } from "../../src/model/gang/keys.ts";
import type { PodGang } from "../../src/model/gang/types.ts";
import type { HorizontalPodAutoscaler, Pod } from "../../src/model/kubernetes.generated.ts";
import { at, GangCluster } from "./gangCluster.ts";

interface Listed {
  readonly file: string;
  readonly set: string;
  /** Number of pods by clique. */
  readonly cliques: Readonly<Record<string, number>>;
  /** Replicas and minimum by group. */
  readonly groups?: Readonly<Record<string, readonly [number, number]>>;
  /** Number of pod groups by gang. */
  readonly gangs: Readonly<Record<string, number>>;
  readonly scalers?: Readonly<Record<string, readonly [number, number]>>;
  /** Replicas of the set; one when left out. */
  readonly replicas?: number;
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

const members = (prefix: string, replicas: number, sizes: Record<string, number>): Record<string, number> =>
  Object.fromEntries(
    Array.from({ length: replicas }, (_, j) =>
      Object.entries(sizes).map(([name, size]) => [`${prefix}-${j}-${name}`, size]),
    ).flat(),
  );

const listed: readonly Listed[] = [
  {
    file: "simple1.yaml",
    set: "simple1",
    cliques: { "simple1-0-pca": 3, "simple1-0-pcd": 2, "simple1-0-sga-0-pcb": 2, "simple1-0-sga-0-pcc": 2 },
    groups: { "simple1-0-sga": [1, 1] },
    gangs: { "simple1-0": 4 },
    scalers: { "simple1-0-pca": [3, 5], "simple1-0-sga": [1, 6] },
  },
  {
    file: "simple2.yaml",
    set: "simple2",
    cliques: { "simple2-0-pca": 3, "simple2-0-pcb": 2, "simple2-0-pcc": 2, "simple2-0-pcd": 2 },
    gangs: { "simple2-0": 4 },
    scalers: { "simple2-0-pca": [3, 5] },
  },
  {
    file: "simple3.yaml",
    set: "simple3",
    cliques: {
      "simple3-0-pca": 3,
      "simple3-0-pce": 2,
      ...members("simple3-0-sga", 3, { pcb: 2, pcc: 2, pcd: 2 }),
    },
    groups: { "simple3-0-sga": [3, 2] },
    gangs: { "simple3-0": 8, "simple3-0-sga-0": 3 },
    scalers: { "simple3-0-pca": [3, 5], "simple3-0-sga": [3, 6] },
  },
  {
    file: "single-node-aggregated.yaml",
    set: "single-node-aggregated",
    cliques: { "single-node-aggregated-0-model-worker": 2 },
    gangs: { "single-node-aggregated-0": 1 },
  },
  {
    file: "single-node-disaggregated.yaml",
    set: "single-node-disaggregated",
    cliques: { "single-node-disaggregated-0-prefill": 3, "single-node-disaggregated-0-decode": 2 },
    gangs: { "single-node-disaggregated-0": 2 },
  },
  {
    file: "multi-node-aggregated.yaml",
    set: "multinode-aggregated",
    cliques: members("multinode-aggregated-0-model-instance", 2, { leader: 1, worker: 3 }),
    groups: { "multinode-aggregated-0-model-instance": [2, 1] },
    gangs: { "multinode-aggregated-0": 2, "multinode-aggregated-0-model-instance-0": 2 },
  },
  {
    file: "multi-node-disaggregated.yaml",
    set: "multinode-disaggregated",
    cliques: {
      ...members("multinode-disaggregated-0-prefill", 2, { pleader: 1, pworker: 4 }),
      ...members("multinode-disaggregated-0-decode", 1, { dleader: 1, dworker: 2 }),
    },
    groups: { "multinode-disaggregated-0-prefill": [2, 1], "multinode-disaggregated-0-decode": [1, 1] },
    gangs: { "multinode-disaggregated-0": 4, "multinode-disaggregated-0-prefill-0": 2 },
  },
  {
    file: "complete-inference-pipeline.yaml",
    set: "comp-inf-ppln",
    cliques: {
      "comp-inf-ppln-0-frontend": 2,
      "comp-inf-ppln-0-vision-encoder": 1,
      ...members("comp-inf-ppln-0-prefill", 1, { pleader: 1, pworker: 4 }),
      ...members("comp-inf-ppln-0-decode-cluster", 1, { dleader: 1, dworker: 2 }),
    },
    groups: { "comp-inf-ppln-0-prefill": [1, 1], "comp-inf-ppln-0-decode-cluster": [1, 1] },
    gangs: { "comp-inf-ppln-0": 6 },
  },
  {
    file: "multinode-disaggregated-with-frontend.yaml",
    set: "mn-disagg",
    cliques: {
      "mn-disagg-0-frontend": 2,
      ...members("mn-disagg-0-prefill", 2, { pleader: 1, pworker: 3 }),
      ...members("mn-disagg-0-decode", 1, { dleader: 1, dworker: 2 }),
    },
    groups: { "mn-disagg-0-prefill": [2, 1], "mn-disagg-0-decode": [1, 1] },
    gangs: { "mn-disagg-0": 5, "mn-disagg-0-prefill-0": 2 },
  },
  {
    file: "pcsg-env-vars.yaml",
    set: "env-demo-pcsg",
    cliques: members("env-demo-pcsg-0-model-instance", 2, { leader: 1, worker: 3 }),
    groups: { "env-demo-pcsg-0-model-instance": [2, 1] },
    gangs: { "env-demo-pcsg-0": 2, "env-demo-pcsg-0-model-instance-0": 2 },
  },
  {
    file: "standalone-env-vars.yaml",
    set: "env-demo-standalone",
    cliques: { "env-demo-standalone-0-frontend": 2 },
    gangs: { "env-demo-standalone-0": 1 },
  },
  ...["workload1", "workload1-gt", "workload3", "workload5", "workload-ondelete"].map((name) => ({
    file: `${name}.yaml`,
    set: name,
    cliques: { [`${name}-0-pc-a`]: 2, ...members(`${name}-0-sg-x`, 2, { "pc-b": 1, "pc-c": 3 }) },
    groups: { [`${name}-0-sg-x`]: [2, 2] as const },
    gangs: { [`${name}-0`]: 5 },
  })),
  ...["workload2", "workload2-gt", "workload4", "workload5-gt", "workload6"].map((name) => ({
    file: `${name}.yaml`,
    set: name,
    cliques: { [`${name}-0-pc-a`]: 2, ...members(`${name}-0-sg-x`, 2, { "pc-b": 1, "pc-c": 3 }) },
    groups: { [`${name}-0-sg-x`]: [2, 1] as const },
    gangs: { [`${name}-0`]: 3, [`${name}-0-sg-x-0`]: 2 },
  })),
  {
    file: "upgrade.yaml",
    set: "upgrade",
    cliques: { "upgrade-0-bootstrap": 1, "upgrade-0-worker": 1 },
    gangs: { "upgrade-0": 2 },
  },
  ...[
    { set: "soak-churn", replicas: 25 },
    { set: "scale-up-from-zero", replicas: 0 },
  ].map(({ set, replicas }) => ({
    file: `${set}.yaml`,
    set,
    replicas,
    cliques: Object.fromEntries(numbers(replicas).map((index) => [`${set}-${index}-expert-worker`, 2])),
    gangs: Object.fromEntries(numbers(replicas).map((index) => [`${set}-${index}`, 1])),
  })),
];

const sorted = (names: Iterable<string>): string[] => [...names].sort();

test.each(listed)("$file", async ({ file, set, cliques, groups = {}, gangs, scalers = {}, replicas = 1 }) => {
  const cluster = await GangCluster.start({ nodes: 3, podsPerNode: 20 });
  await cluster.applyExample(file);
  const total = Object.values(cliques).reduce((sum, size) => sum + size, 0);
  expect(sorted(cluster.names("grove.io/podcliques"))).toEqual(sorted(Object.keys(cliques)));
  for (const [name, size] of Object.entries(cliques)) expect(cluster.pods(name), name).toHaveLength(size);
  expect(cluster.readyPods()).toBe(total);
  for (const { metadata } of cluster.pods()) {
    const clique = metadata.labels?.[labels.clique] ?? "";
    expect(metadata.name).toMatch(new RegExp(`^${clique}-[a-z0-9]{5}$`));
  }
  expect(sorted(cluster.names("grove.io/podcliquescalinggroups"))).toEqual(sorted(Object.keys(groups)));
  for (const [name, [size, minAvailable]] of Object.entries(groups)) {
    expect(cluster.group(name).spec).toMatchObject({ replicas: size, minAvailable });
  }
  const found = cluster.all<PodGang>("scheduler.grove.io/podgangs");
  expect(Object.fromEntries(found.map(({ metadata, spec }) => [metadata.name, spec.podgroups.length]))).toEqual(gangs);
  const hpas = cluster.all<HorizontalPodAutoscaler>("autoscaling/horizontalpodautoscalers");
  expect(
    Object.fromEntries(hpas.map(({ metadata, spec }) => [metadata.name, [spec?.minReplicas, spec?.maxReplicas]])),
  ).toEqual(scalers);
  expect(sorted(cluster.names("/services").filter((name) => name !== "kubernetes"))).toEqual(
    sorted(numbers(replicas).map((index) => `${set}-${index}`)),
  );
  expect(cluster.names("/serviceaccounts")).toContain(set);
  expect(cluster.names("rbac.authorization.k8s.io/roles")).toContain(`grove.io:pcs:${set}`);
  expect(cluster.names("rbac.authorization.k8s.io/rolebindings")).toContain(`grove.io:pcs:${set}`);
  expect(cluster.names("/secrets")).toContain(`${set}-ic-sat`);
  const { status } = cluster.set(set);
  expect(status).toMatchObject({
    replicas,
    availableReplicas: replicas,
    updatedReplicas: replicas,
    observedGeneration: 1,
  });
  expect(status?.lastErrors).toBeUndefined();
});

const argsOf = (cluster: GangCluster, clique: string): string[] | undefined =>
  cluster.pods(clique)[0]?.spec?.initContainers?.find(({ name }) => name === "grove-initc")?.args;
const waits = (...pairs: string[]): string[] => pairs.map((pair) => `--podcliques=${pair}`);

describe("which cliques wait for which", () => {
  test("simple2", async () => {
    const cluster = await GangCluster.start({ nodes: 2, podsPerNode: 20 });
    await cluster.applyExample("simple2.yaml");
    expect(argsOf(cluster, "simple2-0-pca")).toBeUndefined();
    expect(argsOf(cluster, "simple2-0-pcb")).toEqual(waits("simple2-0-pca:3"));
    expect(argsOf(cluster, "simple2-0-pcc")).toEqual(waits("simple2-0-pca:3"));
    expect(argsOf(cluster, "simple2-0-pcd")).toEqual(waits("simple2-0-pcb:2", "simple2-0-pcc:2"));
  });

  test("simple3", async () => {
    const cluster = await GangCluster.start({ nodes: 2, podsPerNode: 20 });
    await cluster.applyExample("simple3.yaml");
    const all = waits(
      "simple3-0-sga-0-pcb:2",
      "simple3-0-sga-1-pcb:2",
      "simple3-0-sga-0-pcc:2",
      "simple3-0-sga-1-pcc:2",
    );
    for (const j of [0, 1]) {
      expect(argsOf(cluster, `simple3-0-sga-${j}-pcb`)).toEqual(waits("simple3-0-pca:3"));
      expect(argsOf(cluster, `simple3-0-sga-${j}-pcc`)).toEqual(waits("simple3-0-pca:3"));
      expect(argsOf(cluster, `simple3-0-sga-${j}-pcd`)).toEqual(all);
    }
    expect(argsOf(cluster, "simple3-0-pce")).toEqual(all);
    expect(argsOf(cluster, "simple3-0-sga-2-pcb")).toBeUndefined();
    expect(argsOf(cluster, "simple3-0-sga-2-pcc")).toBeUndefined();
    expect(argsOf(cluster, "simple3-0-sga-2-pcd")).toEqual(waits("simple3-0-sga-2-pcb:2", "simple3-0-sga-2-pcc:2"));
  });
});

describe("the next steps of the guides", () => {
  test("a group is scaled to two: two cliques, four pods, and a gang that counts from zero", async () => {
    const cluster = await GangCluster.start({ nodes: 2, podsPerNode: 20 });
    await cluster.applyExample("simple1.yaml");
    await cluster.scale("PodCliqueScalingGroup", "simple1-0-sga", 2);
    expect(sorted(cluster.names("grove.io/podcliques"))).toEqual(
      sorted(["simple1-0-pca", "simple1-0-pcd", ...Object.keys(members("simple1-0-sga", 2, { pcb: 2, pcc: 2 }))]),
    );
    expect(sorted(cluster.names("scheduler.grove.io/podgangs"))).toEqual(["simple1-0", "simple1-0-sga-0"]);
    expect(cluster.readyPods()).toBe(13);
    await cluster.scale("PodCliqueScalingGroup", "simple1-0-sga", 1);
    expect(cluster.names("scheduler.grove.io/podgangs")).toEqual(["simple1-0"]);
    expect(cluster.pods()).toHaveLength(9);
  });

  test("a set is scaled to two and back: the objects of a second replica are created and deleted, its Service too", async () => {
    const cluster = await GangCluster.start({ nodes: 2, podsPerNode: 20 });
    await cluster.applyExample("simple1.yaml");
    await cluster.scale("PodCliqueSet", "simple1", 2);
    expect(cluster.readyPods()).toBe(18);
    expect(sorted(cluster.names("scheduler.grove.io/podgangs"))).toEqual(["simple1-0", "simple1-1"]);
    expect(cluster.names("/services")).toContain("simple1-1");
    await cluster.scale("PodCliqueSet", "simple1", 1);
    expect(cluster.pods()).toHaveLength(9);
    expect(cluster.names("/services")).not.toContain("simple1-1");
    expect(sorted(cluster.names("autoscaling/horizontalpodautoscalers"))).toEqual(["simple1-0-pca", "simple1-0-sga"]);
  });

  test("a clique is scaled: more pods in the same gang with the same minimum", async () => {
    const cluster = await GangCluster.start({ nodes: 2, podsPerNode: 20 });
    await cluster.applyExample("single-node-aggregated.yaml");
    await cluster.scale("PodClique", "single-node-aggregated-0-model-worker", 4);
    expect(cluster.readyPods()).toBe(4);
    const gang = cluster.gang("single-node-aggregated-0");
    expect(gang.spec.podgroups[0]).toMatchObject({ minReplicas: 2 });
    expect(gang.spec.podgroups[0]?.podReferences).toHaveLength(4);
  });

  test("a set is deleted: none of its objects is left", async () => {
    const cluster = await GangCluster.start({ nodes: 10 });
    await cluster.applyExample("workload1.yaml");
    expect(cluster.readyPods()).toBe(10);
    await cluster.must(
      cluster.kube.delete(at({ group: "grove.io", version: "v1alpha1", plural: "podcliquesets" }, "workload1")),
    );
    await cluster.settle(100);
    await cluster.pass(60);
    for (const resource of [
      "grove.io/podcliquesets",
      "grove.io/podcliques",
      "grove.io/podcliquescalinggroups",
      "scheduler.grove.io/podgangs",
      "scheduling.run.ai/podgroups",
      "/pods",
      "/secrets",
      "rbac.authorization.k8s.io/rolebindings",
    ]) {
      const left = cluster
        .all(resource)
        .filter(({ metadata }) => metadata.labels?.["app.kubernetes.io/managed-by"] === "grove-operator");
      expect(
        left.map(({ metadata }) => metadata.name),
        resource,
      ).toEqual([]);
    }
  });
});

test("containers get their identity as variables, before the user's own", async () => {
  const cluster = await GangCluster.start({ nodes: 1, podsPerNode: 20 });
  await cluster.applyExample("pcsg-env-vars.yaml");
  const [pod] = cluster.pods("env-demo-pcsg-0-model-instance-1-leader") as [Pod];
  expect(
    pod.spec?.containers[0]?.env?.map(({ name, value, valueFrom }) => [name, value ?? valueFrom?.fieldRef?.fieldPath]),
  ).toEqual([
    ["GROVE_PCS_NAME", "env-demo-pcsg"],
    ["GROVE_PCS_INDEX", "0"],
    ["GROVE_PCLQ_NAME", "env-demo-pcsg-0-model-instance-1-leader"],
    ["GROVE_HEADLESS_SERVICE", "env-demo-pcsg-0.default.svc.cluster.local"],
    ["GROVE_PCLQ_POD_INDEX", "metadata.labels['grove.io/podclique-pod-index']"],
    ["GROVE_PCSG_NAME", "metadata.labels['grove.io/podcliquescalinggroup']"],
    ["GROVE_PCSG_TEMPLATE_NUM_PODS", "4"],
    ["GROVE_PCSG_INDEX", "metadata.labels['grove.io/podcliquescalinggroup-replica-index']"],
    ["PEERS", "$(GROVE_PCSG_TEMPLATE_NUM_PODS)"],
    ["LEADER", "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-leader-0.$(GROVE_HEADLESS_SERVICE)"],
  ]);
  expect(pod.spec).toMatchObject({
    hostname: "env-demo-pcsg-0-model-instance-1-leader-0",
    subdomain: "env-demo-pcsg-0",
  });
  expect(pod.metadata.labels).toMatchObject({
    "app.kubernetes.io/managed-by": "grove-operator",
    "app.kubernetes.io/part-of": "env-demo-pcsg",
    "grove.io/podclique": "env-demo-pcsg-0-model-instance-1-leader",
    "grove.io/podcliquescalinggroup": "env-demo-pcsg-0-model-instance",
    "grove.io/podcliquescalinggroup-replica-index": "1",
    "grove.io/podcliqueset-replica-index": "0",
    "grove.io/podgang": "env-demo-pcsg-0-model-instance-0",
    "grove.io/base-podgang": "env-demo-pcsg-0",
    "grove.io/podclique-pod-index": "0",
  });
});

test("with kai-scheduler as the default profile a set without a queue is refused", async () => {
  const cluster = await GangCluster.start({ nodes: 1, settings: { defaultProfile: "kai-scheduler" } });
  await expect(cluster.applyExample("simple1.yaml")).rejects.toThrow("kai.scheduler/queue");
});
