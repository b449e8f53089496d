import type { ReplicaSet, ReplicationController } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, required } from "../../../model/objects/fieldError.ts";
import { checkImmutable, checkNonNegative } from "../checks/fieldChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import {
  checkPodTemplate,
  checkTemplateMatchesSelector,
  checkTemplateRunsForever,
  setPodTemplateDefaults,
} from "../pods/podTemplate.ts";
import { warnAboutTemplate } from "../pods/podWarnings.ts";
import { checkCounters, checkNotMoreThan, checkSelectorAndTemplate } from "./workloadChecks.ts";

const counters = [
  "replicas",
  "fullyLabeledReplicas",
  "readyReplicas",
  "availableReplicas",
  "terminatingReplicas",
  "observedGeneration",
];

function statusErrors(status: object | undefined): FieldError[] {
  const errors: FieldError[] = [];
  checkCounters(status, counters, errors);
  checkNotMoreThan(status, ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "replicas", errors);
  checkNotMoreThan(status, ["availableReplicas"], "readyReplicas", errors, "readyReplicas");
  return errors;
}

export const replicaSetStrategy = strategyOfKind<ReplicaSet>({
  generation: "spec",
  setDefaults(set) {
    if (set.spec === undefined) return;
    set.spec.replicas ??= 1;
    setPodTemplateDefaults(set.spec.template);
  },
  prepareForCreate: (set, { warn }) => warnAboutTemplate(set.spec?.template, "spec.template", warn),
  prepareForUpdate: (next, _old, { warn }) => warnAboutTemplate(next.spec?.template, "spec.template", warn),
  validate: (set) => replicaSetErrors(set),
  validateUpdate(next, old) {
    const errors = replicaSetErrors(next);
    checkImmutable(next.spec?.selector, old.spec?.selector, "spec.selector", errors);
    return errors;
  },
  validateStatusUpdate: (next) => statusErrors(next.status),
  selectFields: (set) => [String(set.status?.replicas ?? 0)],
});

function replicaSetErrors(set: ReplicaSet): FieldError[] {
  const errors: FieldError[] = [];
  if (set.spec === undefined) return [required("spec.selector"), required("spec.template")];
  checkNonNegative(set.spec.replicas, "spec.replicas", errors);
  checkNonNegative(set.spec.minReadySeconds, "spec.minReadySeconds", errors);
  checkSelectorAndTemplate(set.spec.selector, set.spec.template, "ReplicaSet", errors);
  return errors;
}

export const replicationControllerStrategy = strategyOfKind<ReplicationController>({
  generation: "spec",
  orphansByDefault: true,
  setDefaults(controller) {
    const spec = controller.spec;
    if (spec === undefined) return;
    spec.replicas ??= 1;
    const labels = spec.template?.metadata?.labels;
    if (labels !== undefined) {
      if (spec.selector === undefined || Object.keys(spec.selector).length === 0) spec.selector = { ...labels };
      const own = controller.metadata.labels;
      if (own === undefined || Object.keys(own).length === 0) controller.metadata.labels = { ...labels };
    }
    setPodTemplateDefaults(spec.template);
  },
  validate: (controller) => controllerErrors(controller),
  validateUpdate: (next) => controllerErrors(next),
  validateStatusUpdate: (next) => statusErrors(next.status),
  selectFields: (controller) => [String(controller.status?.replicas ?? 0)],
});

function controllerErrors(controller: ReplicationController): FieldError[] {
  const errors: FieldError[] = [];
  const spec = controller.spec ?? {};
  checkNonNegative(spec.minReadySeconds, "spec.minReadySeconds", errors);
  const selector = spec.selector ?? {};
  if (Object.keys(selector).length === 0) errors.push(required("spec.selector"));
  if (spec.replicas === undefined) errors.push(required("spec.replicas"));
  else checkNonNegative(spec.replicas, "spec.replicas", errors);
  if (spec.template === undefined) {
    errors.push(required("spec.template"));
    return errors;
  }
  checkTemplateMatchesSelector(spec.template, { matchLabels: selector }, "spec.template", errors);
  checkPodTemplate(spec.template, "spec.template", errors);
  checkTemplateRunsForever(spec.template, "ReplicationController", "spec.template", errors);
  if ((spec.replicas ?? 0) > 1 && spec.template.spec?.volumes?.some((volume) => isWritableDisk(volume))) {
    errors.push(forbidden("spec.template.spec.volumes", "must be read-only for replicated pods > 1"));
  }
  return errors;
}

/** A disk that only one node can mount for writing cannot be shared by replicas. */
function isWritableDisk(volume: { gcePersistentDisk?: { readOnly?: boolean } }): boolean {
  return volume.gcePersistentDisk !== undefined && volume.gcePersistentDisk.readOnly !== true;
}
