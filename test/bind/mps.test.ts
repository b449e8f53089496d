/** Shares on nodes with NVIDIA's Multi-Process Service, from the node's label to the container's variables. */
import { expect, test } from "vitest";
import type { ConfigMap, Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";

async function boundHalf(labels: Record<string, string>) {
  const cluster = await BindCluster.create();
  const node = { ...builtin.Node, namespace: "", name: "h100-0" };
  const labelled = await cluster.admin.patch(node, { type: "merge", body: { metadata: { labels } } });
  expect(labelled.ok).toBe(true);
  const pod = await cluster.pod("f", { "gpu-fraction": "0.5" });
  await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["X"] });
  await cluster.startBinder();
  await cluster.run(5);
  expect(cluster.phase("f")).toBe("Succeeded");
  const maps = await cluster.admin.list<ConfigMap>(builtin.ConfigMap, { namespace: "default" });
  const environment = maps.ok ? maps.value.items.find(({ metadata }) => metadata.name.endsWith("-evar")) : undefined;
  const now = await cluster.admin.get<Pod>({ ...builtin.Pod, namespace: "default", name: "f" });
  const bound = now.ok ? now.value.status?.conditions?.find(({ type }) => type === "PodBound") : undefined;
  return { data: environment?.data ?? {}, message: bound?.message ?? "" };
}

test("on a node with MPS the container gets the limits of its share, and the pod says that it is enforced", async () => {
  const { data, message } = await boundHalf({ "muster.dev/mps": "true", "nvidia.com/gpu.memory": "81559" });
  expect(data).toMatchObject({
    CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=40779M",
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "50",
  });
  expect(message).toContain("its share is enforced by MPS");
});

test("elsewhere it gets none, and the pod says that its share is not enforced", async () => {
  const { data, message } = await boundHalf({});
  expect(Object.keys(data).filter((key) => key.startsWith("CUDA_MPS"))).toEqual([]);
  expect(message).toContain("its share is not enforced");
});
