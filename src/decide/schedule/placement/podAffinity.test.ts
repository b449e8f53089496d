import { describe, expect, test } from "vitest";
import { addPod, clusterWith, node, pod, startMs } from "../../../../testing/decide/scheduleCluster.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { cycle } from "../cycle.ts";

const scheduler = "default-scheduler";
const labels = { colour: "red" };
const red = { labelSelector: { matchLabels: labels } };
const apart = {
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [{ ...red, topologyKey: "kubernetes.io/hostname" }],
    },
  },
};
const spread = {
  topologySpreadConstraints: [{ ...red, maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" }],
};
const inZone = (zone: string) => ({ gpus: 0, labels: { zone } });
const redPod = (name: string, spec: Partial<Pod["spec"]>, on?: string): Pod =>
  pod(name, { scheduler, labels, spec: { ...spec, ...(on !== undefined && { nodeName: on }) } });

function nodesOf(cluster: ReturnType<typeof clusterWith>): string[] {
  return cycle(cluster, startMs).jobs.flatMap(({ binds }) => binds.map((bind) => bind.node));
}

describe("what was counted before something changed", () => {
  test("a second pod that wants to be alone keeps others away as the first does", () => {
    const cluster = clusterWith({ nodes: ["n1", "n2", "n3"].map((name) => node(name, { gpus: 0 })) });
    addPod(cluster, redPod("first", apart, "n1"));
    addPod(cluster, redPod("guest", {}));
    expect(nodesOf(cluster)).toEqual(["n2"]);
    addPod(cluster, redPod("second", apart, "n2"));
    expect(nodesOf(cluster)).toEqual(["n3"]);
    addPod(cluster, redPod("third", apart, "n3"));
    expect(nodesOf(cluster)).toEqual([]);
  });

  test("a deleted pod with anti-affinity keeps no pod away", () => {
    const cluster = clusterWith({ nodes: ["n1", "n2"].map((name) => node(name, { gpus: 0 })) });
    addPod(cluster, redPod("first", apart, "n1"));
    addPod(cluster, redPod("second", apart, "n2"));
    addPod(cluster, redPod("guest", {}));
    expect(nodesOf(cluster)).toEqual([]);
    cluster.removePod("pod-default-second");
    expect(nodesOf(cluster)).toEqual(["n2"]);
  });

  test("a zone whose last node is cordoned is none that pods are spread over", () => {
    const cluster = clusterWith({ nodes: [node("n1", inZone("a")), node("n2", { ...inZone("b"), cpu: "1" })] });
    addPod(cluster, redPod("first", {}, "n1"));
    addPod(cluster, pod("other", { scheduler, on: "n2" }));
    addPod(cluster, redPod("waits", spread));
    expect(nodesOf(cluster)).toEqual([]);
    cluster.putNode(node("n2", { ...inZone("b"), cpu: "1", spec: { unschedulable: true } }));
    expect(nodesOf(cluster)).toEqual(["n1"]);
  });

  test("a node that gets another zone takes its pods along", () => {
    const cluster = clusterWith({ nodes: [node("n1", inZone("a")), node("n2", inZone("b")), node("n3", inZone("b"))] });
    addPod(cluster, redPod("first", {}, "n1"));
    addPod(cluster, redPod("waits", spread));
    expect(nodesOf(cluster)).toEqual(["n2"]);
    cluster.putNode(node("n1", inZone("b")));
    cluster.putNode(node("n3", inZone("a")));
    expect(nodesOf(cluster)).toEqual(["n3"]);
  });

  test("a node that joins before those that were known is judged by its own state, also for a pod that was promised it", () => {
    const cluster = clusterWith({ nodes: [node("n1", { ...inZone("a"), spec: { unschedulable: true } })] });
    addPod(cluster, pod("waits", { scheduler, labels, spec: apart, status: { nominatedNodeName: "n0" } }));
    expect(nodesOf(cluster)).toEqual([]);
    cluster.putNode(node("n0", inZone("a")));
    expect(nodesOf(cluster)).toEqual(["n0"]);
  });
});
