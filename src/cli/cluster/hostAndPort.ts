import { parsePort } from "./parsePort.ts";

export function hostAndPort(address: string, flag: string): { host: string; port: number } {
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, Math.max(0, colon)).replace(/^\[|\]$/g, "");
  return { host: host === "" ? "0.0.0.0" : host, port: parsePort(address.slice(colon + 1), flag) };
}
