/** The examples about claims behave as documented: applied as files, observed through the API. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { DevicesCluster } from "./devicesCluster.ts";

async function apply(file: string): Promise<DevicesCluster> {
  const cluster = await DevicesCluster.start();
  const text = readFileSync(new URL(`../../examples/${file}`, import.meta.url), "utf8");
  for (const document of parseAllDocuments(text)) {
    const object = document.toJS() as KubeObject;
    const plural = object.kind === "DeviceClass" ? "deviceclasses" : `${object.kind.toLowerCase()}s`;
    const resource = object.apiVersion === "v1" ? `/${plural}` : `resource.k8s.io/${plural}`;
    if (object.kind === "DeviceClass" && object.metadata.name === "gpu") continue;
    await cluster.api.create(resource, object);
  }
  await cluster.run(10);
  return cluster;
}

test("a single GPU", async () => {
  const cluster = await apply("claim-single-gpu.yaml");
  expect(cluster.phases()).toEqual(["single-gpu Running"]);
});

test("two containers and a second pod share a claim", async () => {
  const cluster = await apply("claim-shared.yaml");
  expect(cluster.phases()).toEqual(["shared-second-pod Running", "shared-two-containers Running"]);
  expect(cluster.given()).toEqual(["shared-gpu h100-0/gpu-0"]);
});

test("the first available alternative", async () => {
  const cluster = await apply("claim-first-available.yaml");
  expect(cluster.phases()).toEqual(["big-or-two Running"]);
  expect(cluster.claims()[0]?.status?.allocation?.devices?.results?.map(({ request }) => request)).toEqual([
    "gpu/two",
    "gpu/two",
  ]);
});

test("a partition", async () => {
  const cluster = await apply("claim-partition.yaml");
  expect(cluster.phases()).toEqual(["half-gpu Running"]);
  expect(cluster.given().map((each) => each.split(" ")[1])).toEqual(["mig/gpu-0-half-0"]);
});

test("two shares of one card", async () => {
  const cluster = await apply("claim-share.yaml");
  expect(cluster.phases()).toEqual(["share-a Running", "share-b Running"]);
  const results = cluster.claims().flatMap(({ status }) => status?.allocation?.devices?.results ?? []);
  expect(results.map(({ device, consumedCapacity }) => [device, consumedCapacity])).toEqual([
    ["card-0", { memory: "4G" }],
    ["card-0", { memory: "4G" }],
  ]);
  expect(new Set(results.map(({ shareID }) => shareID)).size).toBe(2);
});

test("a tainted device runs the pod for as long as it tolerates the taint, and then the pod is evicted", async () => {
  const cluster = await apply("claim-taint.yaml");
  await cluster.run(60);
  expect(cluster.phases()).toEqual([]);
  const [rule] = cluster.all<{ status?: { conditions?: { reason: string }[] } }>("resource.k8s.io/devicetaintrules");
  expect(rule?.status?.conditions?.[0]?.reason).toBe("Completed");
});
