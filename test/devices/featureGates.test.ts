import { describe, expect, test } from "vitest";
import { parseFeatureGates } from "../../src/cli/cluster/featureGates.ts";
import { allFeatures } from "../../src/decide/devices/search/features.ts";
import type { ResourceClaimSpec } from "../../src/model/kubernetes.generated.ts";
import { UserError } from "../../src/model/userError.ts";
import { DevicesCluster } from "./devicesCluster.ts";

const codeOf = (given: readonly string[]): string => {
  try {
    parseFeatureGates(given);
  } catch (error) {
    return error instanceof UserError ? `${error.code}: ${error.message}` : String(error);
  }
  return "accepted";
};

describe("--feature-gates", () => {
  test("gates are switched by Kubernetes' names, several in one flag or in many", () => {
    expect(parseFeatureGates(["DRAConsumableCapacity=false,DRAExtendedResource=false"])).toEqual({
      ...allFeatures,
      consumableCapacity: false,
      extendedResource: false,
    });
    expect(parseFeatureGates(["DRAConsumableCapacity=false", "DRAConsumableCapacity=true"])).toEqual(allFeatures);
  });

  test.each([
    ["DRANoSuchThing=true", 'unknown-feature-gate: there is no feature gate "DRANoSuchThing"'],
    ["__proto__=true", 'unknown-feature-gate: there is no feature gate "__proto__"'],
    ["", 'unknown-feature-gate: there is no feature gate ""'],
    ["DRAExtendedResource", "bad-feature-gate: feature gate DRAExtendedResource is without a value"],
    ["DRAExtendedResource=maybe", 'bad-feature-gate: feature gate DRAExtendedResource is "maybe"'],
    ["DRAExtendedResource=true=false", "bad-feature-gate"],
  ])("%s is refused by name", (given, message) => {
    expect(codeOf([given])).toContain(message);
  });
});

describe("a disabled feature", () => {
  test("DRAExtendedResource: no resource has a class, and the pod waits for a device plugin", async () => {
    const pod = async (cluster: DevicesCluster) => {
      await cluster.api.create("resource.k8s.io/deviceclasses", {
        apiVersion: "resource.k8s.io/v1",
        kind: "DeviceClass",
        metadata: { name: "extended" },
        spec: {
          selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }],
          extendedResourceName: "example.com/gpu",
        },
      });
      const resources = { limits: { "example.com/gpu": "1" } };
      await cluster.api.create("/pods", {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "p", namespace: "default" },
        spec: { containers: [{ name: "c", image: "registry/app:1", resources }] },
      });
      await cluster.run(5);
    };
    const off = await DevicesCluster.start({ devices: { features: { ...allFeatures, extendedResource: false } } });
    await pod(off);
    expect([off.phases(), off.claims()]).toEqual([["p waits"], []]);
    const on = await DevicesCluster.start();
    await pod(on);
    expect([on.phases(), on.claims().length]).toEqual([["p Running"], 1]);
  });

  test("DRAConsumableCapacity: a request for capacity is refused, and shares count as whole devices", async () => {
    const share: ResourceClaimSpec = {
      devices: {
        requests: [{ name: "gpu", exactly: { deviceClassName: "card", capacity: { requests: { memory: "4Gi" } } } }],
      },
    };
    const off = await DevicesCluster.start({ devices: { features: { ...allFeatures, consumableCapacity: false } } });
    await withCard(off);
    await off.claim("share", share);
    await off.pod("p", { claim: "share" });
    await off.run(5);
    expect(off.phases()).toEqual(["p waits"]);
    const on = await DevicesCluster.start();
    await withCard(on);
    for (const name of ["a", "b"]) {
      await on.claim(name, share);
      await on.pod(name, { claim: name });
    }
    await on.run(5);
    expect(on.given()).toEqual(["a cards/card-0", "b cards/card-0"]);
    await on.stop();
    // The same cluster, taken over by a process with the feature disabled: the device of two shares is not free.
    const later = await DevicesCluster.on(on.api, {
      devices: { features: { ...allFeatures, consumableCapacity: false } },
    });
    await later.claim("whole", { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "card" } }] } });
    await later.pod("whole", { claim: "whole" });
    await later.run(5);
    expect(later.phases()).toContain("whole waits");
  });
});

async function withCard(cluster: DevicesCluster): Promise<void> {
  await cluster.api.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "card" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "card.example.com"' } }] },
  });
  await cluster.api.create("resource.k8s.io/resourceslices", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name: "cards" },
    spec: {
      driver: "card.example.com",
      nodeName: "h100-0",
      pool: { name: "cards", generation: 1, resourceSliceCount: 1 },
      devices: [{ name: "card-0", allowMultipleAllocations: true, capacity: { memory: { value: "10Gi" } } }],
    },
  });
  await cluster.run(1);
}
