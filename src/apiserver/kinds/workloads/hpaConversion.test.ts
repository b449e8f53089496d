import { expect, test } from "vitest";
import { create, nowText } from "../../../../test/fixtures/kindWrites.ts";
import type { HorizontalPodAutoscaler, V1HorizontalPodAutoscaler } from "../../../model/kubernetes.generated.ts";
import { autoscalerFromV1, autoscalerToV1 } from "./hpaConversion.ts";

const metadata = { name: "h", namespace: "ns", uid: "u", resourceVersion: "1", creationTimestamp: nowText };
const cpu = { type: "Resource", resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 60 } } };
const stored: HorizontalPodAutoscaler = {
  apiVersion: "autoscaling/v2",
  kind: "HorizontalPodAutoscaler",
  metadata: { ...metadata, annotations: { mine: "x" } },
  spec: {
    maxReplicas: 5,
    minReplicas: 2,
    scaleTargetRef: { kind: "Deployment", name: "d", apiVersion: "apps/v1" },
    metrics: [
      { type: "Pods", pods: { metric: { name: "qps" }, target: { type: "AverageValue", averageValue: "10" } } },
      cpu,
    ],
    behavior: { scaleDown: { selectPolicy: "Min" } },
  },
  status: {
    currentReplicas: 3,
    desiredReplicas: 4,
    currentMetrics: [
      { type: "Resource", resource: { name: "cpu", current: { averageUtilization: 55, averageValue: "1" } } },
    ],
    conditions: [{ type: "AbleToScale", status: "True" }],
  },
};

test("v1 shows cpu as a number, and carries the rest in annotations", () => {
  const seen = autoscalerToV1(stored);
  expect(seen.spec).toEqual({
    maxReplicas: 5,
    minReplicas: 2,
    scaleTargetRef: { kind: "Deployment", name: "d", apiVersion: "apps/v1" },
    targetCPUUtilizationPercentage: 60,
  });
  expect(seen.status).toEqual({ currentReplicas: 3, desiredReplicas: 4, currentCPUUtilizationPercentage: 55 });
  expect(Object.keys(seen.metadata.annotations ?? {}).sort()).toEqual([
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
    "mine",
  ]);
});

test("reading as v1 and writing back loses nothing", () => {
  expect(autoscalerFromV1(autoscalerToV1(stored))).toEqual(stored);
});

test("annotations that do not parse are dropped", () => {
  const broken = autoscalerToV1(stored);
  broken.metadata = { ...metadata, annotations: { "autoscaling.alpha.kubernetes.io/metrics": "{" } };
  expect(autoscalerFromV1(broken).spec.metrics).toEqual([cpu]);
});

test("a v1 autoscaler is defaulted and judged in its own shape", () => {
  const draft: Partial<V1HorizontalPodAutoscaler> = {
    apiVersion: "autoscaling/v1",
    kind: "HorizontalPodAutoscaler",
    spec: { maxReplicas: 3, scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "d" } },
  };
  const { object, errors } = create("autoscaling/horizontalpodautoscalers", draft as never);
  expect(errors).toEqual([]);
  expect(object.spec).toMatchObject({ minReplicas: 1, targetCPUUtilizationPercentage: 80 });
  expect(object.spec.metrics).toBeUndefined();
});

test("an event of events.k8s.io is judged in its own shape", () => {
  const draft = {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: "e", namespace: "ns" },
    regarding: { kind: "Pod", namespace: "ns", name: "p" },
    eventTime: "2026-01-01T00:00:00.000000Z",
    reportingController: "c.example.com/x",
    reportingInstance: "i",
    action: "Bind",
    reason: "Bound",
    type: "Normal",
  };
  expect(create("/events", draft).errors).toEqual([]);
  expect(create("/events", { ...draft, action: "" }).errors).toEqual(["action: Required value"]);
});
