/** Addresses of pods: the lowest free one of the node's CIDR, given the pods that have one. */

import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { formatIp, maskNetwork, parseCidr, parseIp } from "../../model/values/ipAddress.ts";
import { seededBelow } from "../../model/values/seeded.ts";

export interface PodAddresses {
  readonly hostIPs: readonly string[];
  readonly podIPs: readonly string[];
}

/**
 * The pod CIDR of a node that has none: a /24 of 100.64.0.0/10 derived from its name, so that nodes without CIDRs
 * rarely use the same addresses.
 */
function ownCidr(node: string): string {
  const place = seededBelow(1 << 14, "pod range", node);
  return `100.${64 + (place >> 8)}.${place & 255}.0/24`;
}

/** Undefined when a range of the node is used up. */
export function addressesFor(pod: Pod, node: Node, pods: Iterable<Pod>): PodAddresses | undefined {
  const hostIPs = nodeIps(node);
  if (pod.spec?.hostNetwork === true) return { hostIPs, podIPs: hostIPs };
  const cidrs = node.spec?.podCIDRs ?? (node.spec?.podCIDR ? [node.spec.podCIDR] : [ownCidr(node.metadata.name)]);
  const used = new Set<string>();
  for (const other of pods) {
    if (other.spec?.hostNetwork === true || other.metadata.uid === pod.metadata.uid) continue;
    const phase = other.status?.phase;
    if (phase === "Succeeded" || phase === "Failed") continue;
    if (other.status?.podIP !== undefined) used.add(other.status.podIP);
    for (const { ip } of other.status?.podIPs ?? []) used.add(ip);
  }
  const podIPs: string[] = [];
  for (const cidr of cidrs) {
    const free = lowestFree(cidr, used);
    if (free === undefined) return undefined;
    podIPs.push(free);
  }
  return { hostIPs, podIPs };
}

/** Internal before external, one of each family. */
function nodeIps(node: Node): string[] {
  const addresses = node.status?.addresses ?? [];
  const ips = [
    ...addresses.filter(({ type }) => type === "InternalIP"),
    ...addresses.filter(({ type }) => type === "ExternalIP"),
  ].map(({ address }) => address);
  const [first] = ips;
  if (first === undefined) return [];
  const family = parseIp(first)?.family;
  const other = ips.find((ip) => parseIp(ip)?.family !== family);
  return other === undefined ? [first] : [first, other];
}

/** The first address is the network's and, in IPv4, the last one is the broadcast address. */
function lowestFree(cidr: string, used: ReadonlySet<string>): string | undefined {
  const network = parseCidr(cidr);
  if (network === undefined) return undefined;
  const { address, prefixBits } = maskNetwork(network);
  const hostBits = address.bytes.length * 8 - prefixBits;
  const last = hostBits >= 31 ? 2 ** 31 : 2 ** hostBits - (address.family === "IPv4" ? 2 : 1);
  for (let host = 1; host <= last; host++) {
    const text = formatIp({ family: address.family, bytes: plus(address.bytes, host) });
    if (!used.has(text)) return text;
  }
  return undefined;
}

function plus(bytes: readonly number[], amount: number): number[] {
  const sum = [...bytes];
  let carry = amount;
  for (let i = sum.length - 1; i >= 0 && carry > 0; i--) {
    const total = (sum[i] ?? 0) + carry;
    sum[i] = total % 256;
    carry = Math.floor(total / 256);
  }
  return sum;
}
