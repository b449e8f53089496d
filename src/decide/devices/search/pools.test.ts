import { describe, expect, test } from "vitest";
import {
  type AllocationCase,
  claim,
  device,
  linesOf,
  request,
  runCase,
  slice,
} from "../../../../testing/decide/deviceCluster.ts";

/** The result of one request: lines of devices, or the kind of the refusal. */
function got(given: Omit<AllocationCase, "name" | "expect">): readonly string[] | string {
  const result = runCase({ name: "", expect: "none", ...given });
  return result.kind === "allocated" ? result.results.flatMap(linesOf) : result.kind;
}

const one = [claim("c", [request("r")])];
const all = [claim("c", [request("r", { all: true })])];

describe("generations of a pool", () => {
  const older = slice("old", { generation: 1, devices: ["d1"] });
  const newer = slice("new", { generation: 2, devices: ["d2"] });

  test.each([
    { name: "the older one is listed first", slices: [older, newer] },
    { name: "the newer one is listed first", slices: [newer, older] },
  ])("only the newest one on a node counts: $name", ({ slices }) => {
    expect(got({ claims: one, slices })).toEqual(["r pool-1/d2"]);
    expect(got({ claims: all, slices })).toEqual(["r pool-1/d2"]);
  });

  test("a newer incomplete generation hides an older complete one", () => {
    const begun = slice("new", { pool: "pool-1/2", generation: 2, devices: ["d2"] });
    expect(got({ claims: one, slices: [older, begun] })).toBe("doesNotFit");
  });

  // The pool spans two nodes. The driver has begun to publish a new generation on the other one: the devices of this
  // node may not exist any more.
  const stale = [
    slice("s1", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d1"] }),
    slice("s2", { pool: "pool-1/2", generation: 1, at: "node-2", devices: ["d2"] }),
  ];
  const begunElsewhere = slice("s3", { pool: "pool-1/2", generation: 2, at: "node-2", devices: ["d2"] });

  test("a complete generation over two nodes is not used once a newer one has begun on the other node", () => {
    expect(got({ claims: one, slices: stale })).toEqual(["r pool-1/d1"]);
    expect(got({ claims: one, slices: [...stale, begunElsewhere] })).toBe("doesNotFit");
  });

  test("an outdated pool does not stop a request for all devices of the others", () => {
    const other = slice("s4", { pool: "pool-2", devices: ["d4"] });
    expect(got({ claims: all, slices: [...stale, begunElsewhere, other] })).toEqual(["r pool-2/d4"]);
  });
});

describe("counters of a pool", () => {
  const counted = slice("s0", { pool: "pool-1/2", counters: { gpu: { memory: "8" }, cpu: { cores: "8" } } });
  const parts = (...more: ReturnType<typeof device>[]) =>
    slice("s1", {
      pool: "pool-1/2",
      devices: [
        device("d1", { uses: { gpu: { memory: "6" } } }),
        device("d2", { uses: { gpu: { memory: "6" } } }),
        device("d3", { uses: { cpu: { cores: "1" } } }),
        ...more,
      ],
    });
  const taken = ["pool-1/d1", "pool-1/d2"];

  test("an overdrawn counter blocks every device that uses counters, and no other", () => {
    expect(got({ claims: one, slices: [counted, parts()], taken: ["pool-1/d1"] })).toEqual(["r pool-1/d3"]);
    expect(got({ claims: one, slices: [counted, parts()], taken })).toBe("doesNotFit");
    expect(got({ claims: one, slices: [counted, parts(device("d4"))], taken })).toEqual(["r pool-1/d4"]);
  });
});
