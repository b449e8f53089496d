/** Gangs of the operator on real nodes: Grove's samples, the start order by init containers, and a node that dies. */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Pod } from "../../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../../src/model/objects/object.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import type { RealCluster } from "../kit/cluster.ts";
import { isReadyPod, podSpec, type Wish, waits } from "../kit/objects.ts";
import { until } from "../kit/processes.ts";

const setsRef = { group: "grove.io", version: "v1alpha1", plural: "podcliquesets" };
const part = "app.kubernetes.io/part-of";

/** How many pods each sample has when all run. Those that ask for devices or labels that these nodes lack are not here. */
const samples: Readonly<Record<string, number>> = {
  simple1: 9,
  simple2: 9,
  workload3: 10,
  "single-node-disaggregated": 5,
};

export function gangsSuite(cluster: RealCluster): void {
  describe("gangs", () => {
    const namespace = "gangs";
    const podsOf = async (set: string): Promise<Pod[]> => cluster.pods(namespace, `${part}=${set}`);
    const show = (): Promise<string> => cluster.kubectl("get", "pods", "-n", namespace, "-o", "wide");
    const errorsOf = async (name: string): Promise<unknown> => {
      const set = await cluster.kube.get({ ...setsRef, namespace, name });
      return set.ok ? (set.value["status"] as { lastErrors?: unknown } | undefined)?.lastErrors : set;
    };
    beforeAll(() => {
      const unlimited = { quota: -1, limit: -1, overQuotaWeight: 1 };
      return cluster.apply("default", {
        ...{ apiVersion: "scheduling.run.ai/v2", kind: "Queue", metadata: { name: "test" } },
        spec: {
          parentQueue: "default-parent-queue",
          resources: { gpu: unlimited, cpu: unlimited, memory: unlimited },
        },
      });
    });
    beforeEach(() => cluster.namespace(namespace));
    afterEach(() => cluster.clean(namespace));

    test.each(Object.entries(samples))("sample %s: all %i pods become ready", async (sample, count) => {
      const objects = cluster.manifest(`examples/gangs/${sample}.yaml`);
      await cluster.apply(namespace, ...objects.map((object) => smaller(object)));
      const [set] = objects.filter(({ kind }) => kind === "PodCliqueSet");
      const name = set?.metadata.name ?? "";
      await until(async () => (await podsOf(name)).filter(isReadyPod).length >= count, 240_000, show);
      expect(await errorsOf(name)).toBeUndefined();
    });

    test("A6: a set whose pods share claims gets its Role and its pods with the shipped rights", async () => {
      await cluster.apply(namespace, ...cluster.manifest("examples/gangs/resource-sharing.yaml"));
      await until(async () => (await podsOf("rs-test")).length === 3, 60_000, show);
      expect((await cluster.list(builtin.Role, { namespace })).length).toBeGreaterThan(0);
      expect(await errorsOf("rs-test")).toBeUndefined();
    });

    test("13 (nodes): cliques start in order: a pod starts when the clique before is ready, by its init container", async () => {
      const slow = `sleep 3; touch /tmp/ready; ${waits}`;
      const readinessProbe = { exec: { command: ["test", "-e", "/tmp/ready"] }, periodSeconds: 1 };
      const cliques = ["first", "second", "third"].map((name) => clique(name, 2, { script: slow }, { readinessProbe }));
      await cluster.apply(namespace, setObject("order", cliques, { cliqueStartupType: "CliqueStartupTypeInOrder" }));
      await until(async () => (await podsOf("order")).filter(isReadyPod).length === 6, 180_000, show);
      const pods = await podsOf("order");
      const of = (name: string): Pod[] => pods.filter(({ metadata }) => metadata.name.startsWith(`order-0-${name}-`));
      const startedMs = (pod: Pod): number =>
        Date.parse(String(pod.status?.containerStatuses?.[0]?.state?.running?.startedAt));
      const readyMs = (pod: Pod): number =>
        Date.parse(String(pod.status?.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime));
      for (const [before, after] of [
        ["first", "second"],
        ["second", "third"],
      ] as const) {
        expect(Math.min(...of(after).map(startedMs))).toBeGreaterThanOrEqual(Math.max(...of(before).map(readyMs)));
      }
    });

    test("a node that dies takes its gang with it: the gang is ended and starts anew on the other node", async () => {
      const tolerations = ["not-ready", "unreachable"].map((word) => ({
        ...{ key: `node.kubernetes.io/${word}`, operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 },
      }));
      const workers = [
        clique("lead", 1, { spec: { tolerations } }),
        clique("work", 3, { gpus: 1, spec: { tolerations } }),
      ];
      await cluster.apply(namespace, setObject("dies", workers, { terminationDelay: "10s" }));
      const running = async (): Promise<Pod[]> => (await podsOf("dies")).filter(isReadyPod);
      await until(async () => (await running()).length === 4, 120_000, show);
      const [first] = (await running()).map(({ spec }) => spec?.nodeName);
      const victim = cluster.nodes.find(({ name }) => name === first);
      if (victim === undefined) throw new Error(`no node is named ${first}`);
      await victim.killKubelet();
      try {
        await until(
          async () => {
            const alive = (await running()).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
            return alive.length === 4 && alive.every(({ spec }) => spec?.nodeName !== victim.name);
          },
          240_000,
          show,
        );
      } finally {
        victim.startKubelet();
        await until(async () => (await cluster.readyNodes()).length === cluster.nodes.length, 120_000);
      }
    });
  });
}

function clique(name: string, replicas: number, wish: Wish, container: object = {}): object {
  const spec = podSpec(wish) as { containers: object[] };
  const containers = spec.containers.map((each) => ({ ...each, ...container }));
  return { name, spec: { roleName: name, replicas, minAvailable: replicas, podSpec: { ...spec, containers } } };
}

function setObject(name: string, cliques: readonly object[], more: object): object {
  const marks = { "kai.scheduler/queue": "default-queue" };
  return {
    ...{ apiVersion: "grove.io/v1alpha1", kind: "PodCliqueSet", metadata: { name, labels: marks, annotations: marks } },
    spec: { replicas: 1, template: { cliques, ...more } },
  };
}

/** A sample with requests that two small nodes hold. */
function smaller(object: KubeObject): object {
  const text = JSON.stringify(object).replaceAll(/"cpu":"?\d+m?"?/g, '"cpu":"5m"');
  return JSON.parse(text.replaceAll(/"memory":"[^"]+"/g, '"memory":"8Mi"')) as object;
}
