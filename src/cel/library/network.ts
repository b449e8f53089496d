import {
  formatCidr,
  formatIp,
  type IpAddress,
  type IpNetwork,
  ipErrors,
  maskNetwork,
  networkContains,
  parseCidr,
  parseIp,
} from "../../model/values/ipAddress.ts";
import { type CelFunction, define, sameSize, traverseFirst } from "../functions.ts";
import { CelMap, CelObject, type CelValue, fail, noOverload } from "../values.ts";
import { parseUrl, type Url } from "./url.ts";

/** Addresses, networks and URLs. */
export class CelIp extends CelObject {
  readonly typeName = "net.IP";
  readonly address: IpAddress;
  readonly text: string;
  constructor(address: IpAddress) {
    super();
    this.address = address;
    this.text = formatIp(address);
  }
  equals(other: CelObject): boolean {
    return other instanceof CelIp && other.text === this.text;
  }
}

export class CelCidr extends CelObject {
  readonly typeName = "net.CIDR";
  readonly network: IpNetwork;
  readonly text: string;
  constructor(network: IpNetwork) {
    super();
    this.network = network;
    this.text = formatCidr(network);
  }
  equals(other: CelObject): boolean {
    return other instanceof CelCidr && other.text === this.text;
  }
}

export class CelUrl extends CelObject {
  readonly typeName = "kubernetes.URL";
  readonly url: Url;
  constructor(url: Url) {
    super();
    this.url = url;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelUrl && other.url.text === this.url.text;
  }
}

function text(value: CelValue): string {
  return typeof value === "string" ? value : noOverload();
}

function tryIp(value: CelValue): CelIp | string {
  const word = text(value);
  const address = parseIp(word);
  if (address === undefined) return `IP Address ${JSON.stringify(word)} parse error during conversion from string`;
  const [problem] = ipErrors(word, "strict");
  return problem === undefined ? new CelIp(address) : `IP Address ${JSON.stringify(word)} ${problem}`;
}

function tryCidr(value: CelValue): CelCidr | string {
  const word = text(value);
  const network = parseCidr(word);
  const problem = network === undefined ? "parse error" : ipErrors(word.split("/")[0] ?? "", "strict")[0];
  if (network === undefined || problem !== undefined)
    return `network address parse error during conversion from string`;
  return new CelCidr(network);
}

function ip(value: CelValue): CelIp {
  return value instanceof CelIp ? value : noOverload();
}

function cidr(value: CelValue): CelCidr {
  return value instanceof CelCidr ? value : noOverload();
}

function url(value: CelValue): Url {
  return value instanceof CelUrl ? value.url : noOverload();
}

function orFail<T extends CelValue>(result: T | string): T {
  return typeof result === "string" ? fail(result) : (result as T);
}

function bytesOf(value: CelValue): readonly number[] {
  return ip(value).address.bytes;
}

const isZero = (byte: number) => byte === 0;
const traits: Readonly<Record<string, (bytes: readonly number[]) => boolean>> = {
  isUnspecified: (bytes) => bytes.every(isZero),
  isLoopback: (bytes) => (bytes.length === 4 ? bytes[0] === 127 : bytes.slice(0, 15).every(isZero) && bytes[15] === 1),
  isLinkLocalMulticast: (bytes) =>
    bytes.length === 4
      ? bytes[0] === 224 && bytes[1] === 0 && bytes[2] === 0
      : bytes[0] === 255 && ((bytes[1] ?? 0) & 15) === 2,
  isLinkLocalUnicast: (bytes) =>
    bytes.length === 4 ? bytes[0] === 169 && bytes[1] === 254 : bytes[0] === 254 && ((bytes[1] ?? 0) & 192) === 128,
  isGlobalUnicast: (bytes) => {
    const isMulticast = bytes.length === 4 ? ((bytes[0] ?? 0) & 240) === 224 : bytes[0] === 255;
    const isBroadcast = bytes.length === 4 && bytes.every((byte) => byte === 255);
    const local = traits["isLoopback"]?.(bytes) || traits["isLinkLocalUnicast"]?.(bytes) || bytes.every(isZero);
    return !isMulticast && !isBroadcast && !local;
  },
};

function contains(network: IpNetwork, inner: IpNetwork): boolean {
  return inner.prefixBits >= network.prefixBits && networkContains(network, inner.address);
}

function queryMap(value: CelValue): CelValue {
  return CelMap.of(url(value).query);
}

const parsing = { cost: traverseFirst };
const part = { resultSize: sameSize };

export const networkLibrary: readonly CelFunction[] = [
  define(["ip(string): IP"], (a) => orFail(tryIp(a)), parsing),
  define(["isIP(string): bool"], (a) => typeof tryIp(a) !== "string", parsing),
  define(["ip.isCanonical(string): bool"], (a) => orFail(tryIp(a)).text === a, {
    cost: (a) => 2 * traverseFirst(a, 0, 0, true),
  }),
  define(["<IP>.family(): int"], (a) => (ip(a).address.family === "IPv4" ? 4 : 6)),
  ...Object.entries(traits).map(([name, test]) => define([`<IP>.${name}(): bool`], (a) => test(bytesOf(a)))),
  define(["cidr(string): CIDR"], (a) => orFail(tryCidr(a)), parsing),
  define(["isCIDR(string): bool"], (a) => typeof tryCidr(a) !== "string", parsing),
  define(["<CIDR>.containsIP(string): bool", "<CIDR>.containsIP(IP): bool"], (a, b) => {
    const address = typeof b === "string" ? orFail(tryIp(b)) : ip(b);
    return networkContains(cidr(a).network, address.address);
  }),
  define(["<CIDR>.containsCIDR(string): bool", "<CIDR>.containsCIDR(CIDR): bool"], (a, b) => {
    const inner = typeof b === "string" ? orFail(tryCidr(b)) : cidr(b);
    return contains(cidr(a).network, inner.network);
  }),
  define(["<CIDR>.ip(): IP"], (a) => new CelIp(cidr(a).network.address)),
  define(["<CIDR>.masked(): CIDR"], (a) => new CelCidr(maskNetwork(cidr(a).network))),
  define(["<CIDR>.prefixLength(): int"], (a) => cidr(a).network.prefixBits),
  define(
    ["url(string): URL"],
    (a) => {
      const parsed = parseUrl(text(a));
      return typeof parsed === "string" ? fail(parsed) : new CelUrl(parsed);
    },
    parsing,
  ),
  define(["isURL(string): bool"], (a) => typeof parseUrl(text(a)) !== "string", parsing),
  define(["<URL>.getScheme(): string"], (a) => url(a).scheme, part),
  define(["<URL>.getHost(): string"], (a) => url(a).host, part),
  define(["<URL>.getHostname(): string"], (a) => url(a).hostname, part),
  define(["<URL>.getPort(): string"], (a) => url(a).port, part),
  define(["<URL>.getEscapedPath(): string"], (a) => url(a).path, part),
  define(["<URL>.getQuery(): map<string, list<string>>"], queryMap, part),
];
