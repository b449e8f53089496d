import { expect, test } from "vitest";
import { device, node1, slice } from "../../../../testing/decide/deviceCluster.ts";
import { AllocatedSets } from "./allocatedState.ts";
import { allFeatures } from "./features.ts";
import { FullNodes } from "./fullNodes.ts";
import { SliceIndex } from "./pools.ts";

const keyOf = (name: string) => `driver-a/pool-1/${name}`;

function fullNodes(slices: Parameters<typeof slice>[1], ...taken: string[]): { full: FullNodes; state: AllocatedSets } {
  const state = new AllocatedSets();
  for (const name of taken) state.devices.add(keyOf(name));
  return { full: new FullNodes(new SliceIndex([slice("s", slices)], allFeatures), state), state };
}

test("a node is full when all of its devices are allocated, and no longer when one of them changes", () => {
  const { full, state } = fullNodes({ devices: ["d1", "d2"] }, "d1");
  expect(full.isFull(node1)).toBe(false);
  state.devices.add(keyOf("d2"));
  full.changed(keyOf("d2"));
  expect(full.isFull(node1)).toBe(true);
  state.devices.delete(keyOf("d1"));
  full.changed(keyOf("d1"));
  expect(full.isFull(node1)).toBe(false);
});

test("a node with a shareable device is always searched", () => {
  const card = device("d2", { allowMultipleAllocations: true });
  expect(fullNodes({ devices: ["d1", card] }, "d1").full.isFull(node1)).toBe(false);
  expect(fullNodes({ devices: ["d1", card] }, "d1", "d2").full.isFull(node1)).toBe(false);
});

test("a node with an incomplete pool is searched, because the search reports it", () => {
  expect(fullNodes({ pool: "pool-1/2", devices: ["d1"] }, "d1").full.isFull(node1)).toBe(false);
});
