import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import { cidrErrors, ipErrors, parseIp } from "../../../model/values/ipAddress.ts";

/** Fields of older APIs accept non-canonical addresses, and so do these checks. */
export function checkIpAddress(text: string | undefined, path: string, errors: FieldError[]): boolean {
  const problems = ipErrors(text ?? "", "legacy");
  for (const problem of problems) errors.push(invalid(path, text ?? "", problem));
  return problems.length === 0;
}

export function checkCidr(text: string | undefined, path: string, errors: FieldError[]): boolean {
  const problems = cidrErrors(text ?? "", "legacy");
  for (const problem of problems) errors.push(invalid(path, text ?? "", problem));
  return problems.length === 0;
}

/** An address that other hosts can reach: not loopback, link-local, multicast or unspecified. */
export function checkReachableIp(text: string, path: string, errors: FieldError[]): void {
  const address = parseIp(text);
  if (address === undefined) return;
  const [a = 0, b = 0] = address.bytes;
  const isIpv4 = address.family === "IPv4";
  if (address.bytes.every((byte) => byte === 0)) errors.push(invalid(path, text, "may not be unspecified"));
  const isLoopback = isIpv4 ? a === 127 : address.bytes.every((byte, i) => byte === (i === 15 ? 1 : 0));
  if (isLoopback) errors.push(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
  if (isIpv4 ? a === 169 && b === 254 : a === 0xfe && (b & 0xc0) === 0x80) {
    errors.push(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
  }
  if (isIpv4 ? a === 224 && b === 0 && address.bytes[2] === 0 : a === 0xff && (b & 0x0f) === 2) {
    errors.push(invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"));
  }
}
