import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  cidrErrors,
  formatCidr,
  formatIp,
  ipErrors,
  maskNetwork,
  networkContains,
  parseCidr,
  parseIp,
} from "./ipAddress.ts";

describe("addresses have one canonical text", () => {
  test.each([
    ["10.0.0.1", "10.0.0.1"],
    ["010.0.0.1", "10.0.0.1"],
    ["2001:DB8::1", "2001:db8::1"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["::", "::"],
    ["::1", "::1"],
    ["1::", "1::"],
    ["1:0:3:4:5:6:7:8", "1:0:3:4:5:6:7:8"],
    ["::ffff:10.0.0.1", "10.0.0.1"],
    ["64:ff9b::10.0.0.1", "64:ff9b::a00:1"],
  ])("%s is %s", (text, canonical) => {
    const address = parseIp(text);
    expect(address && formatIp(address)).toBe(canonical);
  });

  test.each([
    "",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.a",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "::12345",
    "fe80::1%eth0",
    "1.2.3.4:80",
    "1:2:3:4:5:6:7::8:9",
    ":1",
    "1:",
  ])("%j is no address", (text) => {
    expect(parseIp(text)).toBeUndefined();
    expect(ipErrors(text)).toEqual(["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
  });

  test("strictness decides about odd but readable addresses", () => {
    expect(ipErrors("010.0.0.1", "legacy")).toEqual([]);
    expect(ipErrors("010.0.0.1", "strict")).toEqual(["must not have leading 0s"]);
    expect(ipErrors("::ffff:1.2.3.4", "strict")).toEqual(["must not be an IPv4-mapped IPv6 address"]);
    expect(ipErrors("2001:DB8::1", "strict")).toEqual([]);
    expect(ipErrors("2001:DB8::1")).toEqual(['must be in canonical form ("2001:db8::1")']);
  });

  test("whatever is written reads back", () => {
    const bytes = fc.oneof(
      fc.array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 }),
      fc.array(fc.nat(255), { minLength: 4, maxLength: 4 }),
    );
    fc.assert(
      fc.property(bytes, (all) => {
        const text = formatIp({ bytes: all, family: all.length === 4 ? "IPv4" : "IPv6" });
        const back = parseIp(text);
        expect(back && formatIp(back)).toBe(text);
        expect(back?.bytes).toEqual(all.length === 16 && back?.family === "IPv4" ? all.slice(12) : all);
      }),
    );
  });
});

describe("networks", () => {
  test("a good one draws no complaint", () => {
    for (const text of ["10.0.0.0/8", "0.0.0.0/0", "10.1.2.3/32", "2001:db8::/32", "::/0"])
      expect(cidrErrors(text)).toEqual([]);
  });
  test.each([
    ["10.0.0.0", /must be a valid CIDR value/],
    ["10.0.0.0/33", /must be a valid CIDR value/],
    ["10.0.0.0/-1", /must be a valid CIDR value/],
    ["10.0.0.0/8/8", /must be a valid CIDR value/],
    ["10.0.0.1/8", /bits set beyond the prefix length/],
    ["10.0.0.0/08", /leading 0s/],
    ["2001:DB8::/32", /canonical form \("2001:db8::\/32"\)/],
  ])("%s is refused", (text, message) => {
    expect(cidrErrors(text).join()).toMatch(message);
  });
  test("a network contains its own addresses only", () => {
    const network = parseCidr("10.96.0.0/12")!;
    expect(networkContains(network, parseIp("10.111.255.255")!)).toBe(true);
    expect(networkContains(network, parseIp("10.112.0.0")!)).toBe(false);
    expect(networkContains(network, parseIp("::1")!)).toBe(false);
    expect(formatCidr(maskNetwork(parseCidr("10.97.3.4/12")!))).toBe("10.96.0.0/12");
  });
});
