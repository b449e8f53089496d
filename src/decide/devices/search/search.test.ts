import { expect, test } from "vitest";
import { claim, device, firstOf, request, runCase, slice } from "../../../../testing/decide/deviceCluster.ts";

const visits = (given: Omit<Parameters<typeof runCase>[0], "name" | "expect">) => {
  const result = runCase({ name: "", expect: "none", ...given });
  return { kind: result.kind, visited: result.visited };
};

// Each of these has no solution, and a plain search would try more assignments than time allows.

test("eight devices of one root, where every root has six", () => {
  const devices = Array.from({ length: 36 }, (_, i) => device(`d${i}`, { attrs: { root: i % 6, index: i } }));
  const claims = [
    claim("c", [request("a", { count: 4 }), request("b", { count: 4 })], {
      constraints: [{ matchAttribute: "driver-a/root" }],
    }),
  ];
  const result = visits({ claims, slices: [slice("s", { devices })] });
  expect(result.kind).toBe("doesNotFit");
  expect(result.visited).toBeLessThan(2_000);
});

test("seven partitions where the counters allow six", () => {
  const part = (i: number) => device(`d${i}`, { uses: { gpu: { memory: "10" } } });
  const slices = [
    slice("s0", { pool: "pool-1/2", counters: { gpu: { memory: "60" } } }),
    slice("s1", { pool: "pool-1/2", devices: Array.from({ length: 24 }, (_, i) => part(i)) }),
  ];
  const result = visits({ claims: [claim("c", [request("a", { count: 4 }), request("b", { count: 3 })])], slices });
  expect(result.kind).toBe("doesNotFit");
  expect(result.visited).toBeLessThan(2_000);
});

test("many requests for devices of which one is missing at the end", () => {
  const devices = Array.from({ length: 20 }, (_, i) => device(`d${i}`, { attrs: { kind: i % 4 } }));
  const requests = Array.from({ length: 10 }, (_, i) => request(`r${i}`, { count: 2 }));
  const last = request("last", { where: 'device.attributes["driver-a"].kind == 9' });
  const result = visits({ claims: [claim("c", [...requests, last])], slices: [slice("s", { devices })] });
  expect(result.kind).toBe("doesNotFit");
  expect(result.visited).toBeLessThan(2_000);
});

test("alternatives that all need the devices of an earlier request", () => {
  const devices = Array.from({ length: 16 }, (_, i) => device(`d${i}`, { attrs: { kind: i % 2 } }));
  const even = { where: 'device.attributes["driver-a"].kind == 0' };
  const requests = [
    request("a", { count: 5 }),
    firstOf("b", { count: 8, ...even }, { count: 7, ...even }),
    request("c", { count: 9 }),
  ];
  const result = visits({ claims: [claim("c", requests)], slices: [slice("s", { devices })] });
  expect(result.kind).toBe("doesNotFit");
  expect(result.visited).toBeLessThan(2_000);
});
