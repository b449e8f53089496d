import { CelCostExceeded, type CelValue, isMap, mapSize, stringSize } from "./values.ts";

/** One evaluation: the values of its variables, and its cost so far. */
export type Run = (frame: Frame) => CelValue;

export interface Frame {
  readonly slots: CelValue[];
  cost: number;
  readonly costLimit: number;
}

export function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.costLimit) throw new CelCostExceeded(frame.cost);
}

/** The size for costs: one for every value without elements. */
export function sizeForCost(value: CelValue | undefined): number {
  if (typeof value === "string") return stringSize(value);
  if (typeof value !== "object" || value === null) return 1;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return isMap(value) ? mapSize(value) : 1;
}

// Costs of literals.
export const listCost = 10;
export const mapCost = 30;
