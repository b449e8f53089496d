import type { NetworkInterfaceInfo } from "node:os";
import { expect, test } from "vitest";
import { advertisedAddress, certificateNames } from "./advertisedAddress.ts";

const info = (address: string, internal: boolean, family: "IPv4" | "IPv6" = "IPv4"): NetworkInterfaceInfo =>
  ({ address, internal, family }) as NetworkInterfaceInfo;
const machine = { lo: [info("127.0.0.1", true)], eth0: [info("fd00::1", false, "IPv6"), info("10.1.2.3", false)] };

test.each([
  ["an address", "192.0.2.1", "192.0.2.1"],
  ["a loopback address", "127.0.0.1", "127.0.0.1"],
  ["an IPv6 address", "fd00::1", "fd00::1"],
  ["all IPv4 addresses", "0.0.0.0", "10.1.2.3"],
  ["all IPv6 addresses", "::", "10.1.2.3"],
  ["a host name", "localhost", "127.0.0.1"],
])("a server that listens on %s is advertised by an IP address", (_, host, address) => {
  expect(advertisedAddress(host, machine)).toBe(address);
});

test("a server on all addresses of a machine without a network is advertised on loopback", () => {
  expect(advertisedAddress("0.0.0.0", { lo: [info("127.0.0.1", true)] })).toBe("127.0.0.1");
});

test.each([
  ["one loopback address", "127.0.0.1", [], []],
  ["one address", "192.0.2.1", [], ["192.0.2.1"]],
  ["one address, and a name", "192.0.2.1", ["gpu.lab"], ["192.0.2.1", "gpu.lab"]],
  ["all addresses", "0.0.0.0", ["gpu.lab"], ["fd00::1", "10.1.2.3", "box", "gpu.lab"]],
])("the certificate of a server on %s names what clients connect to", (_, host, more, names) => {
  expect(certificateNames(host, { interfaces: machine, hostname: "Box", more })).toEqual(names);
});
