import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { gpusOfClaim } from "./claimDevices.ts";

type Request = NonNullable<NonNullable<ResourceClaim["spec"]["devices"]>["requests"]>[number];

const claim = (requests: readonly Request[], results?: readonly string[]): ResourceClaim =>
  partly<ResourceClaim>({
    spec: { devices: { requests } },
    ...(results !== undefined && {
      status: { allocation: { devices: { results: results.map((request) => ({ request })) } } },
    }),
  });
const exactly = (deviceClassName: string, more: object = {}): Request =>
  ({ name: "r", exactly: { deviceClassName, ...more } }) as Request;
const oneOf = (...classes: readonly [name: string, count: number][]): Request =>
  ({
    name: "r",
    firstAvailable: classes.map(([deviceClassName, count]) => ({ name: deviceClassName, deviceClassName, count })),
  }) as Request;

describe("how many GPUs a claim counts for in a queue", () => {
  test.each([
    ["a count of a class whose name says GPU", claim([exactly("gpu.nvidia.com", { count: 3 })]), 3],
    ["no count is one", claim([exactly("gpu.nvidia.com")]), 1],
    ["a count of zero is one", claim([exactly("gpu.nvidia.com", { count: 0 })]), 1],
    ["all that there are is one until they are allocated", claim([exactly("gpu", { allocationMode: "All" })]), 1],
    ["all that there are, once they are allocated", claim([exactly("gpu", { allocationMode: "All" })], ["r", "r"]), 2],
    ["another class is none", claim([exactly("nic.example.com", { count: 3 })]), 0],
    ["who only looks has none", claim([exactly("gpu", { adminAccess: true })]), 0],
    ["it would fit with the least of what", claim([oneOf(["big-gpu", 1], ["small-gpu", 4])]), 1],
    [
      "the alternative that was chosen",
      claim([oneOf(["big-gpu", 1], ["small-gpu", 2])], Array(2).fill("r/small-gpu")),
      2,
    ],
    ["several requests", claim([exactly("gpu", { count: 2 }), { ...exactly("gpu"), name: "s" } as Request]), 3],
  ])("%s", (_, given, gpus) => {
    expect(gpusOfClaim(given)).toBe(gpus);
  });

  test("amounts without end are held back instead of overflowing", () => {
    const many = exactly("gpu", { count: Number.MAX_SAFE_INTEGER });
    expect(Number.isSafeInteger(gpusOfClaim(claim([many, many])) * 1000)).toBe(true);
  });
});
