import type { DaemonSet, DaemonSetSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
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
import { isNone } from "./deployment.ts";
import { checkCounters, checkSelectorAndTemplate } from "./workloadChecks.ts";

export const daemonSetStrategy = strategyOfKind<DaemonSet>({
  generation: "spec",
  setDefaults(set) {
    const spec = set.spec;
    if (spec === undefined) return;
    spec.updateStrategy ??= {};
    spec.updateStrategy.type ||= "RollingUpdate";
    if (spec.updateStrategy.type === "RollingUpdate") {
      spec.updateStrategy.rollingUpdate ??= {};
      spec.updateStrategy.rollingUpdate.maxUnavailable ??= 1;
      spec.updateStrategy.rollingUpdate.maxSurge ??= 0;
    }
    spec.revisionHistoryLimit ??= 10;
    setPodTemplateDefaults(spec.template);
  },
  prepareForCreate(set, { warn }) {
    warnAboutTemplate(set.spec?.template, "spec.template", warn);
    countTemplate(set, 1);
  },
  prepareForUpdate(next, old, { warn }) {
    warnAboutTemplate(next.spec?.template, "spec.template", warn);
    const before = Number(old.metadata.annotations?.[templateGeneration] ?? 0);
    countTemplate(next, equalJson(next.spec?.template, old.spec?.template) ? before : before + 1);
  },
  validate: (set) => daemonSetErrors(set),
  validateUpdate(next, old) {
    const errors = daemonSetErrors(next);
    checkImmutable(next.spec?.selector, old.spec?.selector, "spec.selector", errors);
    return errors;
  },
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    const counters = [
      "currentNumberScheduled",
      "numberMisscheduled",
      "desiredNumberScheduled",
      "numberReady",
      "observedGeneration",
      "updatedNumberScheduled",
      "numberAvailable",
      "numberUnavailable",
      "collisionCount",
    ];
    checkCounters(next.status, counters, errors);
    return errors;
  },
});

/** The number of template changes, which older clients read from this annotation. */
const templateGeneration = "deprecated.daemonset.template.generation";

function countTemplate({ metadata }: DaemonSet, generation: number): void {
  if (generation > 0) metadata.annotations = { ...metadata.annotations, [templateGeneration]: String(generation) };
}

function daemonSetErrors(set: DaemonSet): FieldError[] {
  const errors: FieldError[] = [];
  const spec = set.spec;
  if (spec === undefined) return [required("spec.selector"), required("spec.template")];
  checkSelectorAndTemplate(spec.selector, spec.template, "DaemonSet", errors);
  checkNonNegative(spec.minReadySeconds, "spec.minReadySeconds", errors);
  checkUpdateStrategy(spec, errors);
  checkNonNegative(spec.revisionHistoryLimit, "spec.revisionHistoryLimit", errors);
  return errors;
}

function checkUpdateStrategy(spec: DaemonSetSpec, errors: FieldError[]): void {
  const strategy = spec.updateStrategy;
  checkOneOf(strategy?.type, ["OnDelete", "RollingUpdate"], "spec.updateStrategy.type", errors, true);
  if (strategy?.type !== "RollingUpdate") return;
  const path = "spec.updateStrategy.rollingUpdate";
  const rolling = strategy.rollingUpdate;
  if (rolling === undefined) {
    errors.push(required(path));
    return;
  }
  const { maxUnavailable, maxSurge } = rolling;
  checkIntOrPercent(maxUnavailable, `${path}.maxUnavailable`, errors);
  checkIntOrPercent(maxSurge, `${path}.maxSurge`, errors);
  checkAtMostWholePercent(maxUnavailable, `${path}.maxUnavailable`, errors);
  checkAtMostWholePercent(maxSurge, `${path}.maxSurge`, errors);
  if (!isNone(maxUnavailable) && !isNone(maxSurge)) {
    errors.push(invalid(`${path}.maxSurge`, maxSurge, "may not be set when maxUnavailable is non-zero"));
  } else if (isNone(maxUnavailable) && isNone(maxSurge)) {
    errors.push(required(`${path}.maxUnavailable`, "cannot be 0 when maxSurge is 0"));
  }
}
