import { expect, test } from "vitest";
import { describeFieldError } from "../objects/fieldError.ts";
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

test.each([
  [{ gangTermination: { fullLossPolcy: "Terminate" } }, "gangTermination.fullLossPolcy", "fullLossPolicy"],
  [{ gangTermination: { policy: "Terminate" } }, "gangTermination.policy", "fullLossPolicy"],
  [{ gangTerminaton: { fullLossPolicy: "Terminate" } }, "gangTerminaton", "gangTermination"],
  [{ GangTermination: { fullLossPolicy: "Terminate" } }, "GangTermination", "gangTermination"],
  [{ scheduler: { defaultProfile: "kai-scheduler" } }, "scheduler.defaultProfile", "defaultProfileName"],
  [{ scheduler: { profiles: [{ nmae: "kai-scheduler" }] } }, "scheduler.profiles[0].nmae", "name"],
  [{ controllers: { podCliques: {} } }, "controllers.podCliques", "podClique"],
  [{ controllers: { podClique: { concurrentSync: 3 } } }, "controllers.podClique.concurrentSync", "concurrentSyncs"],
  [{ topologyAwareScheduling: { enable: true } }, "topologyAwareScheduling.enable", "enabled"],
  [{ authorizer: { isEnabled: true } }, "authorizer.isEnabled", "enabled"],
  [{ leaderElection: { leaseDurations: "15s" } }, "leaderElection.leaseDurations", "leaseDuration"],
  [{ network: { autoMNNVL: true } }, "network.autoMNNVL", "autoMNNVLEnabled"],
  [{ gangTermination: { constructor: "x" } }, "gangTermination.constructor", "fullLossPolicy"],
  [{ initContainer: { img: "x" } }, "initContainer.img", "image"],
])("a misspelt field is refused with its path and the nearest known one: %j", (fields, field, nearest) => {
  const result = configuration(fields);
  const errors = "errors" in result ? result.errors.map(describeFieldError) : [];
  expect(errors).toContain(`${field}: Forbidden: unknown field; the nearest known one is ${nearest}`);
});

test.each([
  [{ gangTermination: "Terminate" }, 'gangTermination: Invalid value: "Terminate": must be an object'],
  [{ scheduler: { profiles: { name: "kai-scheduler" } } }, "must be a list"],
])("a section of another type is refused: %j", (fields, message) => {
  const result = configuration(fields);
  expect("errors" in result && result.errors.map(describeFieldError).join()).toContain(message);
});

test("the file that Grove's chart writes is accepted, with fields and sections that have no effect here", () => {
  const file = {
    runtimeClientConnection: { qps: 100, burst: 150 },
    leaderElection: {
      enabled: true,
      leaseDuration: "15s",
      renewDeadline: "10s",
      retryPeriod: "2s",
      resourceLock: "leases",
      resourceName: "grove-operator-leader-election",
      resourceNamespace: "grove-system",
    },
    server: {
      webhooks: { port: 9443, serverCertDir: "/etc/certs", secretName: "cert", certProvisionMode: "auto" },
      healthProbes: { enable: true, port: 9444 },
      metrics: { port: 9445 },
    },
    debugging: { enableProfiling: false, pprofBindHost: "127.0.0.1", pprofBindPort: 2753 },
    controllers: {
      podCliqueSet: { concurrentSyncs: 3 },
      podClique: { concurrentSyncs: 3 },
      podCliqueScalingGroup: { concurrentSyncs: 3 },
    },
    scheduler: {
      profiles: [{ name: "default-scheduler", config: { gangScheduling: true } }, { name: "kai-scheduler" }],
      defaultProfileName: "kai-scheduler",
    },
    logLevel: "info",
    logFormat: "json",
    topologyAwareScheduling: { enabled: false },
    authorizer: {
      enabled: true,
      reconcilerServiceAccountUserName: "system:serviceaccount:grove-system:grove-operator",
      exemptServiceAccountUserNames: ["system:kube-controller-manager"],
    },
    network: { autoMNNVLEnabled: false },
    gangTermination: null,
    aSectionOfNextYear: { colour: "blue" },
  };
  expect(configuration(file)).toMatchObject({
    settings: { defaultProfile: "kai-scheduler", concurrency: { podClique: 3 }, fullLossPolicy: "Suppress" },
  });
});
