import { expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { tableOf } from "../../snapshot/kindTable.ts";
import { DeviceModel } from "./deviceModel.ts";

function slice(name: string, generation: number): ResourceSlice {
  return partly<ResourceSlice>({
    metadata: { name, uid: name, resourceVersion: "1" },
    spec: {
      driver: "gpu.example.com",
      nodeName: "n1",
      pool: { name: "n1", generation, resourceSliceCount: 1 },
      devices: [{ name: `of-${name}` }],
    },
  });
}

function claimFor(pod: string, resourceVersion: string): ResourceClaim {
  return partly<ResourceClaim>({
    metadata: { name: "c", namespace: "default", uid: "c", resourceVersion },
    status: { reservedFor: [{ resource: "pods", name: pod, uid: pod }] },
  });
}

function modelOf(
  given: { slices?: ResourceSlice[]; claims?: ResourceClaim[]; pods?: Pod[] },
  podsAt = "5",
): DeviceModel {
  return new DeviceModel({
    pods: tableOf(given.pods ?? [], podsAt),
    claims: tableOf(given.claims ?? [], "9"),
    slices: tableOf(given.slices ?? [], "9"),
    classes: tableOf([], "9"),
    rules: tableOf([], "9"),
  });
}

test("while a pool is being published again, the newest generation counts", () => {
  const model = modelOf({ slices: [slice("old", 1), slice("new", 2)] });
  expect(model.slicesOn("n1").map(({ metadata }) => metadata.name)).toEqual(["new"]);
});

test("a claim that is reserved for a pod that is gone is about to be free", () => {
  expect([...modelOf({ claims: [claimFor("p", "4")] }).departedPods()].map(([uid]) => uid)).toEqual(["p"]);
});

test("a claim that is newer than the pods may be reserved for a pod that is not observed yet", () => {
  const claims = [claimFor("p", "7")];
  expect([...modelOf({ claims }).departedPods()]).toEqual([]);
  const model = modelOf({ claims });
  let freed = 0;
  model.onFreed(() => freed++);
  model.tables.pods.apply({ type: "bookmark", revision: "8" });
  model.observed("pods", [], false);
  expect([...model.departedPods()].map(([uid]) => uid)).toEqual(["p"]);
  expect(freed).toBe(1);
});

test("a pod that exists and has not finished keeps its claim", () => {
  const pod = (phase: string) =>
    partly<Pod>({
      metadata: { name: "p", namespace: "default", uid: "p", resourceVersion: "2" },
      spec: { nodeName: "n1" },
      status: { phase },
    });
  const claims = [claimFor("p", "4")];
  expect([...modelOf({ claims, pods: [pod("Running")] }).departedPods()]).toEqual([]);
  expect([...modelOf({ claims, pods: [pod("Succeeded")] }).departedPods()].map(([uid]) => uid)).toEqual(["p"]);
});
