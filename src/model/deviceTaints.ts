/** Device taints and tolerations, for the allocator and for the eviction of pods. */
import type { DeviceTaint, DeviceTaintSelector, DeviceToleration } from "./kubernetes.generated.ts";

/** An empty key or effect of a toleration stands for any. */
export function toleratesDeviceTaint(toleration: DeviceToleration, taint: DeviceTaint): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false;
  if (toleration.key && toleration.key !== taint.key) return false;
  switch (toleration.operator) {
    case "Exists":
      return true;
    case "Equal":
    case "":
    case undefined:
      return (toleration.value ?? "") === (taint.value ?? "");
    default:
      return false;
  }
}

/** Only these effects prevent an allocation; any other, known or not, has no effect. */
export function isRepelling({ effect }: DeviceTaint): boolean {
  return effect === "NoSchedule" || effect === "NoExecute";
}

export function toleratesAll(
  tolerations: readonly DeviceToleration[] | undefined,
  taints: readonly DeviceTaint[] | undefined,
): boolean {
  if (taints === undefined) return true;
  return taints.every(
    (taint) => !isRepelling(taint) || tolerations?.some((each) => toleratesDeviceTaint(each, taint)) === true,
  );
}

/** A missing selector selects nothing; an empty one selects every device. */
export function selectsDevice(
  selector: DeviceTaintSelector | undefined,
  { driver, pool, device }: { driver: string; pool: string; device: string },
): boolean {
  if (selector === undefined) return false;
  return (
    (selector.driver === undefined || selector.driver === driver) &&
    (selector.pool === undefined || selector.pool === pool) &&
    (selector.device === undefined || selector.device === device)
  );
}
