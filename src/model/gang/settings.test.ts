import { expect, test } from "vitest";
import { readGangConfiguration } from "./settings.ts";

const configuration = (fields: object = {}) =>
  readGangConfiguration({ apiVersion: "operator.config.grove.io/v1alpha1", kind: "OperatorConfiguration", ...fields });

test("an empty configuration has Grove's defaults", () => {
  expect(configuration()).toMatchObject({
    settings: {
      profiles: ["default-scheduler"],
      defaultProfile: "default-scheduler",
      topologyAware: false,
      fullLossPolicy: "Suppress",
      concurrency: { podCliqueSet: 10, podClique: 10, podCliqueScalingGroup: 5, podGang: 5 },
      authorizer: { enabled: false, exemptUsers: [] },
    },
  });
});

test("the default scheduler is always there", () => {
  expect(configuration({ scheduler: { profiles: [{ name: "kai-scheduler" }] } })).toMatchObject({
    settings: { profiles: ["kai-scheduler", "default-scheduler"] },
  });
});

test.each([
  ["an unknown profile", { scheduler: { profiles: [{ name: "slurm" }] } }, "scheduler.profiles[0].name"],
  ["a profile twice", { scheduler: { profiles: [{ name: "kai-scheduler" }, { name: "kai-scheduler" }] } }, "[1].name"],
  ["a default that is no profile", { scheduler: { defaultProfileName: "kai-scheduler" } }, "defaultProfileName"],
  ["a policy that does not exist", { gangTermination: { fullLossPolicy: "Maybe" } }, "fullLossPolicy"],
  ["no workers", { controllers: { podClique: { concurrentSyncs: 0 } } }, "controllers.podClique.concurrentSyncs"],
  ["a level of logging that does not exist", { logLevel: "loud" }, "logLevel"],
  ["what is not built", { network: { autoMNNVLEnabled: true } }, "network.autoMNNVLEnabled"],
  ["another kind", { kind: "Something" }, "kind"],
])("%s is refused", (_, fields, field) => {
  const result = configuration(fields);
  expect("errors" in result && result.errors.map((error) => error.field).join(" ")).toContain(field);
});
