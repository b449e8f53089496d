import type {
  CrossVersionObjectReference,
  HorizontalPodAutoscaler,
  HPAScalingRules,
  MetricSpec,
  MetricTarget,
  V1HorizontalPodAutoscaler,
} from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import type { Conversion } from "../../builtinResource.ts";
import { isNegativeAmount, isZeroAmount } from "../checks/amounts.ts";
import { checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkPathSegment } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { inStoredShape } from "../storedShape.ts";
import { autoscalerFromV1, autoscalerToV1 } from "./hpaConversion.ts";

const cpuUtilizationDefault = 80;
const windowSecondsMax = 3600;
const periodSecondsMax = 1800;
/** The type of a metric, and the field that describes it. */
const sources = {
  Object: "object",
  Pods: "pods",
  Resource: "resource",
  ContainerResource: "containerResource",
  External: "external",
} as const;

/** The stored form is autoscaling/v2. */
const storedStrategy = strategyOfKind<HorizontalPodAutoscaler>({
  generation: "none",
  setDefaults(autoscaler) {
    const { spec } = autoscaler;
    if (spec === undefined) return;
    spec.minReplicas ??= 1;
    if ((spec.metrics ?? []).length === 0) {
      const target = { type: "Utilization", averageUtilization: cpuUtilizationDefault };
      spec.metrics = [{ type: "Resource", resource: { name: "cpu", target } }];
    }
    // Defaults are set only inside a given behavior.
    if (spec.behavior === undefined) return;
    spec.behavior.scaleUp = {
      stabilizationWindowSeconds: 0,
      selectPolicy: "Max",
      policies: [
        { type: "Pods", value: 4, periodSeconds: 15 },
        { type: "Percent", value: 100, periodSeconds: 15 },
      ],
      ...spec.behavior.scaleUp,
    };
    spec.behavior.scaleDown = {
      selectPolicy: "Max",
      policies: [{ type: "Percent", value: 100, periodSeconds: 15 }],
      ...spec.behavior.scaleDown,
    };
  },
  validate: (autoscaler) => autoscalerErrors(autoscaler),
  validateUpdate: (next) => autoscalerErrors(next),
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    for (const field of ["currentReplicas", "desiredReplicas"] as const) {
      const value = next.status?.[field] ?? 0;
      if (value < 0) errors.push(invalid(`status.${field}`, value, "must be greater than or equal to 0"));
    }
    return errors;
  },
});

export const autoscalerConversion: Conversion = {
  toStorage: (object) => autoscalerFromV1(object as V1HorizontalPodAutoscaler),
  fromStorage: (object) => autoscalerToV1(object as HorizontalPodAutoscaler),
};

export const horizontalPodAutoscalerStrategy = inStoredShape(storedStrategy, {
  "autoscaling/v1": autoscalerConversion,
});

function autoscalerErrors(autoscaler: HorizontalPodAutoscaler): FieldError[] {
  const errors: FieldError[] = [];
  const spec = autoscaler.spec;
  if (spec === undefined) return [required("spec.maxReplicas", "must be set and greater than 0")];
  const { minReplicas, maxReplicas = 0, metrics = [] } = spec;
  if (minReplicas !== undefined && minReplicas < 1) {
    errors.push(invalid("spec.minReplicas", minReplicas, "must be greater than or equal to 1"));
  }
  if (maxReplicas < 1) errors.push(invalid("spec.maxReplicas", maxReplicas, "must be greater than or equal to 1"));
  if (minReplicas !== undefined && maxReplicas < minReplicas) {
    errors.push(invalid("spec.maxReplicas", maxReplicas, "must be greater than or equal to `minReplicas`"));
  }
  checkReference(spec.scaleTargetRef, "spec.scaleTargetRef", errors);
  const { apiVersion = "", kind } = spec.scaleTargetRef ?? {};
  if (!apiVersion.includes("/") && kind !== "ReplicationController") {
    errors.push(invalid("spec.scaleTargetRef.apiVersion", apiVersion, "apiVersion must specify API group"));
  }
  for (const [i, metric] of metrics.entries()) checkMetric(metric, `spec.metrics[${i}]`, errors);
  checkRules(spec.behavior?.scaleUp, "spec.behavior.scaleUp", errors);
  checkRules(spec.behavior?.scaleDown, "spec.behavior.scaleDown", errors);
  return errors;
}

function checkReference(reference: CrossVersionObjectReference | undefined, path: string, errors: FieldError[]): void {
  if (!reference?.kind) errors.push(required(`${path}.kind`));
  else checkPathSegment(reference.kind, `${path}.kind`, errors);
  if (!reference?.name) errors.push(required(`${path}.name`));
  else checkPathSegment(reference.name, `${path}.name`, errors);
}

function checkRules(rules: HPAScalingRules | undefined, path: string, errors: FieldError[]): void {
  if (rules === undefined) return;
  const window = rules.stabilizationWindowSeconds;
  if (window !== undefined && window < 0) {
    errors.push(invalid(`${path}.stabilizationWindowSeconds`, window, "must be greater than or equal to zero"));
  } else if (window !== undefined && window > windowSecondsMax) {
    const detail = `must be less than or equal to ${windowSecondsMax}`;
    errors.push(invalid(`${path}.stabilizationWindowSeconds`, window, detail));
  }
  checkOneOf(rules.selectPolicy, ["Disabled", "Max", "Min"], `${path}.selectPolicy`, errors);
  const policies = rules.policies ?? [];
  if (policies.length === 0) errors.push(required(`${path}.policies`, "must specify at least one Policy"));
  for (const [i, policy] of policies.entries()) {
    const at = `${path}.policies[${i}]`;
    checkOneOf(policy.type, ["Percent", "Pods"], `${at}.type`, errors, true);
    if (policy.value <= 0) errors.push(invalid(`${at}.value`, policy.value, "must be greater than zero"));
    if (policy.periodSeconds <= 0) {
      errors.push(invalid(`${at}.periodSeconds`, policy.periodSeconds, "must be greater than zero"));
    } else if (policy.periodSeconds > periodSecondsMax) {
      const detail = `must be less than or equal to ${periodSecondsMax}`;
      errors.push(invalid(`${at}.periodSeconds`, policy.periodSeconds, detail));
    }
  }
  if (rules.tolerance !== undefined && isNegativeAmount(rules.tolerance)) {
    errors.push(invalid(`${path}.tolerance`, rules.tolerance, "must be greater than or equal to 0"));
  }
}

function checkMetric(metric: MetricSpec, path: string, errors: FieldError[]): void {
  if (!metric.type) {
    errors.push(required(`${path}.type`, "must specify a metric source type"));
    return;
  }
  const known = Object.keys(sources).sort();
  if (!known.includes(metric.type)) {
    errors.push(notSupported(`${path}.type`, metric.type, known));
    return;
  }
  const field = sources[metric.type as keyof typeof sources];
  if (metric[field] === undefined) {
    errors.push(required(`${path}.${field}`, "must populate information for the given metric source"));
  }
  for (const other of Object.values(sources)) {
    if (other !== field && metric[other] !== undefined) {
      errors.push(forbidden(`${path}.${other}`, "must populate the given metric source only"));
    }
  }
  const { object, pods, resource, containerResource, external } = metric;
  if (object !== undefined) {
    checkReference(object.describedObject, `${path}.object.describedObject`, errors);
    checkIdentifier(object.metric, `${path}.object.metric`, errors);
    checkTarget(object.target, ["value", "averageValue"], `${path}.object.target`, errors);
  }
  if (pods !== undefined) {
    checkIdentifier(pods.metric, `${path}.pods.metric`, errors);
    checkTarget(pods.target, ["averageValue"], `${path}.pods.target`, errors);
  }
  if (external !== undefined) {
    checkIdentifier(external.metric, `${path}.external.metric`, errors);
    checkTarget(external.target, ["value", "averageValue"], `${path}.external.target`, errors);
    if (external.target?.value !== undefined && external.target.averageValue !== undefined) {
      const detail = "may not set both a target value for metric and a per-pod target";
      errors.push(forbidden(`${path}.external.target.value`, detail));
    }
  }
  for (const [name, source] of [
    ["resource", resource],
    ["containerResource", containerResource],
  ] as const) {
    if (source === undefined) continue;
    if (!source.name) errors.push(required(`${path}.${name}.name`, "must specify a resource name"));
    checkTarget(source.target, ["averageUtilization", "averageValue"], `${path}.${name}.target`, errors);
    if (source.target?.averageUtilization !== undefined && source.target.averageValue !== undefined) {
      const detail = "may not set both a target raw value and a target utilization";
      errors.push(forbidden(`${path}.${name}.target.averageValue`, detail));
    }
  }
  if (containerResource !== undefined && !containerResource.container) {
    errors.push(required(`${path}.containerResource.container`, "must specify a container"));
  }
}

function checkIdentifier(
  metric: { name?: string; selector?: object } | undefined,
  path: string,
  errors: FieldError[],
): void {
  if (!metric?.name) errors.push(required(`${path}.name`, "must specify a metric name"));
  else checkPathSegment(metric.name, `${path}.name`, errors);
  checkLabelSelector(metric?.selector, `${path}.selector`, errors);
}

function checkTarget(
  target: MetricTarget | undefined,
  fields: readonly ("value" | "averageValue" | "averageUtilization")[],
  path: string,
  errors: FieldError[],
): void {
  if (!target?.type) errors.push(required(`${path}.type`, "must specify a metric target type"));
  else if (!["Utilization", "Value", "AverageValue"].includes(target.type)) {
    errors.push(invalid(`${path}.type`, target.type, "must be either Utilization, Value, or AverageValue"));
  }
  for (const field of ["value", "averageValue"] as const) {
    const amount = target?.[field];
    if (amount !== undefined && (isNegativeAmount(amount) || isZeroAmount(amount))) {
      errors.push(invalid(`${path}.${field}`, amount, "must be positive"));
    }
  }
  if (target?.averageUtilization !== undefined && target.averageUtilization < 1) {
    errors.push(invalid(`${path}.averageUtilization`, target.averageUtilization, "must be greater than 0"));
  }
  if (fields.some((field) => target?.[field] !== undefined)) return;
  errors.push(required(`${path}.${fields[0]}`, `must set one of: ${fields.join(", ")}`));
}
