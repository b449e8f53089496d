import { isIP } from "node:net";
import type { networkInterfaces } from "node:os";

/** Used when a server listens on all addresses of a machine that has only loopback ones, and for host names. */
const loopback = "127.0.0.1";

/**
 * The address of a server in the endpoints of the Service `kubernetes`: the one that it listens on; of a server on all
 * addresses the first external IPv4 address of the machine.
 */
export function advertisedAddress(host: string, interfaces: ReturnType<typeof networkInterfaces>): string {
  if (host !== "0.0.0.0" && host !== "::") return isIP(host) === 0 ? loopback : host;
  const external = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal);
  return external?.address ?? loopback;
}
