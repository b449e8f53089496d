import { describe, expect, test } from "vitest";
import {
  addPod,
  carryOut,
  clusterWith,
  decide,
  node,
  outcome,
  pod,
  startMs,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { PodGroup as PlainGroup } from "../../../model/kubernetes.generated.ts";
import { cycle } from "../cycle.ts";
import { explain } from "../explain/explain.ts";
import type { Cluster } from "./cluster.ts";

const group = (name: string, minCount: number, more: object = {}): PlainGroup => ({
  apiVersion: "scheduling.k8s.io/v1alpha2",
  kind: "PodGroup",
  metadata: { name, namespace: "default", uid: `plain-${name}`, resourceVersion: "1", creationTimestamp: "" },
  spec: { schedulingPolicy: { gang: { minCount } }, ...more },
});

function addMembers(cluster: Cluster, name: string, count: number, gpus = 8): void {
  for (let at = 0; at < count; at++) {
    const spec = { schedulingGroup: { podGroupName: name } } as never;
    addPod(cluster, pod(`${name}-${at}`, { gpus, scheduler: "default-scheduler", spec }));
  }
}

const nodes = ["n1", "n2", "n3"].map((name) => node(name, { labels: { rack: name === "n3" ? "b" : "a" } }));
const clusterOf = (): Cluster => clusterWith({ nodes, settings: { formsPlainGangs: true } });

describe("a PodGroup of Kubernetes' own kind", () => {
  test("starts when as many pods fit as it needs, and not before", () => {
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 4));
    addMembers(cluster, "g", 4);
    expect(outcome(decide(cluster))).toEqual({});
    cluster.putPlainGroup(group("g", 3));
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(3);
  });

  test("has what more there is of it placed one by one", () => {
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 1));
    addMembers(cluster, "g", 5);
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(3);
  });

  test("waits for pods that do not exist yet, and says so", () => {
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 2));
    addMembers(cluster, "g", 1);
    let reason = "";
    const plan = cycle(cluster, startMs, (session) => {
      for (const [job, obstacle] of session.obstacles) reason = explain(session, job, obstacle).reason;
    });
    expect(plan.jobs).toEqual([]);
    expect(reason).toBe("NotReady");
  });

  test("is waited for by pods that come before it", () => {
    const cluster = clusterOf();
    addMembers(cluster, "g", 2);
    expect(outcome(decide(cluster))).toEqual({});
    expect([...cluster.withoutGroup.keys()]).toEqual(["default/g (scheduling.k8s.io)"]);
    cluster.putPlainGroup(group("g", 2));
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(2);
    cluster.removePlainGroup("default/g");
    expect(outcome(decide(cluster))).toEqual({});
  });

  test("without a gang is one whose every pod is enough", () => {
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 0, { schedulingPolicy: { basic: {} } }));
    addMembers(cluster, "g", 1);
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(1);
  });

  test("is kept together by the label that it names, also when it grows", () => {
    const constrained = { schedulingConstraints: { topology: [{ key: "rack" }] } };
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 2, constrained));
    addMembers(cluster, "g", 2);
    const plan = cycle(cluster, startMs);
    expect(Object.values(outcome(plan)).sort()).toEqual(["n1", "n2"]);
    carryOut(cluster, plan);
    cluster.putPlainGroup(group("wide", 3, constrained));
    addMembers(cluster, "wide", 3);
    expect(outcome(decide(cluster))).toEqual({});
  });

  test("of the same name as a group of KAI's is another one", () => {
    const cluster = clusterOf();
    cluster.putPlainGroup(group("g", 1));
    expect(cluster.jobs.has("default/g")).toBe(false);
  });
});
