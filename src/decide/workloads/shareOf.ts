/** An int-or-percent value: `25%` of ten pods. */
import type { IntOrString } from "../../model/kubernetes.generated.ts";

export function shareOf(value: IntOrString | undefined, whole: number, rounding: "up" | "down"): number {
  if (value === undefined) return 0;
  if (typeof value === "number") return value;
  const percent = Number.parseInt(value, 10);
  if (Number.isNaN(percent)) return 0;
  const share = (percent * whole) / 100;
  return rounding === "up" ? Math.ceil(share) : Math.floor(share);
}
