/** Settings of the binder, by flags and KAI's Config, and their effect on reservations. */
import { expect, test } from "vitest";
import { binderSettingsOf, withKaiConfig } from "../../src/cli/cluster/binderSettings.ts";
import { controlPlane } from "../../src/control/assembly/controlPlane.ts";
import type { BinderFlags } from "../../src/decide/bind/binderSettings.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused, succeeded } from "../../src/model/outcome.ts";
import { BindCluster } from "./bindCluster.ts";

const image = { repository: "example/kai", name: "resource-reservation", tag: "v1", pullPolicy: "Always" };

async function configured(binder: object | undefined): Promise<BindCluster> {
  const cluster = await BindCluster.create();
  if (binder === undefined) return cluster;
  await cluster.api.create("kai.scheduler/configs", {
    apiVersion: "kai.scheduler/v1",
    kind: "Config",
    metadata: { name: "kai-config" },
    spec: { binder },
  });
  return cluster;
}

/** The container of the reservation that a binder makes under these flags. */
async function container(cluster: BindCluster, flags: BinderFlags) {
  const options = { binder: { settings: binderSettingsOf(flags) } };
  const { binder } = controlPlane(await withKaiConfig(options, cluster.admin));
  const pod = await cluster.pod("f", { "gpu-fraction": "0.5" });
  await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["X"] });
  await cluster.start(binder);
  await cluster.run(3);
  expect(cluster.phase("f")).toBe("Succeeded");
  return cluster.reservations()[0]?.spec?.containers[0];
}

test("without flags and without a Config the defaults hold: an image that no registry can serve", async () => {
  const expected = {
    image: expect.stringMatching(/^muster\.invalid\//) as string,
    imagePullPolicy: "IfNotPresent",
    args: ["reservation-agent"],
  };
  expect(await container(await configured(undefined), {})).toMatchObject(expected);
});

test("the values of kai-config hold", async () => {
  const cluster = await configured({ resourceReservation: { image } });
  const expected = { image: "example/kai/resource-reservation:v1", imagePullPolicy: "Always" };
  expect(await container(cluster, {})).toMatchObject(expected);
});

test("flags win over kai-config, field by field", async () => {
  const cluster = await configured({ resourceReservation: { image } });
  const expected = { image: "example/mine", imagePullPolicy: "Always" };
  expect(await container(cluster, { reservationImage: "example/mine" })).toMatchObject(expected);
});

const fault = "spec.binder.maxConcurrentReconciles: Invalid value: 0: must be a whole number from 1 to 10000";

test("an invalid Config is refused with its field when it is written", async () => {
  await expect(configured({ maxConcurrentReconciles: 0 })).rejects.toThrow(fault);
});

test("a Config that was stored before validation existed is refused at the start", async () => {
  const config: object = { metadata: { name: "kai-config" }, spec: { binder: { maxConcurrentReconciles: 0 } } };
  const kube = { get: async <T extends KubeObject>() => succeeded(config as T) };
  const read = withKaiConfig({}, kube);
  await expect(read).rejects.toMatchObject({ code: "binder-setting-invalid", message: `kai-config: ${fault}` });
});

test("a Config that cannot be read is an error", async () => {
  const cluster = await configured({ resourceReservation: { image } });
  cluster.kube.faults = { before: () => refused("Unavailable", "down") };
  const read = withKaiConfig({}, cluster.kube);
  await expect(read).rejects.toMatchObject({ code: "kai-config-unreadable" });
});

test("an invalid flag is refused by its name", () => {
  expect(() => binderSettingsOf({ binderWorkers: "many" })).toThrow(
    '--binder-workers: Invalid value: "many": must be a whole number from 1 to 10000',
  );
});
