import { expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { settingsOfConfig, settingsOfFlags } from "./binderSettings.ts";

test("every flag is read", () => {
  const read = settingsOfFlags({
    binderWorkers: "10",
    volumeBindingTimeout: "3m",
    cdi: true,
    reservationImage: "example/reservation:1",
    reservationPullPolicy: "Always",
    reservationTimeout: "90s",
    reservationNamespace: "kai-resource-reservation",
    reservationServiceAccount: "reserver",
    reservationRuntimeClass: "nvidia",
    reservationResources: '{"requests":{"cpu":"10m"},"limits":{"memory":"64Mi","cpu":1}}',
    reservationPodSecurityContext: '{"runAsNonRoot":true}',
    reservationContainerSecurityContext: '{"readOnlyRootFilesystem":true}',
  });
  expect(read.problems).toEqual([]);
  expect(read.settings).toEqual({
    workers: 10,
    volumeTimeoutMs: 180_000,
    cdi: true,
    image: "example/reservation:1",
    pullPolicy: "Always",
    allocationTimeoutMs: 90_000,
    serviceAccountName: "reserver",
    runtimeClassName: "nvidia",
    podResources: { requests: { cpu: "10m" }, limits: { memory: "64Mi", cpu: "1" } },
    podSecurityContext: { runAsNonRoot: true },
    containerSecurityContext: { readOnlyRootFilesystem: true },
  });
});

test("every field of spec.binder is read", () => {
  const read = settingsOfConfig({
    maxConcurrentReconciles: 10,
    volumeBindingTimeoutSeconds: 30,
    cdiEnabled: true,
    resourceReservation: {
      image: { repository: "example/kai", name: "resource-reservation", tag: "v1", pullPolicy: "Never" },
      allocationTimeout: 60,
      namespace: "kai-resource-reservation",
      serviceAccountName: "reserver",
      appLabel: "kai-resource-reservation",
      runtimeClassName: "nvidia",
      podResources: { requests: { cpu: "10m" } },
      reservationPodSecurityContext: { runAsNonRoot: true },
      reservationContainerSecurityContext: { privileged: false },
    },
  });
  expect(read.problems).toEqual([]);
  expect(read.settings).toEqual({
    workers: 10,
    volumeTimeoutMs: 30_000,
    cdi: true,
    image: "example/kai/resource-reservation:v1",
    pullPolicy: "Never",
    allocationTimeoutMs: 60_000,
    serviceAccountName: "reserver",
    runtimeClassName: "nvidia",
    podResources: { requests: { cpu: "10m" } },
    podSecurityContext: { runAsNonRoot: true },
    containerSecurityContext: { privileged: false },
  });
});

test("a setting that is left out is not set, and an empty runtime class is none", () => {
  expect(settingsOfConfig(undefined).settings).toEqual({});
  const binder = { resourceReservation: { runtimeClassName: "", image: {} } };
  expect(settingsOfConfig(binder)).toMatchObject({ settings: {}, problems: [] });
  expect(settingsOfFlags({})).toMatchObject({ settings: {}, problems: [] });
});

test.each([
  [{ binderWorkers: "ten" }, "--binder-workers"],
  [{ binderWorkers: "0" }, "--binder-workers"],
  [{ reservationTimeout: "soon" }, "--reservation-timeout"],
  [{ reservationTimeout: "0" }, "--reservation-timeout"],
  [{ volumeBindingTimeout: "-1" }, "--volume-binding-timeout"],
  [{ reservationImage: "" }, "--reservation-image"],
  [{ reservationPullPolicy: "Sometimes" }, "--reservation-pull-policy"],
  [{ reservationNamespace: "other" }, "can only be kai-resource-reservation here"],
  [{ reservationResources: "cpu=1" }, "--reservation-resources"],
  [{ reservationResources: '{"limits":{"cpu":"10banana"}}' }, "--reservation-resources"],
  [{ reservationResources: '{"limits":{"cpu":"..."}}' }, "--reservation-resources"],
  [{ reservationResources: '{"requests":{"cpu":"-1"}}' }, "--reservation-resources"],
  [{ reservationServiceAccount: "A_b" }, "--reservation-service-account"],
  [{ reservationRuntimeClass: "X_Y" }, "--reservation-runtime-class"],
  [{ reservationResources: '{"cpu":"1"}' }, "--reservation-resources"],
  [{ reservationPodSecurityContext: "[]" }, "--reservation-pod-security-context"],
])("an invalid flag is refused by its name: %j", (flags, named) => {
  const { problems, settings } = settingsOfFlags(flags);
  expect(problems).toHaveLength(1);
  expect(problems[0] && describeFieldError(problems[0])).toContain(named);
  expect(settings).toEqual({});
});

test.each([
  [{ maxConcurrentReconciles: 0 }, "spec.binder.maxConcurrentReconciles"],
  [{ maxConcurrentReconciles: "10" as never }, "spec.binder.maxConcurrentReconciles"],
  [{ cdiEnabled: "yes" as never }, "spec.binder.cdiEnabled"],
  [{ resourceReservation: { allocationTimeout: 0.5 } }, "spec.binder.resourceReservation.allocationTimeout"],
  [{ resourceReservation: { image: { tag: 1 } } }, "spec.binder.resourceReservation.image.tag"],
  [{ resourceReservation: { image: { pullPolicy: "x" } } }, "spec.binder.resourceReservation.image.pullPolicy"],
  [{ resourceReservation: { namespace: "x" } }, "spec.binder.resourceReservation.namespace"],
  [{ resourceReservation: { appLabel: "x" } }, "spec.binder.resourceReservation.appLabel"],
  [{ resourceReservation: { podResources: { cpu: "1" } } }, "spec.binder.resourceReservation.podResources"],
])("an invalid field is refused by its path: %j", (binder, named) => {
  const { problems } = settingsOfConfig(binder);
  expect(problems).toHaveLength(1);
  expect(problems[0]?.field).toBe(named);
});
