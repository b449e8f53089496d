/** IP addresses and networks as bytes: parsing, and formatting in the canonical form (RFC 5952). */
export type IpAddress = {
  readonly bytes: readonly number[];
  readonly family: "IPv4" | "IPv6";
};

export type IpNetwork = { readonly address: IpAddress; readonly prefixBits: number };

/**
 * How strict to be. `canonical`: only the canonical text. `strict`: any unambiguous text. `legacy`: also leading zeros
 * and IPv4 inside IPv6, which old fields accept.
 */
export type IpStrictness = "canonical" | "strict" | "legacy";

export function ipErrors(text: string, strictness: IpStrictness = "canonical"): string[] {
  const address = parseIp(text);
  if (address === undefined) return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"];
  if (strictness === "legacy") return [];
  if (hasLeadingZeros(text)) return ["must not have leading 0s"];
  if (isMapped(address)) return ["must not be an IPv4-mapped IPv6 address"];
  const canonical = formatIp(address);
  if (strictness === "canonical" && text !== canonical) return [`must be in canonical form ("${canonical}")`];
  return [];
}

export function cidrErrors(text: string, strictness: IpStrictness = "canonical"): string[] {
  const network = parseCidr(text);
  if (network === undefined) return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"];
  if (strictness === "legacy") return [];
  const [addressText = "", bits = ""] = text.split("/");
  if (hasLeadingZeros(addressText) || (bits.length > 1 && bits.startsWith("0"))) {
    return ["must not have leading 0s in IP or prefix length"];
  }
  if (isMapped(network.address)) return ["must not have an IPv4-mapped IPv6 address"];
  const canonical = formatCidr(maskNetwork(network));
  if (formatCidr(network) !== canonical) return ["must not have bits set beyond the prefix length"];
  if (strictness === "canonical" && text !== canonical) return [`must be in canonical form ("${canonical}")`];
  return [];
}

export function parseIp(text: string): IpAddress | undefined {
  if (text.length > 45) return undefined;
  const bytes = text.includes(":") ? parseIpv6(text) : parseIpv4(text);
  return bytes === undefined ? undefined : { bytes, family: bytes.length === 4 ? "IPv4" : "IPv6" };
}

export function parseCidr(text: string): IpNetwork | undefined {
  const slash = text.indexOf("/");
  if (slash < 0) return undefined;
  const address = parseIp(text.slice(0, slash));
  const bits = text.slice(slash + 1);
  if (address === undefined || !/^[0-9]{1,9}$/.test(bits)) return undefined;
  const prefixBits = Number(bits);
  return prefixBits > address.bytes.length * 8 ? undefined : { address, prefixBits };
}

/** The network with every bit beyond the prefix cleared. */
export function maskNetwork({ address, prefixBits }: IpNetwork): IpNetwork {
  const bytes = address.bytes.map((byte, i) => {
    const bits = Math.min(8, Math.max(0, prefixBits - i * 8));
    return byte & (0xff00 >> bits) & 0xff;
  });
  return { address: { bytes, family: address.family }, prefixBits };
}

export function networkContains(network: IpNetwork, address: IpAddress): boolean {
  if (network.address.family !== address.family) return false;
  const masked = maskNetwork({ address, prefixBits: network.prefixBits }).address.bytes;
  return maskNetwork(network).address.bytes.every((byte, i) => byte === masked[i]);
}

export function formatIp(address: IpAddress): string {
  const { bytes } = address;
  if (bytes.length === 4) return bytes.join(".");
  if (isMapped(address)) return bytes.slice(12).join(".");
  const groups: number[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0));
  // The longest run of zero groups (two or more, the first of equals) becomes `::`.
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (start + length < 8 && groups[start + length] === 0) length++;
    if (length > best.length) best = { start, length };
  }
  const hex = groups.map((group) => group.toString(16));
  if (best.start < 0) return hex.join(":");
  return `${hex.slice(0, best.start).join(":")}::${hex.slice(best.start + best.length).join(":")}`;
}

export function formatCidr({ address, prefixBits }: IpNetwork): string {
  return `${formatIp(address)}/${prefixBits}`;
}

/** An IPv4-mapped IPv6 address: `::ffff:10.0.0.1`. */
function isMapped({ bytes }: IpAddress): boolean {
  return bytes.length === 16 && bytes[10] === 0xff && bytes[11] === 0xff && bytes.slice(0, 10).every((b) => b === 0);
}

function parseIpv4(text: string): number[] | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  const bytes: number[] = [];
  for (const part of parts) {
    if (!/^[0-9]{1,9}$/.test(part) || Number(part) > 255) return undefined;
    bytes.push(Number(part));
  }
  return bytes;
}

function parseIpv6(text: string): number[] | undefined {
  const gap = text.indexOf("::");
  if (gap !== text.lastIndexOf("::")) return undefined;
  if (gap < 0) {
    const bytes = parseGroups(text);
    return bytes?.length === 16 ? bytes : undefined;
  }
  const head = gap === 0 ? [] : parseGroups(text.slice(0, gap));
  const tail = gap + 2 === text.length ? [] : parseGroups(text.slice(gap + 2));
  // The gap stands for at least one group.
  if (head === undefined || tail === undefined || head.length + tail.length > 14) return undefined;
  return [...head, ...new Array<number>(16 - head.length - tail.length).fill(0), ...tail];
}

function parseGroups(text: string): number[] | undefined {
  const groups = text.split(":");
  const bytes: number[] = [];
  for (const [i, group] of groups.entries()) {
    if (group.includes(".") && i === groups.length - 1) {
      const last = parseIpv4(group);
      if (last === undefined) return undefined;
      bytes.push(...last);
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return undefined;
      const number = Number.parseInt(group, 16);
      bytes.push(number >> 8, number & 0xff);
    }
  }
  return bytes;
}

function hasLeadingZeros(text: string): boolean {
  const dotted = text.slice(text.lastIndexOf(":") + 1);
  return dotted.includes(".") && dotted.split(".").some((part) => part.length > 1 && part.startsWith("0"));
}
