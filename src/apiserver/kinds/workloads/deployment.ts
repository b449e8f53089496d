import type { Deployment } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import {
  checkAtMostWholePercent,
  checkImmutable,
  checkIntOrPercent,
  checkNonNegative,
  checkOneOf,
} from "../checks/fieldChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { setPodTemplateDefaults } from "../pods/podTemplate.ts";
import { warnAboutTemplate } from "../pods/podWarnings.ts";
import { checkCounters, checkNotMoreThan, checkSelectorAndTemplate } from "./workloadChecks.ts";

export const deploymentStrategy = strategyOfKind<Deployment>({
  generation: "specAndAnnotations",
  statusKeeps: "labels",
  setDefaults(deployment) {
    const spec = deployment.spec;
    if (spec === undefined) return;
    spec.replicas ??= 1;
    spec.strategy ??= {};
    spec.strategy.type ||= "RollingUpdate";
    if (spec.strategy.type === "RollingUpdate") {
      spec.strategy.rollingUpdate ??= {};
      spec.strategy.rollingUpdate.maxUnavailable ??= "25%";
      spec.strategy.rollingUpdate.maxSurge ??= "25%";
    }
    spec.revisionHistoryLimit ??= 10;
    spec.progressDeadlineSeconds ??= 600;
    setPodTemplateDefaults(spec.template);
  },
  prepareForCreate: (deployment, { warn }) => warnAboutTemplate(deployment.spec?.template, "spec.template", warn),
  prepareForUpdate: (next, _old, { warn }) => warnAboutTemplate(next.spec?.template, "spec.template", warn),
  validate: (deployment) => deploymentErrors(deployment),
  validateUpdate(next, old) {
    const errors = deploymentErrors(next);
    checkImmutable(next.spec?.selector, old.spec?.selector, "spec.selector", errors);
    return errors;
  },
  validateStatusUpdate(next, old) {
    const errors: FieldError[] = [];
    const counters = [
      "replicas",
      "updatedReplicas",
      "readyReplicas",
      "availableReplicas",
      "unavailableReplicas",
      "terminatingReplicas",
    ];
    checkCounters(next.status, [...counters, "observedGeneration", "collisionCount"], errors);
    checkNotMoreThan(next.status, ["updatedReplicas", "readyReplicas", "availableReplicas"], "replicas", errors);
    checkNotMoreThan(next.status, ["availableReplicas"], "readyReplicas", errors, "readyReplicas");
    if ((next.status?.collisionCount ?? 0) < (old.status?.collisionCount ?? 0)) {
      errors.push(invalid("status.collisionCount", next.status?.collisionCount ?? null, "cannot be decremented"));
    }
    return errors;
  },
});

function deploymentErrors(deployment: Deployment): FieldError[] {
  const errors: FieldError[] = [];
  const spec = deployment.spec;
  if (spec === undefined) return [required("spec.selector"), required("spec.template")];
  checkNonNegative(spec.replicas, "spec.replicas", errors);
  checkSelectorAndTemplate(spec.selector, spec.template, "Deployment", errors);
  checkStrategy(spec.strategy, errors);
  checkNonNegative(spec.minReadySeconds, "spec.minReadySeconds", errors);
  checkNonNegative(spec.revisionHistoryLimit, "spec.revisionHistoryLimit", errors);
  const { progressDeadlineSeconds } = spec;
  checkNonNegative(progressDeadlineSeconds, "spec.progressDeadlineSeconds", errors);
  if (progressDeadlineSeconds !== undefined && progressDeadlineSeconds <= (spec.minReadySeconds ?? 0)) {
    errors.push(
      invalid("spec.progressDeadlineSeconds", progressDeadlineSeconds, "must be greater than minReadySeconds"),
    );
  }
  return errors;
}

function checkStrategy(strategy: NonNullable<Deployment["spec"]>["strategy"], errors: FieldError[]): void {
  const path = "spec.strategy";
  checkOneOf(strategy?.type, ["Recreate", "RollingUpdate"], `${path}.type`, errors, true);
  const rolling = strategy?.rollingUpdate;
  if (strategy?.type === "Recreate") {
    if (rolling !== undefined) {
      errors.push(forbidden(`${path}.rollingUpdate`, "may not be specified when strategy `type` is 'Recreate'"));
    }
    return;
  }
  if (rolling === undefined) return;
  checkIntOrPercent(rolling.maxUnavailable, `${path}.rollingUpdate.maxUnavailable`, errors);
  checkIntOrPercent(rolling.maxSurge, `${path}.rollingUpdate.maxSurge`, errors);
  if (isNone(rolling.maxUnavailable) && isNone(rolling.maxSurge)) {
    const detail = "may not be 0 when `maxSurge` is 0";
    errors.push(invalid(`${path}.rollingUpdate.maxUnavailable`, rolling.maxUnavailable ?? 0, detail));
  }
  checkAtMostWholePercent(rolling.maxUnavailable, `${path}.rollingUpdate.maxUnavailable`, errors);
}

export function isNone(value: number | string | undefined): boolean {
  return value === undefined || value === 0 || value === "0%";
}
