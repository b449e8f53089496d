/** Device claims beside kube-scheduler: two allocators that do not know of each other, and one pool of devices. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Node, ResourceClaim } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import type { RealCluster } from "../kit/cluster.ts";
import { podObject } from "../kit/objects.ts";
import { until } from "../kit/processes.ts";

const devices = 16;
const rounds = process.env["MUSTER_LONG"] === "1" ? 50 : 3;

export function claimsSuite(cluster: RealCluster): void {
  describe("claims beside kube-scheduler", () => {
    const namespace = "claims";
    const claims = (): Promise<ResourceClaim[]> => cluster.list<ResourceClaim>(builtin.ResourceClaim, { namespace });

    beforeAll(async () => {
      await cluster.namespace(namespace);
      cluster.startMuster("sim", "nodes", "sim", "--install", "--pool", "h100=2");
      await until(async () => (await cluster.list(builtin.ResourceSlice)).length >= 2, 60_000);
      const template = {
        ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate", metadata: { name: "one" } },
        spec: { spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu-of-test" } }] } } },
      };
      const deviceClass = {
        ...{ apiVersion: "resource.k8s.io/v1", kind: "DeviceClass", metadata: { name: "gpu-of-test" } },
        spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
      };
      await cluster.apply(namespace, deviceClass, template);
    });
    afterAll(async () => {
      await cluster.clean(namespace);
      await cluster.processes.stop("sim");
      const simulated = (await cluster.list<Node>(builtin.Node)).filter(({ metadata }) =>
        metadata.name.startsWith("h100"),
      );
      await cluster.kubectl("delete", "node", ...simulated.map(({ metadata }) => metadata.name));
      await cluster.kubectl("delete", "resourceslices", "--all");
      await cluster.kubectl("delete", "deviceclass", "gpu-of-test");
    });

    test(`B6: ${devices} and ${devices} claims for ${devices} devices, ${rounds} rounds: no device is given twice`, async () => {
      const doubles: string[] = [];
      for (let round = 0; round < rounds; round++) {
        const pods = Array.from({ length: 2 * devices }, (_, at) => claimingPod(at));
        await cluster.apply(namespace, ...pods);
        await until(
          async () => (await claims()).filter(isAllocated).length >= devices,
          120_000,
          () => cluster.kubectl("get", "resourceclaims", "-n", namespace),
        );
        // Until no bind is under way: every claim that has a device is one of a pod that has its node.
        const unbound = async (): Promise<string[]> => {
          const pods = await cluster.pods(namespace);
          const placed = new Set(
            pods.filter(({ spec }) => spec?.nodeName !== undefined).map(({ metadata }) => metadata.uid),
          );
          const users = (await claims())
            .filter(isAllocated)
            .map(({ metadata }) => metadata.ownerReferences?.[0]?.uid ?? "");
          return [...users.filter((uid) => !placed.has(uid)), ...(placed.size < devices ? ["too few"] : [])];
        };
        await until(async () => (await unbound()).length === 0, 120_000, unbound);
        const users = new Map<string, string[]>();
        for (const claim of (await claims()).filter(isAllocated)) {
          for (const device of devicesOf(claim)) {
            users.set(device, [...(users.get(device) ?? []), claim.metadata.name]);
          }
        }
        for (const [device, names] of users) {
          if (names.length > 1) doubles.push(`round ${round}: ${device} ${names.join(" ")}`);
        }
        await cluster.kubectl("-n", namespace, "delete", "pods", "--all", "--wait=false");
        await until(async () => (await cluster.pods(namespace)).length + (await claims()).length === 0, 120_000);
      }
      expect(doubles).toEqual([]);
    });
  });
}

/** Even ones are kube-scheduler's. */
function claimingPod(at: number): object {
  const scheduler = at % 2 === 0 ? "default-scheduler" : "kai-scheduler";
  const container = { name: "c", image: "busybox", resources: { claims: [{ name: "gpu" }] } };
  const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "one" }];
  return podObject(`claim-${at}`, { scheduler, spec: { containers: [container], resourceClaims } });
}

function isAllocated({ status }: ResourceClaim): boolean {
  return status?.allocation !== undefined;
}

function devicesOf({ status }: ResourceClaim): string[] {
  const results = status?.allocation?.devices?.results ?? [];
  return results.map(({ driver, pool, device }) => `${driver}/${pool}/${device}`);
}
