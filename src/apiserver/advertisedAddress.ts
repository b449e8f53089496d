import { isIP } from "node:net";
import type { networkInterfaces } from "node:os";

type Interfaces = ReturnType<typeof networkInterfaces>;

/** Used when a server listens on all addresses of a machine that has only loopback ones, and for host names. */
const loopback = "127.0.0.1";

/**
 * The address of a server in the endpoints of the Service `kubernetes`: the one that it listens on; of a server on all
 * addresses the first external IPv4 address of the machine.
 */
export function advertisedAddress(host: string, interfaces: Interfaces): string {
  if (!isWildcard(host)) return isIP(host) === 0 ? loopback : host;
  const external = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal);
  return external?.address ?? loopback;
}

/** Whether a server that listens on this address is reached by all addresses of its machine. */
export function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

/** The names in the certificate of a server, besides those that every server has. */
export function certificateNames(
  host: string,
  { interfaces, hostname, more }: { interfaces: Interfaces; hostname: string; more: readonly string[] },
): string[] {
  if (!isWildcard(host)) return host === loopback ? [...more] : [host, ...more];
  const addresses = Object.values(interfaces)
    .flatMap((each) => each ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .map(({ address }) => address);
  return [...new Set([...addresses, ...(hostname === "" ? [] : [hostname.toLowerCase()]), ...more])];
}
