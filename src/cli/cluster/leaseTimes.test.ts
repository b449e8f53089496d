import { describe, expect, test } from "vitest";
import { leaseTimes } from "./leaseTimes.ts";

const usual = { leaseDuration: "15s", leaseRenewDeadline: "10s", leaseRetryPeriod: "2s" };

describe("the times of leader election", () => {
  test("are those of the flags", () => {
    expect(leaseTimes({ leaseDuration: "3s", leaseRenewDeadline: "2s", leaseRetryPeriod: "500ms" })).toEqual({
      durationMs: 3000,
      renewDeadlineMs: 2000,
      retryMs: 500,
    });
  });

  test.each([
    ["--lease-duration soon", { leaseDuration: "soon" }],
    ["--lease-retry-period 0s", { leaseRetryPeriod: "0s" }],
    ["--lease-duration 2500ms", { leaseDuration: "2500ms" }],
    ["--lease-retry-period 6s is more than half", { leaseRetryPeriod: "6s" }],
    ["--lease-renew-deadline 15s is not below --lease-duration 15s", { leaseRenewDeadline: "15s" }],
  ])("%s is refused by its name", (named, flags) => {
    expect(() => leaseTimes({ ...usual, ...flags })).toThrow(named);
  });
});
