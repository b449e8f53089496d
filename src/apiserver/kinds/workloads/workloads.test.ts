import { expect, test } from "vitest";
import { create, type Draft, update, updateStatus, world } from "../../../../test/fixtures/kindWrites.ts";
import { strategyFor } from "../strategies.ts";
import { cronScheduleProblem } from "./cronSchedule.ts";

const template = (spec: object = {}): Draft => ({
  metadata: { labels: { app: "a" } },
  spec: { containers: [{ name: "c", image: "i:1" }], ...spec },
});
const selector = { matchLabels: { app: "a" } };
const workload = (spec: object = {}): Draft => ({
  metadata: { name: "w", namespace: "ns" },
  spec: { selector, template: template(), ...spec },
});
const job = (spec: object = {}): Draft => ({
  metadata: { name: "w", namespace: "ns" },
  spec: { template: template({ restartPolicy: "Never" }), ...spec },
});
const cron = (spec: object = {}): Draft => ({
  metadata: { name: "w", namespace: "ns" },
  spec: {
    schedule: "*/5 * * * *",
    jobTemplate: { spec: { template: template({ restartPolicy: "OnFailure" }) } },
    ...spec,
  },
});

test.each<[string, string, Draft, object]>([
  [
    "a Deployment",
    "apps/deployments",
    workload(),
    {
      replicas: 1,
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "25%", maxSurge: "25%" } },
      template: { spec: { restartPolicy: "Always", containers: [{ imagePullPolicy: "IfNotPresent" }] } },
    },
  ],
  ["a ReplicaSet", "apps/replicasets", workload(), { replicas: 1 }],
  [
    "a StatefulSet",
    "apps/statefulsets",
    workload({ serviceName: "s" }),
    {
      replicas: 1,
      podManagementPolicy: "OrderedReady",
      revisionHistoryLimit: 10,
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
    },
  ],
  [
    "a DaemonSet",
    "apps/daemonsets",
    workload(),
    {
      revisionHistoryLimit: 10,
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } },
    },
  ],
  [
    "a Job",
    "batch/jobs",
    job(),
    {
      completions: 1,
      parallelism: 1,
      backoffLimit: 6,
      completionMode: "NonIndexed",
      suspend: false,
      manualSelector: false,
      podReplacementPolicy: "TerminatingOrFailed",
    },
  ],
  [
    "a CronJob",
    "batch/cronjobs",
    cron(),
    { concurrencyPolicy: "Allow", suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 },
  ],
])("%s is accepted with its defaults", (_name, key, draft, spec) => {
  const written = create(key, draft);
  expect(written.errors).toEqual([]);
  expect(written.object.spec).toMatchObject(spec);
});

test("a ReplicationController takes selector and labels from its template", () => {
  const { object, errors } = create("/replicationcontrollers", {
    metadata: { name: "r" },
    spec: { template: template() },
  });
  expect(errors).toEqual([]);
  expect([object.spec.selector, object.metadata.labels]).toEqual([{ app: "a" }, { app: "a" }]);
});

test("templates do not get what only pods get", () => {
  const { spec } = create("apps/deployments", workload({ template: template({ hostNetwork: true }) })).object.spec
    .template;
  expect(spec.enableServiceLinks).toBeUndefined();
  expect(spec.tolerations).toBeUndefined();
});

test.each<[string, string, Draft, string]>([
  ["no selector", "apps/deployments", workload({ selector: undefined }), "spec.selector: Required value"],
  [
    "an empty selector",
    "apps/replicasets",
    workload({ selector: {} }),
    "spec.selector: Invalid value: {}: empty selector is invalid for replicaset",
  ],
  [
    "a selector that misses the template",
    "apps/deployments",
    workload({ selector: { matchLabels: { app: "b" } } }),
    'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
  ],
  [
    "fewer than no replicas",
    "apps/deployments",
    workload({ replicas: -1 }),
    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
  ],
  [
    "pods that end",
    "apps/daemonsets",
    workload({ template: template({ restartPolicy: "Never" }) }),
    'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
  ],
  [
    "a bad container",
    "apps/statefulsets",
    workload({ template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c" }] } } }),
    "spec.template.spec.containers[0].image: Required value",
  ],
  [
    "a rollout that can neither add nor remove",
    "apps/deployments",
    workload({ strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 0 } } }),
    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
  ],
  [
    "a rollout of 150 %",
    "apps/deployments",
    workload({ strategy: { rollingUpdate: { maxUnavailable: "150%" } } }),
    'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be greater than 100%',
  ],
  [
    "Recreate with a rollout",
    "apps/deployments",
    workload({ strategy: { type: "Recreate", rollingUpdate: {} } }),
    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
  ],
  [
    "a deadline before readiness",
    "apps/deployments",
    workload({ minReadySeconds: 600 }),
    "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
  ],
  [
    "a job that restarts for ever",
    "batch/jobs",
    job({ template: template() }),
    'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
  ],
  [
    "an indexed job of no size",
    "batch/jobs",
    job({ completionMode: "Indexed", parallelism: 1 }),
    "spec.completions: Required value: when completion mode is Indexed",
  ],
  [
    "retries per index without indexes",
    "batch/jobs",
    job({ backoffLimitPerIndex: 1 }),
    "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
  ],
  [
    "a schedule of three fields",
    "batch/cronjobs",
    cron({ schedule: "* * *" }),
    'spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]',
  ],
  [
    "a zone in the schedule",
    "batch/cronjobs",
    cron({ schedule: "TZ=UTC 0 0 * * *" }),
    'spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead',
  ],
  [
    "an unknown zone",
    "batch/cronjobs",
    cron({ timeZone: "Mars/Base" }),
    'spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base',
  ],
  [
    "an unknown concurrency",
    "batch/cronjobs",
    cron({ concurrencyPolicy: "Maybe" }),
    'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
  ],
])("a workload is invalid: %s", (_name, key, draft, error) => {
  expect(create(key, draft).errors).toContain(error);
});

test("a job's pods are marked with its uid, and its selector picks them", () => {
  const { spec, metadata } = create("batch/jobs", job()).object;
  expect(spec.selector).toEqual({ matchLabels: { "batch.kubernetes.io/controller-uid": metadata.uid } });
  expect(spec.template.metadata.labels).toEqual({
    app: "a",
    "job-name": "w",
    "batch.kubernetes.io/job-name": "w",
    "controller-uid": metadata.uid,
    "batch.kubernetes.io/controller-uid": metadata.uid,
  });
});

test("a job with its own selector requires manualSelector", () => {
  const own = { selector: { matchLabels: { app: "a" } } };
  expect(create("batch/jobs", job(own)).errors.some((text) => text.includes("`selector` not auto-generated"))).toBe(
    true,
  );
  expect(create("batch/jobs", job({ ...own, manualSelector: true })).errors).toEqual([]);
});

test("with limits per index the total is unlimited", () => {
  const spec = { completionMode: "Indexed", completions: 3, backoffLimitPerIndex: 1 };
  expect(create("batch/jobs", job(spec)).object.spec.backoffLimit).toBe(2147483647);
});

test("a job with a name that is no host name is warned about", () => {
  const context = world();
  create("batch/jobs", { ...job(), metadata: { name: "a.b", namespace: "ns" } }, context);
  expect(context.warnings[0]).toContain("a DNS label is recommended");
});

// biome-ignore lint/suspicious/noExplicitAny: edits walk into untyped objects.
type Edit = (object: any) => void;

test.each<[string, string, Draft, Edit, string]>([
  [
    "a Deployment's selector",
    "apps/deployments",
    workload(),
    (d) => {
      d.spec.selector.matchLabels.b = "1";
      d.spec.template.metadata.labels.b = "1";
    },
    "spec.selector: Invalid value",
  ],
  [
    "a StatefulSet's service",
    "apps/statefulsets",
    workload({ serviceName: "s" }),
    (s) => (s.spec.serviceName = "t"),
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
  ],
  [
    "a Job's template",
    "batch/jobs",
    job(),
    (j) => (j.spec.template.spec.containers[0].image = "x"),
    "spec.template: Invalid value",
  ],
  [
    "a Job's completions",
    "batch/jobs",
    job(),
    (j) => (j.spec.completions = 3),
    "spec.completions: Invalid value: 3: field is immutable",
  ],
])("%s cannot change", (_name, key, draft, edit, error) => {
  const { errors } = update(key, create(key, draft).object, edit);
  expect(errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test("a suspended job that never ran may still get other scheduling directives", () => {
  const stored = create("batch/jobs", job({ suspend: true })).object;
  stored.status = {};
  const edit: Edit = (j) => {
    j.spec.template.spec.nodeSelector = { zone: "a" };
    j.spec.template.spec.tolerations = [{ key: "x", operator: "Exists" }];
    j.spec.template.spec.affinity = {
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, preference: { matchExpressions: [{ key: "k", operator: "Exists" }] } },
        ],
      },
    };
    j.spec.template.metadata.annotations = { note: "x" };
    j.spec.suspend = false;
  };
  expect(update("batch/jobs", stored, edit).errors).toEqual([]);
  stored.status.startTime = "2026-01-01T00:00:00Z";
  expect(update("batch/jobs", stored, edit).errors).toHaveLength(1);
});

test("an elastic indexed job grows in step", () => {
  const stored = create("batch/jobs", job({ completionMode: "Indexed", completions: 2, parallelism: 2 })).object;
  expect(
    update("batch/jobs", stored, (j) => {
      j.spec.completions = 4;
      j.spec.parallelism = 4;
    }).errors,
  ).toEqual([]);
  expect(update("batch/jobs", stored, (j) => (j.spec.completions = 4)).errors).toEqual([
    "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism",
  ]);
});

test("a Deployment's replicas and template can change", () => {
  const stored = create("apps/deployments", workload()).object;
  expect(
    update("apps/deployments", stored, (d) => {
      d.spec.replicas = 5;
      d.spec.template.spec.containers[0].image = "i:2";
    }).errors,
  ).toEqual([]);
});

test.each<[string, string, Draft, object, string]>([
  [
    "more ready than there are",
    "apps/replicasets",
    workload(),
    { replicas: 1, readyReplicas: 2 },
    "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
  ],
  [
    "negative counts",
    "apps/daemonsets",
    workload(),
    { numberReady: -1 },
    "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
  ],
  [
    "completed without an end",
    "batch/jobs",
    job(),
    { conditions: [{ type: "Complete", status: "True" }] },
    "status.completionTime: Required value: completionTime is required for Complete jobs",
  ],
  [
    "both complete and failed",
    "batch/jobs",
    job(),
    {
      completionTime: "2026-01-01T00:00:00Z",
      conditions: [
        { type: "Complete", status: "True" },
        { type: "Failed", status: "True" },
      ],
    },
    "status.conditions: Invalid value",
  ],
])("a status may not say %s", (_name, key, draft, status, error) => {
  const { errors } = updateStatus(key, create(key, draft).object, (object) => (object.status = status));
  expect(errors.some((text) => text.startsWith(error))).toBe(true);
});

test.each([
  ["*/5 * * * *", true],
  ["0 9-17 * * mon-fri", true],
  ["0 0 1,15 JAN ?", true],
  ["@daily", true],
  ["@every 1h30m", true],
  ["60 * * * *", false],
  ["* * 0 * *", false],
  ["5-1 * * * *", false],
  ["*/0 * * * *", false],
  ["@sometimes", false],
  ["a * * * *", false],
  ["", false],
])("schedule %j is valid: %s", (text, valid) => {
  expect(cronScheduleProblem(text) === undefined).toBe(valid);
});

test.each(["apps/deployments", "apps/statefulsets", "apps/daemonsets", "batch/jobs", "batch/cronjobs"])(
  "defaults of %s are idempotent",
  (key) => {
    const draft = key === "batch/jobs" ? job() : key === "batch/cronjobs" ? cron() : workload();
    const { object } = create(key, draft);
    const before = JSON.stringify(object);
    strategyFor(key).setDefaults?.(object);
    expect(JSON.stringify(object)).toBe(before);
    expect(update(key, object, () => {}).errors).toEqual([]);
  },
);
