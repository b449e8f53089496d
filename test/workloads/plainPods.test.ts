/**
 * Plain pods of the default scheduler on the embedded server: their placement, and the reason while they are pending.
 */
import { describe, expect, test } from "vitest";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster } from "./liveCluster.ts";

const components = [schedulerComponent()];

function pod(name: string, spec: object = {}): object {
  const containers = [{ name: "c", image: "i" }];
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "default" }, spec: { containers, ...spec } };
}

function asking(requests: Record<string, string>, more: object = {}): object {
  return { containers: [{ name: "c", image: "i", resources: { requests, limits: limitsOf(requests) } }], ...more };
}

/** Extended resources must be limited by what they are requested at. */
function limitsOf(requests: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(requests).filter(([name]) => name.includes("/")));
}

const nodeOf = (cluster: LiveCluster, name: string): string | undefined =>
  cluster.get<k.Pod>("/pods", `default/${name}`).spec?.nodeName;

const scheduled = (cluster: LiveCluster, name: string): k.PodCondition | undefined =>
  cluster.get<k.Pod>("/pods", `default/${name}`).status?.conditions?.find(({ type }) => type === "PodScheduled");

describe("a pod", () => {
  const gpu = { "nvidia.com/gpu": "8" };
  const cases: { name: string; spec: object; why: string | undefined }[] = [
    { name: "without requests is bound", spec: {}, why: undefined },
    { name: "that fits is bound", spec: asking({ cpu: "8", "nvidia.com/gpu": "8" }), why: undefined },
    {
      name: "that requests more than a node has is pending",
      spec: asking({ "nvidia.com/gpu": "9" }),
      why: "requests 9 GPUs, and the largest node has 8",
    },
    {
      name: "that requests an unknown resource is pending",
      spec: asking({ "example.com/fpga": "1" }),
      why: "requests 1 example.com/fpga, and no node has any",
    },
    {
      name: "whose largest init container does not fit is pending",
      spec: {
        ...asking({ cpu: "1" }),
        initContainers: [{ name: "i", image: "i", resources: { requests: { cpu: "9" } } }],
      },
      why: "requests 9 CPU cores, and the largest node has 8",
    },
    {
      name: "whose node selector matches no node is pending",
      spec: { nodeSelector: { gpu: "yes" } },
      why: "fits 0 of 2 nodes: 2 node(s) do not match its node selector or affinity",
    },
  ];
  test.each(cases)("$name", async ({ spec, why }) => {
    const cluster = await LiveCluster.start({ components, allocatable: gpu });
    await cluster.test.create("/pods", pod("p", spec));
    await cluster.pass(1_000);
    expect(nodeOf(cluster, "p")).toEqual(why === undefined ? expect.stringMatching(/^n[01]$/) : undefined);
    expect(scheduled(cluster, "p")).toMatchObject(
      why === undefined
        ? { status: "True" }
        : { status: "False", reason: "Unschedulable", message: expect.stringContaining(why) },
    );
    const event = why === undefined ? /^Scheduled: placed on n/ : /^FailedScheduling: /;
    expect(cluster.events("p")).toContainEqual(expect.stringMatching(event));
  });

  test("of another scheduler or with a gate is left alone; one with claims waits where nothing allocates devices", async () => {
    const cluster = await LiveCluster.start({ components });
    await cluster.test.create("/pods", pod("other", { schedulerName: "kai-scheduler" }));
    await cluster.test.create("/pods", pod("gated", { schedulingGates: [{ name: "example.com/later" }] }));
    await cluster.test.create("/pods", pod("claims", { resourceClaims: [{ name: "g", resourceClaimName: "g" }] }));
    await cluster.pass(1_000);
    expect(["other", "gated", "claims"].map((name) => nodeOf(cluster, name))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(scheduled(cluster, "claims")?.message).toContain("nothing here allocates devices for resource claims");
  });
});

describe("room", () => {
  test("is what the pods on a node leave, counted before the watch delivers them", async () => {
    const cluster = await LiveCluster.start({ components, nodes: 3, allocatable: { "nvidia.com/gpu": "4" } });
    for (let i = 0; i < 14; i++) await cluster.test.create("/pods", pod(`p${i}`, asking({ "nvidia.com/gpu": "1" })));
    await cluster.pass(2_000);
    const on = new Map<string, number>();
    for (const { spec } of cluster.all<k.Pod>("/pods")) {
      const node = spec?.nodeName ?? "none";
      on.set(node, (on.get(node) ?? 0) + 1);
    }
    expect([...on].sort()).toEqual([
      ["n0", 4],
      ["n1", 4],
      ["n2", 4],
      ["none", 2],
    ]);
  });

  test("that a deleted pod frees enqueues pending pods, and their condition changes", async () => {
    const cluster = await LiveCluster.start({ components, nodes: 1, allocatable: { "nvidia.com/gpu": "1" } });
    await cluster.test.create("/pods", pod("a", asking({ "nvidia.com/gpu": "1" })));
    await cluster.pass(1_000);
    await cluster.test.create("/pods", pod("b", asking({ "nvidia.com/gpu": "1" })));
    await cluster.pass(1_000);
    expect(scheduled(cluster, "b")).toMatchObject({ status: "False" });
    await cluster.test.delete("/pods", "default/a", { gracePeriodSeconds: 0 });
    await cluster.pass(1_000);
    expect(nodeOf(cluster, "b")).toBe("n0");
    expect(scheduled(cluster, "b")).toMatchObject({ status: "True" });
  });

  test("of a new node is used", async () => {
    const cluster = await LiveCluster.start({ components, nodes: 0 });
    await cluster.test.create("/pods", pod("p"));
    await cluster.pass(1_000);
    expect(scheduled(cluster, "p")?.message).toBe("there are no nodes. To run: add nodes");
    await cluster.addNode("n0");
    await cluster.pass(1_000);
    expect(nodeOf(cluster, "p")).toBe("n0");
  });

  test("does not include cordoned and tainted nodes, unless the pod tolerates it", async () => {
    const cluster = await LiveCluster.start({ components, nodes: 2 });
    await cluster.edit<k.Node>("/nodes", "n0", ({ spec }) => {
      spec!.unschedulable = true;
    });
    await cluster.edit<k.Node>("/nodes", "n1", ({ spec }) => {
      spec!.taints = [{ key: "team", value: "red", effect: "NoSchedule" }];
    });
    await cluster.pass(1_000);
    await cluster.test.create("/pods", pod("plain"));
    await cluster.test.create("/pods", pod("red", { tolerations: [{ key: "team", operator: "Exists" }] }));
    await cluster.pass(1_000);
    expect(nodeOf(cluster, "red")).toBe("n1");
    expect(scheduled(cluster, "plain")?.message).toContain(
      "fits 0 of 2 nodes: 1 node(s) are not ready or cordoned, 1 node(s) have taints that it does not tolerate",
    );
  });

  test("of a port on the host is for one pod, and of pods for as many as the node says", async () => {
    const cluster = await LiveCluster.start({ components, nodes: 1, allocatable: { pods: "2" } });
    const withPort = { containers: [{ name: "c", image: "i", ports: [{ containerPort: 80, hostPort: 80 }] }] };
    await cluster.test.create("/pods", pod("a", withPort));
    await cluster.pass(500);
    await cluster.test.create("/pods", pod("b", withPort));
    await cluster.pass(500);
    await cluster.test.create("/pods", pod("c"));
    await cluster.pass(500);
    await cluster.test.create("/pods", pod("d"));
    await cluster.pass(1_000);
    expect(["a", "b", "c", "d"].map((name) => nodeOf(cluster, name))).toEqual(["n0", undefined, "n0", undefined]);
    expect(scheduled(cluster, "d")?.message).toContain("1 node(s) do not have enough pod slots");
  });
});
