import type { StatefulSet, StatefulSetSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { checkAtMostWholePercent, checkIntOrPercent, checkNonNegative, checkOneOf } from "../checks/fieldChecks.ts";
import { checkDnsLabel } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { setPodTemplateDefaults } from "../pods/podTemplate.ts";
import { warnAboutTemplate } from "../pods/podWarnings.ts";
import { checkClaimSpec } from "../storage/persistentVolumeClaim.ts";
import { isNone } from "./deployment.ts";
import { checkCounters, checkNotMoreThan, checkSelectorAndTemplate } from "./workloadChecks.ts";

export const statefulSetStrategy = strategyOfKind<StatefulSet>({
  name: "dnsLabel",
  generation: "spec",
  setDefaults(set) {
    const spec = set.spec;
    if (spec === undefined) return;
    spec.podManagementPolicy ||= "OrderedReady";
    spec.updateStrategy ??= {};
    spec.updateStrategy.type ||= "RollingUpdate";
    if (spec.updateStrategy.type === "RollingUpdate") {
      spec.updateStrategy.rollingUpdate ??= {};
      spec.updateStrategy.rollingUpdate.partition ??= 0;
    }
    spec.persistentVolumeClaimRetentionPolicy ??= {};
    spec.persistentVolumeClaimRetentionPolicy.whenDeleted ||= "Retain";
    spec.persistentVolumeClaimRetentionPolicy.whenScaled ||= "Retain";
    spec.replicas ??= 1;
    spec.revisionHistoryLimit ??= 10;
    for (const claim of spec.volumeClaimTemplates ?? []) {
      claim.kind ||= "PersistentVolumeClaim";
      claim.apiVersion ||= "v1";
      claim.spec ??= {};
      claim.spec.volumeMode ??= "Filesystem";
      claim.status ??= {};
      claim.status.phase ||= "Pending";
    }
    setPodTemplateDefaults(spec.template);
  },
  prepareForCreate: (set, { warn }) => warnAboutTemplate(set.spec?.template, "spec.template", warn),
  prepareForUpdate: (next, _old, { warn }) => warnAboutTemplate(next.spec?.template, "spec.template", warn),
  validate(set) {
    const errors = statefulSetErrors(set);
    for (const [i, claim] of (set.spec?.volumeClaimTemplates ?? []).entries()) {
      checkClaimSpec(claim.spec ?? {}, `spec.volumeClaimTemplates[${i}].spec`, errors);
    }
    return errors;
  },
  validateUpdate(next, old) {
    const errors = statefulSetErrors(next);
    if (next.spec === undefined || old.spec === undefined) return errors;
    if (!equalJson(fixedPart(next.spec), fixedPart(old.spec))) {
      const mutable =
        "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'";
      const detail = `updates to statefulset spec for fields other than ${mutable} are forbidden`;
      errors.push(forbidden("spec", detail));
    }
    return errors;
  },
  validateStatusUpdate(next, old) {
    const errors: FieldError[] = [];
    const parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    checkCounters(next.status, ["replicas", ...parts, "observedGeneration", "collisionCount"], errors);
    checkNotMoreThan(next.status, parts, "replicas", errors);
    checkNotMoreThan(next.status, ["availableReplicas"], "readyReplicas", errors);
    if ((next.status?.collisionCount ?? 0) < (old.status?.collisionCount ?? 0)) {
      errors.push(invalid("status.collisionCount", next.status?.collisionCount ?? null, "cannot be decremented"));
    }
    return errors;
  },
});

function fixedPart(spec: StatefulSetSpec): Partial<StatefulSetSpec> {
  const {
    replicas: _replicas,
    ordinals: _ordinals,
    template: _template,
    updateStrategy: _updateStrategy,
    revisionHistoryLimit: _revisionHistoryLimit,
    persistentVolumeClaimRetentionPolicy: _retention,
    minReadySeconds: _minReadySeconds,
    ...fixed
  } = spec;
  return fixed;
}

function statefulSetErrors(set: StatefulSet): FieldError[] {
  const errors: FieldError[] = [];
  const spec = set.spec;
  if (spec === undefined) return [required("spec.selector"), required("spec.template")];
  const managements = ["OrderedReady", "Parallel"];
  if (!spec.podManagementPolicy) errors.push(required("spec.podManagementPolicy"));
  else if (!managements.includes(spec.podManagementPolicy)) {
    const detail = "must be 'OrderedReady' or 'Parallel'";
    errors.push(invalid("spec.podManagementPolicy", spec.podManagementPolicy, detail));
  }
  checkUpdateStrategy(spec, errors);
  const retention = spec.persistentVolumeClaimRetentionPolicy;
  for (const field of ["whenDeleted", "whenScaled"] as const) {
    const path = `spec.persistentVolumeClaimRetentionPolicy.${field}`;
    checkOneOf(retention?.[field], ["Delete", "Retain"], path, errors);
  }
  checkNonNegative(spec.replicas, "spec.replicas", errors);
  checkNonNegative(spec.minReadySeconds, "spec.minReadySeconds", errors);
  checkNonNegative(spec.ordinals?.start, "spec.ordinals.start", errors);
  if (spec.serviceName) checkDnsLabel(spec.serviceName, "spec.serviceName", errors);
  // volumeClaimTemplates are volumes of the pods; mounts may name them although the template does not list them.
  const template = spec.template;
  const claims = spec.volumeClaimTemplates ?? [];
  if (template?.spec !== undefined && claims.length > 0) {
    const names = new Set(claims.map(({ metadata }) => metadata.name));
    const volumes = (template.spec.volumes ?? []).filter(({ name }) => !names.has(name));
    const claimed = [...names].map((name) => ({ name, persistentVolumeClaim: { claimName: `${name}-0` } }));
    const completed = { ...template, spec: { ...template.spec, volumes: [...volumes, ...claimed] } };
    checkSelectorAndTemplate(spec.selector, completed, "StatefulSet", errors);
  } else {
    checkSelectorAndTemplate(spec.selector, template, "StatefulSet", errors);
  }
  return errors;
}

function checkUpdateStrategy(spec: StatefulSetSpec, errors: FieldError[]): void {
  const strategy = spec.updateStrategy;
  const path = "spec.updateStrategy";
  const rolling = strategy?.rollingUpdate;
  if (!strategy?.type) errors.push(required(path));
  else if (strategy.type === "OnDelete") {
    if (rolling !== undefined) {
      const detail = "only allowed for updateStrategy 'RollingUpdate'";
      errors.push(invalid(`${path}.rollingUpdate`, rolling, detail));
    }
  } else if (strategy.type !== "RollingUpdate") {
    errors.push(invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"));
  }
  checkNonNegative(rolling?.partition, `${path}.rollingUpdate.partition`, errors);
  if (rolling?.maxUnavailable !== undefined) {
    checkIntOrPercent(rolling.maxUnavailable, `${path}.rollingUpdate.maxUnavailable`, errors);
    checkAtMostWholePercent(rolling.maxUnavailable, `${path}.rollingUpdate.maxUnavailable`, errors);
    if (isNone(rolling.maxUnavailable)) {
      errors.push(invalid(`${path}.rollingUpdate.maxUnavailable`, rolling.maxUnavailable, "cannot be 0"));
    }
  }
}
