import { expect, test } from "vitest";
import { clusterWith, group, node, pod } from "../../../../testing/decide/scheduleCluster.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import type { Cluster } from "./cluster.ts";
import { unbounded } from "./servedResources.ts";

const resource = "example.com/gpu";

function asking(name: string, words: { on?: string; scheduler?: string } = {}): Pod {
  const made = pod(name, { group: name, ...(words.on !== undefined && { on: words.on }) });
  const containers = [{ name: "c", resources: { requests: { [resource]: "1" } } }];
  const schedulerName = words.scheduler ?? made.spec?.schedulerName;
  return { ...made, spec: { ...made.spec, containers, ...(schedulerName !== undefined && { schedulerName }) } };
}

function cluster(...pods: readonly Pod[]): Cluster {
  const nodes = [node("n1", { more: { [resource]: "2" } }), node("n2")];
  return clusterWith({ nodes, groups: pods.map(({ metadata }) => group(metadata.name)), pods });
}

/** By node: what is idle of the resource. */
function idle(of: Cluster): (number | undefined)[] {
  of.refresh(0);
  const place = of.names.placeOf(resource);
  return of.table.nodes.map(({ index }) => of.table.idle[place]?.[index]);
}

const served = (of: Cluster, isServed: boolean): void => of.setServedResources(new Set(isServed ? [resource] : []));

test("a node without a device plugin for it has the resource without bound, one with it as much as the plugin says", () => {
  const it = cluster(asking("a", { on: "n1" }));
  expect(idle(it)).toEqual([1, 0]);
  served(it, true);
  expect(idle(it)).toEqual([1, unbounded]);
  it.assertCounts();
  served(it, false);
  expect(idle(it)).toEqual([1, 0]);
  it.assertCounts();
});

test("a node that comes while the resource is served has it too, and loses it with a device plugin of its own", () => {
  const it = cluster();
  served(it, true);
  it.putNode(node("n3"));
  expect(idle(it)).toEqual([2, unbounded, unbounded]);
  it.putNode(node("n3", { more: { [resource]: "4" } }));
  expect(idle(it)).toEqual([2, unbounded, 4]);
});

test("pods in queues and plain pods get devices for it, on nodes with a device plugin and on nodes without one", () => {
  const it = cluster(asking("kai"), asking("plain", { scheduler: "default-scheduler" }));
  const shapes = () => [...it.tasks.values()].map(({ shape }) => shape.hasDeviceClaims);
  expect(shapes()).toEqual([false, false]);
  served(it, true);
  expect(shapes()).toEqual([true, true]);
  const plain = [...it.tasks.values()][1]?.shape;
  it.refresh(0);
  expect([0, 1].map((at) => plain !== undefined && it.fit.score(plain, at) >= 0)).toEqual([true, true]);
});

test("queues divide no GPUs because of a resource without bound", () => {
  const it = cluster();
  it.refresh(0);
  const before = it.total();
  it.setServedResources(new Set([resource, "nvidia.com/mig-1g.5gb"]));
  it.refresh(0);
  expect(it.total()).toEqual(before);
});
