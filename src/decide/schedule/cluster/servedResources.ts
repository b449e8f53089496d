/**
 * Extended resources that a DeviceClass serves (`extendedResourceName`). A node whose device plugin offers none of such
 * a resource serves it from devices: the device search decides whether they are enough, so the amount is unbounded
 * there.
 */

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { parseQuantity } from "../../../model/values/quantity.ts";
import { mappedResources } from "../../devices/claims/extendedResources.ts";
import { gpuAt, type ResourceNames } from "./resources.ts";

/** More than any pod requests, and small enough that sums stay whole numbers. */
export const unbounded = 1e9;

export class ServedResources {
  private names: ReadonlySet<string> = new Set();

  has(name: string): boolean {
    return this.names.has(name);
  }

  /** Returns the names that were added or removed. */
  replace(names: ReadonlySet<string>): ReadonlySet<string> {
    const changed = new Set([...names].filter((name) => !this.names.has(name)));
    for (const name of this.names) if (!names.has(name)) changed.add(name);
    this.names = names;
    return changed;
  }

  /** Places of the pod's resources that devices may serve. */
  placesOf(pod: Pod, resources: ResourceNames): readonly number[] {
    if (this.names.size === 0) return none;
    const asked = mappedResources(pod, (name) => (this.names.has(name) ? anyClass : undefined));
    return asked.map((name) => resources.placeOf(name));
  }

  /** Places of the resources that a node has from devices. GPUs of all makers are one resource. */
  placesOn(node: Node, resources: ResourceNames): ReadonlySet<number> {
    const places = new Set<number>();
    for (const name of this.names) places.add(resources.placeOf(name));
    for (const [name, amount] of Object.entries(node.status?.allocatable ?? node.status?.capacity ?? {})) {
      if (parseQuantity(amount).nano > 0n) places.delete(resources.placeOf(name));
    }
    return places;
  }
}

const none: readonly number[] = [];
const anyClass = { apiVersion: "", kind: "", metadata: { name: "" }, spec: {} } as never;

/** The amount of a resource that a node serves from devices. GPUs are counted, because queues divide them. */
export function servedAmount(place: number, claimGpus: number): number {
  return place === gpuAt ? claimGpus : unbounded;
}
