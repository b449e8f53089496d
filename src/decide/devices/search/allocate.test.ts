import { expect, test } from "vitest";
import {
  type AllocationCase,
  claim,
  device,
  request,
  runCase,
  slice,
} from "../../../../testing/decide/deviceCluster.ts";

/** The ids of all allocated shares, in order of claim and request. */
function shareIds(given: Pick<AllocationCase, "claims" | "slices">): (string | undefined)[] {
  const result = runCase({ name: "", expect: "none", ...given });
  if (result.kind !== "allocated") throw new Error(result.kind);
  return result.results.flatMap(({ devices }) => (devices?.results ?? []).map(({ shareID }) => shareID));
}

const card = (name: string) => device(name, { allowMultipleAllocations: true, cap: { memory: "8" } });
const slices = [slice("s", { devices: [card("d1"), card("d2")] })];
const ask = { class: "shareable", capacity: { memory: "1" } };
const claims = ["c0", "c1"].map((name) => claim(name, [request("r0", ask), request("r1", { ...ask, count: 2 })]));

// A share is counted by its id: two with the same id would count as one, and the device would be overallocated.
test("no two shares have the same id: not of two claims, two requests, two devices", () => {
  const ids = shareIds({ claims, slices });
  expect(ids).toHaveLength(6);
  expect(new Set(ids).size).toBe(6);
  expect(ids).not.toContain(undefined);
});

test("a decision that is taken again gives the same ids, and one about a claim that has changed gives others", () => {
  const ids = shareIds({ claims, slices });
  expect(shareIds({ claims, slices })).toEqual(ids);
  const changed = claims.map((each) => ({ ...each, metadata: { ...each.metadata, resourceVersion: "99" } }));
  for (const id of shareIds({ claims: changed, slices })) expect(ids).not.toContain(id);
});
