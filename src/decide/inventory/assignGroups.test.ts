import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gpuType, group } from "../../sim/inventory/builders.ts";
import { assignGroups } from "./assignGroups.ts";

const names = { prefix: "p", aliases: { "t4-az2": "t4" } };
const types = [
  ...["t4", "t4-small", "l4", "l40s", "h20", "h200", "a10", "a100", "h100"].map((name) => gpuType(name, 8)),
  gpuType("cpu-x86", 0),
  gpuType("cpu-x86-big", 0),
  gpuType("retired", 8, { isActive: false }),
  gpuType("h100-mig-1g", 16, { nodeLabelValue: "h100" }),
];

describe("a scaling group belongs to", () => {
  test.each([
    { fact: "the type that its name ends with", name: "p-gpu-nodes-h100", type: "h100" },
    { fact: "the longest type, not the first: t4-small is no t4", name: "p-gpu-nodes-t4-small", type: "t4-small" },
    { fact: "the type before a capacity reservation's key", name: "p-gpu-nodes-h100-cr0", type: "h100" },
    { fact: "the type that its alias names", name: "p-gpu-nodes-t4-az2", type: "t4" },
    { fact: "l40s and not l4", name: "p-gpu-nodes-l40s-1", type: "l40s" },
    { fact: "h200 and not h20", name: "p-gpu-nodes-h200", type: "h200" },
    { fact: "a100 and not a10", name: "p-gpu-nodes-a100-a", type: "a100" },
    { fact: "cpu-x86-big and not cpu-x86", name: "p-gpu-nodes-cpu-x86-big", type: "cpu-x86-big" },
    { fact: "no type when the key does not end at a dash", name: "p-gpu-nodes-h1000", type: undefined },
    { fact: "no type when it is the management group", name: "p-cpu-nodes", type: undefined },
    { fact: "a type that is switched off, so that no other adopts it", name: "p-gpu-nodes-retired", type: "retired" },
    { fact: "the physical type, never to a slice of it", name: "p-gpu-nodes-h100-mig-1g", type: "h100" },
  ])("$fact", ({ name, type }) => {
    const { byType, unassigned } = assignGroups([group(name, ["i-1"])], types, names);
    const owners = [...byType].filter(([, groups]) => groups.length > 0).map(([owner]) => owner);
    expect(owners).toEqual(type === undefined ? [] : [type]);
    expect(unassigned.map((each) => each.name)).toEqual(type === undefined ? [name] : []);
  });

  test("the type of its tag, whatever its name says", () => {
    const tagged = group("p-gpu-nodes-h100", ["i-1"], { tags: { GpuType: "t4-az2" } });
    expect(assignGroups([tagged], types, names).byType.get("t4")).toEqual([tagged]);
  });

  test("no type, without a report, when it is another team's", () => {
    expect(assignGroups([group("web-servers", ["i-1"])], types, names).unassigned).toEqual([]);
  });

  test("one type at most, in any order of the list, and once if a page repeats it", () => {
    const groups = ["t4", "t4-small", "t4-az2", "h100-cr1", "h100-cr2", "x"].map((key) =>
      group(`p-gpu-nodes-${key}`, [`i-${key}`]),
    );
    const expected = assignGroups(groups, types, names);
    fc.assert(
      fc.property(fc.shuffledSubarray([...groups, ...groups], { minLength: 12 }), (shuffled) => {
        expect(assignGroups(shuffled, types, names)).toEqual(expected);
      }),
      { numRuns: 50 },
    );
    expect([...expected.byType.values()].flat()).toHaveLength(5);
  });
});
