/** Tables of PodDisruptionBudgets and HorizontalPodAutoscalers. */

import type {
  HorizontalPodAutoscaler,
  MetricSpec,
  MetricStatus,
  MetricTarget,
  MetricValueStatus,
  PodDisruptionBudget,
  V1HorizontalPodAutoscaler,
} from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { firstOf, none, unknown, unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";

export const podDisruptionBudgetTable = tableOf<PodDisruptionBudget>(
  [
    nameColumn,
    column("Min Available", "Minimum number of available pods."),
    column("Max Unavailable", "Maximum number of unavailable pods."),
    column("Allowed Disruptions", "Pods that may be evicted now.", "integer"),
    ageColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    String(spec?.minAvailable ?? "N/A"),
    String(spec?.maxUnavailable ?? "N/A"),
    status?.disruptionsAllowed ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

/** For both served versions: v1 has one metric, cpu utilization. */
export const horizontalPodAutoscalerTable = tableOf<HorizontalPodAutoscaler | V1HorizontalPodAutoscaler>(
  [
    nameColumn,
    column("Reference", "The scale target."),
    column("Targets", "Current and target values of the first metrics."),
    column("MinPods", "Minimum number of replicas."),
    column("MaxPods", "Maximum number of replicas."),
    column("Replicas", "Current number of replicas."),
    ageColumn,
  ],
  (object, nowMs) => {
    const { metadata, spec, status } = object;
    return [
      metadata.name,
      `${spec.scaleTargetRef.kind}/${spec.scaleTargetRef.name}`,
      targets(object),
      spec.minReplicas === undefined ? unset : String(spec.minReplicas),
      spec.maxReplicas,
      status?.currentReplicas ?? 0,
      humanAge(metadata.creationTimestamp, nowMs),
    ];
  },
);

function targets({ spec, status }: HorizontalPodAutoscaler | V1HorizontalPodAutoscaler): string {
  if ("targetCPUUtilizationPercentage" in spec && spec.targetCPUUtilizationPercentage !== undefined) {
    const current =
      status !== undefined && "currentCPUUtilizationPercentage" in status
        ? status.currentCPUUtilizationPercentage
        : undefined;
    return `cpu: ${percent(current) ?? unknown}/${spec.targetCPUUtilizationPercentage}%`;
  }
  const metrics = "metrics" in spec ? (spec.metrics ?? []) : [];
  const measured = status !== undefined && "currentMetrics" in status ? (status.currentMetrics ?? []) : [];
  // The status of a metric is at the index of the metric.
  const texts = metrics.map((metric, index) => metricText(metric, measured[index]));
  return firstOf(texts, 2, ", ") || none;
}

function metricText(metric: MetricSpec, measured: MetricStatus | undefined): string {
  switch (metric.type) {
    case "External":
      return valueText(metric.external?.target, measured?.external?.current);
    case "Object":
      return valueText(metric.object?.target, measured?.object?.current);
    case "Pods":
      return `${measured?.pods?.current.averageValue ?? unknown}/${metric.pods?.target.averageValue ?? unknown}`;
    case "Resource":
      return resourceText(metric.resource, measured?.resource?.current);
    case "ContainerResource":
      return resourceText(metric.containerResource, measured?.containerResource?.current);
    default:
      return "<unknown type>";
  }
}

function valueText(target: MetricTarget | undefined, current: MetricValueStatus | undefined): string {
  if (target?.averageValue !== undefined) return `${current?.averageValue ?? unknown}/${target.averageValue} (avg)`;
  return `${current?.value ?? unknown}/${target?.value ?? unknown}`;
}

function resourceText(
  resource: { name: string; target: MetricTarget } | undefined,
  current: MetricValueStatus | undefined,
): string {
  if (resource === undefined) return unknown;
  const { name, target } = resource;
  if (target.averageValue !== undefined) return `${name}: ${current?.averageValue ?? unknown}/${target.averageValue}`;
  return `${name}: ${percent(current?.averageUtilization) ?? unknown}/${percent(target.averageUtilization) ?? "<auto>"}`;
}

function percent(value: number | undefined): string | undefined {
  return value === undefined ? undefined : `${value}%`;
}
