/**
 * autoscaling/v1 has one metric, cpu; the stored v2 has many. Fields that v1 does not have are kept in annotations, so
 * that a v1 client that reads, edits and writes an autoscaler does not lose them.
 */

import type {
  HorizontalPodAutoscaler,
  HorizontalPodAutoscalerBehavior,
  HorizontalPodAutoscalerCondition,
  MetricSpec,
  MetricStatus,
  V1HorizontalPodAutoscaler,
} from "../../../model/kubernetes.generated.ts";
import { isObject } from "../../../model/objects/json.ts";

const metricsAnnotation = "autoscaling.alpha.kubernetes.io/metrics";
const currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics";
const conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions";
const behaviorAnnotation = "autoscaling.alpha.kubernetes.io/behavior";
const carried = [metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation];

export function autoscalerToV1(autoscaler: HorizontalPodAutoscaler): V1HorizontalPodAutoscaler {
  const { spec, status } = autoscaler;
  const metadata = { ...autoscaler.metadata };
  const annotations = withoutCarried(metadata.annotations);
  const { metrics = [], behavior, ...sharedSpec } = spec;
  const result: V1HorizontalPodAutoscaler = {
    apiVersion: "autoscaling/v1",
    kind: autoscaler.kind,
    metadata,
    spec: sharedSpec,
  };
  const cpuMetric = metrics.find(isCpuUtilization);
  const target = cpuMetric?.resource?.target.averageUtilization;
  if (target !== undefined) result.spec.targetCPUUtilizationPercentage = target;
  const others = metrics.filter((metric) => metric !== cpuMetric);
  if (others.length > 0) annotations[metricsAnnotation] = JSON.stringify(others);
  if (behavior !== undefined) annotations[behaviorAnnotation] = JSON.stringify(behavior);
  if (status !== undefined) {
    const { currentMetrics: measured, conditions = [], currentReplicas = 0, ...shared } = status;
    const currentMetrics = measured ?? [];
    result.status = { ...shared, currentReplicas };
    const cpu = currentMetrics.find((metric) => metric.type === "Resource" && metric.resource?.name === "cpu");
    const current = cpu?.resource?.current.averageUtilization;
    if (current !== undefined) result.status.currentCPUUtilizationPercentage = current;
    if (currentMetrics.length > 0) annotations[currentMetricsAnnotation] = JSON.stringify(currentMetrics);
    if (conditions.length > 0) annotations[conditionsAnnotation] = JSON.stringify(conditions);
  }
  setAnnotations(metadata, annotations);
  return result;
}

export function autoscalerFromV1(autoscaler: V1HorizontalPodAutoscaler): HorizontalPodAutoscaler {
  const { spec, status } = autoscaler;
  const metadata = { ...autoscaler.metadata };
  const { targetCPUUtilizationPercentage, ...sharedSpec } = spec;
  const result: HorizontalPodAutoscaler = {
    apiVersion: "autoscaling/v2",
    kind: autoscaler.kind,
    metadata,
    spec: sharedSpec,
  };
  const metrics: MetricSpec[] = readList(metadata.annotations, metricsAnnotation);
  if (targetCPUUtilizationPercentage !== undefined) {
    const target = { type: "Utilization", averageUtilization: targetCPUUtilizationPercentage };
    metrics.push({ type: "Resource", resource: { name: "cpu", target } });
  }
  if (metrics.length > 0) result.spec.metrics = metrics;
  const behavior = readJson(metadata.annotations, behaviorAnnotation);
  if (isObject(behavior)) result.spec.behavior = behavior as HorizontalPodAutoscalerBehavior;
  if (status !== undefined) {
    const { currentCPUUtilizationPercentage, ...shared } = status;
    result.status = { ...shared };
    let currentMetrics: MetricStatus[] = readList(metadata.annotations, currentMetricsAnnotation);
    if (currentMetrics.length === 0 && currentCPUUtilizationPercentage !== undefined) {
      const current = { averageUtilization: currentCPUUtilizationPercentage };
      currentMetrics = [{ type: "Resource", resource: { name: "cpu", current } }];
    }
    if (currentMetrics.length > 0) result.status.currentMetrics = currentMetrics;
    const conditions: HorizontalPodAutoscalerCondition[] = readList(metadata.annotations, conditionsAnnotation);
    if (conditions.length > 0) result.status.conditions = conditions;
  }
  setAnnotations(metadata, withoutCarried(metadata.annotations));
  return result;
}

function isCpuUtilization(metric: MetricSpec): boolean {
  return (
    metric.type === "Resource" &&
    metric.resource?.name === "cpu" &&
    metric.resource.target.averageUtilization !== undefined
  );
}

function withoutCarried(annotations: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations ?? {}).filter(([key]) => !carried.includes(key)));
}

function setAnnotations(metadata: { annotations?: Record<string, string> }, annotations: Record<string, string>): void {
  if (Object.keys(annotations).length > 0) metadata.annotations = annotations;
  else delete metadata.annotations;
}

/** Annotations are free text of any client: invalid JSON is dropped, as upstream. */
function readJson(annotations: Record<string, string> | undefined, key: string): unknown {
  const text = annotations?.[key];
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function readList<T>(annotations: Record<string, string> | undefined, key: string): T[] {
  const value = readJson(annotations, key);
  return Array.isArray(value) ? (value as T[]) : [];
}
