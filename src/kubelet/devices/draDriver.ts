/** The first half of a fake DRA driver: the slices that publish the devices of a node. */
import type { NewObject } from "../../model/intent.ts";
import type { Device, Node, ResourceSlice, ResourceSliceSpec } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { NodeState } from "../node/nodeState.ts";
import { identityOf, type Next, type NodeWrite, sliceRef } from "../node/nodeWrite.ts";
import type { SimNode } from "../node/simNode.ts";
import { type DraInventory, type DraOptions, draInventory } from "./draDevices.ts";

export interface SlicesInput {
  readonly node: Node;
  readonly sim: SimNode;
  readonly state: NodeState;
  /** The slices of this driver and node that exist. */
  readonly slices: readonly ResourceSlice[];
  /** Device name to the time since when it is prepared for a claim that no longer has it; from unreleasedDevices. */
  readonly unreleased?: ReadonlyMap<string, number>;
  readonly options: DraOptions;
}

const devicesMax = 128;
const richDevicesMax = 64;
const counterSetsMax = 8;

/**
 * Publishes the devices of a node as slices. A pool whose set of devices changes gets a new generation in all its
 * slices; a change within a device (a taint) is written in place.
 */
export function nextForSlices(input: SlicesInput): Next<ResourceSlice> {
  const { node, sim, state, options } = input;
  if (!state.alive) return { writes: [], wakeAtMs: state.nextMs };
  const current = [...input.slices].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const inventory = draInventory(sim, state, options, input.unreleased);
  const parts = split(inventory);
  const generation = nextGeneration(current, parts);
  const writes: NodeWrite<ResourceSlice>[] = [];
  for (const [i, part] of parts.entries()) {
    const spec: ResourceSliceSpec = {
      driver: options.driver,
      nodeName: sim.name,
      pool: { name: sim.name, generation, resourceSliceCount: parts.length },
      ...part,
    };
    const name = sliceName(sim.name, options.driver, i);
    const known = current.find(({ metadata }) => metadata.name === name);
    if (known === undefined) {
      const owner = { apiVersion: "v1", kind: "Node", name: sim.name, uid: node.metadata.uid, controller: true };
      const object: NewObject<ResourceSlice> = {
        apiVersion: "resource.k8s.io/v1",
        kind: "ResourceSlice",
        metadata: { name, ownerReferences: [owner] },
        spec,
      };
      writes.push({ kind: "create", ref: sliceRef(name), object });
    } else if (!equalFields(known.spec, spec)) {
      writes.push({ kind: "update", ref: sliceRef(name), object: { ...known, spec } });
    }
  }
  const wanted = new Set(parts.map((_, i) => sliceName(sim.name, options.driver, i)));
  for (const { metadata } of current) {
    if (wanted.has(metadata.name)) continue;
    writes.push({ kind: "delete", ref: sliceRef(metadata.name), expected: identityOf(metadata), graceSeconds: 0 });
  }
  return { writes, wakeAtMs: state.nextMs };
}

export function sliceName(node: string, driver: string, i: number): string {
  return `${node}-${driver}-${i}`;
}

type Part = Pick<ResourceSliceSpec, "devices" | "sharedCounters">;

/** Counter sets and devices are in separate slices, and a slice has a limited number of them. */
function split({ devices, counterSets }: DraInventory): Part[] {
  const parts: Part[] = [];
  for (let i = 0; i < counterSets.length; i += counterSetsMax) {
    parts.push({ sharedCounters: counterSets.slice(i, i + counterSetsMax) });
  }
  const max = devices.some(isRich) ? richDevicesMax : devicesMax;
  for (let i = 0; i < devices.length; i += max) parts.push({ devices: devices.slice(i, i + max) });
  return parts;
}

function isRich({ taints, consumesCounters }: Device): boolean {
  return taints !== undefined || consumesCounters !== undefined;
}

/** The generation of the pool: one more than the newest when its members or its slices change. */
function nextGeneration(current: readonly ResourceSlice[], parts: readonly Part[]): number {
  const newest = Math.max(0, ...current.map(({ spec }) => spec.pool.generation));
  if (newest === 0) return 1;
  const members = (list: readonly Part[]) =>
    list
      .flatMap(({ devices = [], sharedCounters = [] }) => [
        ...devices.map(({ name }) => `d/${name}`),
        ...sharedCounters.map(({ name }) => `c/${name}`),
      ])
      .sort();
  const now = current.filter(({ spec }) => spec.pool.generation === newest).map(({ spec }) => spec);
  const isSame = now.length === parts.length && equalFields(members(now), members(parts));
  return isSame ? newest : newest + 1;
}
