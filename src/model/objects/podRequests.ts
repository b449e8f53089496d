/** The effective requests of a pod, exact, in billionths of each resource's unit. */
import type { Container, Pod, PodSpec } from "../kubernetes.generated.ts";
import { parseQuantity } from "../values/quantity.ts";

export type Amounts = Map<string, bigint>;

const texts = new Map<string, bigint>();
const textsMax = 4096;

export function nanoOf(text: string): bigint {
  const known = texts.get(text);
  if (known !== undefined) return known;
  const { nano } = parseQuantity(text);
  if (texts.size >= textsMax) texts.clear();
  texts.set(text, nano);
  return nano;
}

/** Requests are needed often, for example for all pods of a node; objects are immutable, so they are computed once. */
const known = new WeakMap<PodSpec, Amounts>();

/**
 * The sum of the containers, or the maximum during initialisation if that is higher; a pod-level request replaces the
 * sum.
 */
export function podRequests(pod: Pod): Amounts {
  const { spec } = pod;
  if (spec === undefined) return new Map();
  const remembered = known.get(spec);
  if (remembered !== undefined) return remembered;
  const total: Amounts = new Map();
  for (const container of spec.containers) add(total, container);
  const sidecars: Amounts = new Map();
  const peak: Amounts = new Map();
  for (const container of spec.initContainers ?? []) {
    if (container.restartPolicy === "Always") {
      add(total, container);
      add(sidecars, container);
      raise(peak, sidecars);
    } else {
      const here: Amounts = new Map(sidecars);
      add(here, container);
      raise(peak, here);
    }
  }
  raise(total, peak);
  for (const [name, amount] of Object.entries(spec.resources?.requests ?? {})) total.set(name, nanoOf(amount));
  for (const [name, amount] of Object.entries(spec.overhead ?? {})) {
    total.set(name, (total.get(name) ?? 0n) + nanoOf(amount));
  }
  known.set(spec, total);
  return total;
}

function add(total: Amounts, { resources }: Container): void {
  for (const [name, amount] of Object.entries(resources?.requests ?? {})) {
    total.set(name, (total.get(name) ?? 0n) + nanoOf(amount));
  }
}

function raise(total: Amounts, floor: Amounts): void {
  for (const [name, amount] of floor) if (amount > (total.get(name) ?? 0n)) total.set(name, amount);
}
