import { BlockList, isIP } from "node:net";

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The proxy of the environment for an address, as command-line tools read it: HTTPS_PROXY or HTTP_PROXY, except for
 * loopback addresses and those in NO_PROXY. Undefined for a direct connection.
 */
export function proxyFromEnv(server: string, env: Env): string | undefined {
  const url = new URL(server);
  const word = url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const proxy = env[word] ?? env[word.toLowerCase()] ?? "";
  if (proxy === "") return undefined;
  const host = url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  if (isLoopback(host) || isExcluded(host, port, env["NO_PROXY"] ?? env["no_proxy"] ?? "")) return undefined;
  return proxy.includes("://") ? proxy : `http://${proxy}`;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

function isExcluded(host: string, port: string, list: string): boolean {
  return list
    .split(",")
    .map((word) => word.trim().toLowerCase())
    .some((word) => word !== "" && matches(host, port, word));
}

function matches(host: string, port: string, word: string): boolean {
  if (word === "*") return true;
  if (word.includes("/")) return isInRange(host, word);
  const [, name = word, onlyPort] = /^(.*?)(?::([0-9]+))?$/.exec(word) ?? [];
  if (isIP(word) > 0) return host === word;
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const suffix = name.replace(/^\*?\.?/, "");
  // `.example.com` matches its subdomains, `example.com` also itself.
  if (host === suffix) return !name.startsWith(".") && !name.startsWith("*");
  return host.endsWith(`.${suffix}`) && isIP(host) === 0;
}

function isInRange(host: string, range: string): boolean {
  const [network = "", bits = ""] = range.split("/");
  const family = isIP(network);
  if (family === 0 || isIP(host) !== family || !/^[0-9]+$/.test(bits)) return false;
  if (Number(bits) > (family === 4 ? 32 : 128)) return false;
  const type = family === 4 ? "ipv4" : "ipv6";
  const list = new BlockList();
  list.addSubnet(network, Number(bits), type);
  return list.check(host, type);
}
