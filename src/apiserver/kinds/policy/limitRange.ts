import type { LimitRange, LimitRangeItem } from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid } from "../../../model/objects/fieldError.ts";
import { compareAmounts } from "../checks/amounts.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { isStandardResource } from "../pods/validation/resourceValidation.ts";

const limitTypes = ["Pod", "Container", "PersistentVolumeClaim"];

export const limitRangeStrategy = strategyOfKind<LimitRange>({
  generation: "none",
  createOnUpdate: true,
  setDefaults(range) {
    for (const item of range.spec?.limits ?? []) if (item.type === "Container") setItemDefaults(item);
  },
  validate: (range) => limitRangeErrors(range),
  validateUpdate: (next) => limitRangeErrors(next),
});

/** Defaults: a limit from the maximum, a request from the limit or the minimum. */
function setItemDefaults(item: LimitRangeItem): void {
  const limits = { ...item.max, ...item.default };
  if (Object.keys(limits).length > 0) item.default = limits;
  const requests = { ...item.min, ...limits, ...item.defaultRequest };
  if (Object.keys(requests).length > 0) item.defaultRequest = requests;
}

function limitRangeErrors(range: LimitRange): FieldError[] {
  const errors: FieldError[] = [];
  const items = range.spec?.limits ?? [];
  for (const [i, item] of items.entries()) {
    const path = `spec.limits[${i}]`;
    if (
      checkQualifiedName(item.type, `${path}.type`, errors) &&
      !limitTypes.includes(item.type) &&
      !item.type.includes("/")
    ) {
      errors.push(invalid(`${path}.type`, item.type, "must be a standard limit type or fully qualified"));
    }
    if (items.slice(0, i).some(({ type }) => type === item.type)) errors.push(duplicate(`${path}.type`, item.type));
    checkItem(item, path, errors);
  }
  return errors;
}

function checkItem(item: LimitRangeItem, path: string, errors: FieldError[]): void {
  const names = new Set<string>();
  for (const field of ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"] as const) {
    for (const name of Object.keys(item[field] ?? {})) {
      names.add(name);
      if (!name.includes("/") && !isStandardResource(name)) {
        const detail = "must be a standard limit type or fully qualified";
        errors.push(invalid(`${path}.${field}[${name}]`, name, detail));
      }
    }
  }
  if (item.type === "Pod") {
    for (const field of ["default", "defaultRequest"] as const) {
      if (Object.keys(item[field] ?? {}).length > 0) {
        errors.push(forbidden(`${path}.${field}`, "may not be specified when `type` is 'Pod'"));
      }
    }
  }
  if (item.type === "PersistentVolumeClaim" && !item.min?.["storage"] && !item.max?.["storage"]) {
    const detail = "either minimum or maximum storage value is required, but neither was provided";
    errors.push({ type: "Required", field: `${path}.limits`, body: `Required value: ${detail}` });
  }
  for (const name of names) {
    const min = item.min?.[name];
    const max = item.max?.[name];
    const limit = item.default?.[name];
    const request = item.defaultRequest?.[name];
    const order = (
      field: string,
      low: [string, string | undefined],
      high: [string, string | undefined],
      shown: string | undefined,
    ): void => {
      if (low[1] === undefined || high[1] === undefined || compareAmounts(low[1], high[1]) <= 0) return;
      const detail = `${low[0]} value ${low[1]} is greater than ${high[0]} value ${high[1]}`;
      errors.push(invalid(`${path}.${field}[${name}]`, shown, detail));
    };
    order("min", ["min", min], ["max", max], min);
    order("defaultRequest", ["min", min], ["default request", request], request);
    order("defaultRequest", ["default request", request], ["max", max], request);
    order("defaultRequest", ["default request", request], ["default limit", limit], request);
    order("default", ["min", min], ["default", limit], limit);
    order("default", ["default", limit], ["max", max], limit);
    const ratio = item.maxLimitRequestRatio?.[name];
    if (ratio !== undefined && compareAmounts(ratio, "1") < 0) {
      const detail = `ratio ${ratio} is less than 1`;
      errors.push(invalid(`${path}.maxLimitRequestRatio[${name}]`, ratio, detail));
    }
  }
}
