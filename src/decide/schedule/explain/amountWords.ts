import { unlimited } from "../../../model/scheduling/queue.ts";
import { cpuAt, gpuAt, memoryAt, podsAt, type Vector } from "../cluster/resources.ts";

/** Amounts as messages print them. */

/** As quantities; without bound is left out. */
export function amountsOf(vector: Readonly<Vector>): Record<string, string> {
  const amounts: Record<string, string> = {};
  if (vector[0] !== unlimited)
    amounts["nvidia.com/gpu"] = vector[0] % 1000 === 0 ? String(vector[0] / 1000) : `${vector[0]}m`;
  if (vector[1] !== unlimited) amounts["cpu"] = vector[1] % 1000 === 0 ? String(vector[1] / 1000) : `${vector[1]}m`;
  if (vector[2] !== unlimited) amounts["memory"] = String(vector[2]);
  return amounts;
}

/** Thousandths of GPUs. */
export function gpuText(milli: number): string {
  return milli === unlimited ? "unlimited" : trimmed(milli / 1000);
}

/** What a queue bounds, in the unit that the field of the queue has; rounded up, so that it is enough. */
export function fieldText(resource: number, amount: number): string {
  if (amount === unlimited) return "unlimited";
  if (resource === 0) return String(Math.ceil(amount) / 1000);
  return resource === 1 ? `${Math.ceil(amount)} millicores` : `${Math.ceil(amount / 1e6)} MB`;
}

function trimmed(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}

export function placeText(name: string, place: number): string {
  switch (place) {
    case cpuAt:
      return "CPU cores";
    case memoryAt:
      return "memory";
    case gpuAt:
      return "GPUs";
    case podsAt:
      return "pod slots";
    default:
      return name;
  }
}

export function numberText(amount: number, place: number): string {
  if (place === cpuAt) return trimmed(amount / 1000);
  if (place === memoryAt) return `${trimmed(amount / 2 ** 30)} GiB`;
  return String(amount);
}
