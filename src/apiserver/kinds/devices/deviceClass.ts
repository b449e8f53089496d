import type { DeviceClass, DeviceTaintRule } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { formatTime } from "../../../model/values/time.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { isExtendedResource } from "../pods/validation/resourceValidation.ts";
import { checkDriverName, checkPoolName, checkRequiredDnsLabel } from "./deviceNames.ts";
import { checkCount, checkOpaque, checkSelectors, checkTaint } from "./deviceParts.ts";

const configsMax = 32;
const ruleConditionsMax = 8;

export const deviceClassStrategy = strategyOfKind<DeviceClass>({
  generation: "spec",
  returnsDeleted: true,
  validate: (deviceClass) => classErrors(deviceClass, undefined),
  validateUpdate: (next, old) => classErrors(next, old),
});

function classErrors(deviceClass: DeviceClass, old: DeviceClass | undefined): FieldError[] {
  const errors: FieldError[] = [];
  const spec = deviceClass.spec ?? {};
  // Accepted expressions stay accepted: CEL validation may have become stricter.
  if (old === undefined || !equalJson(spec.selectors, old.spec?.selectors)) {
    checkSelectors(spec.selectors, "spec.selectors", errors);
  }
  checkCount(spec.config, configsMax, "spec.config", errors);
  for (const [i, config] of (spec.config ?? []).entries())
    checkOpaque(config.opaque, `spec.config[${i}].opaque`, errors);
  const name = spec.extendedResourceName;
  if (name !== undefined && !isExtendedResource(name)) {
    const detail = "must be a valid extended resource name";
    errors.push(invalid("spec.extendedResourceName", name, detail));
  }
  return errors;
}

export const deviceTaintRuleStrategy = strategyOfKind<DeviceTaintRule>({
  generation: "spec",
  statusKeeps: "metadata",
  returnsDeleted: true,
  requiresRevision: true,
  prepareForCreate(rule, context) {
    if (rule.spec?.taint !== undefined) rule.spec.taint.timeAdded ??= formatTime(context.nowMs);
  },
  prepareForUpdate(next, old, context) {
    const taint = next.spec?.taint;
    const before = old.spec?.taint;
    if (taint === undefined) return;
    // A changed effect is a new taint: timeAdded is set again unless the author sets it.
    const isUntouched = taint.timeAdded === before?.timeAdded;
    if (taint.timeAdded === undefined || (isUntouched && taint.effect !== before?.effect)) {
      taint.timeAdded = formatTime(context.nowMs);
    }
  },
  validate: (rule) => ruleErrors(rule),
  validateUpdate: (next) => ruleErrors(next),
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    checkCount(next.status?.conditions, ruleConditionsMax, "status.conditions", errors);
    return errors;
  },
});

function ruleErrors(rule: DeviceTaintRule): FieldError[] {
  const errors: FieldError[] = [];
  const { deviceSelector, taint } = rule.spec ?? {};
  const path = "spec.deviceSelector";
  if (deviceSelector?.driver !== undefined) checkDriverName(deviceSelector.driver, `${path}.driver`, errors);
  if (deviceSelector?.pool !== undefined) checkPoolName(deviceSelector.pool, `${path}.pool`, errors);
  if (deviceSelector?.device !== undefined) checkRequiredDnsLabel(deviceSelector.device, `${path}.device`, errors);
  checkTaint(taint ?? { key: "", effect: "" }, "spec.taint", errors);
  return errors;
}
