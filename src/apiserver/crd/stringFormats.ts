import { parseUrl } from "../../cel/library/url.ts";
import { parseDuration, parseTimestamp } from "../../cel/time.ts";
import { decodeBase64 } from "../../cel/utf8.ts";
import { dnsLabelErrors, dnsSubdomainErrors } from "../../model/objects/names.ts";
import { parseCidr, parseIp } from "../../model/values/ipAddress.ts";

/** String formats of JSON schema that the server validates; any other format is ignored. */
export type FormatCheck = (text: string) => boolean;

const hostname =
  /^([a-zA-Z0-9_]([-a-zA-Z0-9_]{0,62}[a-zA-Z0-9_])?\.)*[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,62}[a-zA-Z0-9_])?\.?$/;
const email =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/;
const uuid = (version: string, variant: string) =>
  new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}-?${variant}[0-9a-f]{3}-?[0-9a-f]{12}$`, "i");
const rgbPart = "\\s*(?:0|[1-9]\\d?|1\\d\\d|2[0-4]\\d|25[0-5])\\s*";
const rgb = new RegExp(`^rgb\\(${rgbPart},${rgbPart},${rgbPart}\\)$`);
const calendarUnits =
  /^\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:ns|nanos?|us|µs|micros?|ms|millis?|s|secs?|m|mins?|h|hrs?|hours?|d|days?|w|wks?|weeks?)\s*$/i;

function test(pattern: RegExp): FormatCheck {
  return (text) => pattern.test(text);
}

function digits(text: string): number[] {
  return Array.from(text.replace(/[ -]/g, ""), (char) => (char === "X" || char === "x" ? 10 : Number(char)));
}

function isbn10(text: string): boolean {
  if (!/^(?:[0-9][ -]?){9}[0-9Xx]$/.test(text)) return false;
  return digits(text).reduce((sum, digit, i) => sum + digit * (10 - i), 0) % 11 === 0;
}

function isbn13(text: string): boolean {
  if (!/^(?:[0-9][ -]?){12}[0-9]$/.test(text)) return false;
  return digits(text).reduce((sum, digit, i) => sum + digit * (i % 2 === 0 ? 1 : 3), 0) % 10 === 0;
}

/** Thirteen to nineteen digits that add up by Luhn's rule. */
function creditCard(text: string): boolean {
  const number = digits(text);
  if (!/^[0-9 -]+$/.test(text) || number.length < 13 || number.length > 19) return false;
  const sum = number.reverse().reduce((total, digit, i) => {
    const doubled = i % 2 === 1 ? digit * 2 : digit;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

const checks = new Map<string, FormatCheck>([
  ["byte", (text) => decodeBase64(text) !== undefined],
  ["date", (text) => parseTimestamp(`${text}T00:00:00Z`) !== undefined],
  ["date-time", (text) => parseTimestamp(text) !== undefined],
  ["datetime", (text) => parseTimestamp(text) !== undefined],
  ["duration", (text) => parseDuration(text) !== undefined || calendarUnits.test(text)],
  ["password", () => true],
  ["uuid", test(uuid("[0-9a-f]{4}", "[0-9a-f]"))],
  ["uuid3", test(uuid("3[0-9a-f]{3}", "[0-9a-f]"))],
  ["uuid4", test(uuid("4[0-9a-f]{3}", "[89ab]"))],
  ["uuid5", test(uuid("5[0-9a-f]{3}", "[89ab]"))],
  ["ipv4", (text) => parseIp(text)?.family === "IPv4"],
  ["ipv6", (text) => parseIp(text)?.family === "IPv6"],
  ["cidr", (text) => parseCidr(text) !== undefined],
  ["email", test(email)],
  ["hostname", (text) => text.length <= 255 && hostname.test(text)],
  ["uri", (text) => typeof parseUrl(text) !== "string"],
  [
    "mac",
    test(
      /^(?:[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}(?:[0-9a-f]{2}\1[0-9a-f]{2}\1)?[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2,3}[0-9a-f]{4})$/i,
    ),
  ],
  ["bsonobjectid", test(/^[0-9a-f]{24}$/i)],
  ["isbn", (text) => isbn10(text) || isbn13(text)],
  ["isbn10", isbn10],
  ["isbn13", isbn13],
  ["creditcard", creditCard],
  ["ssn", test(/^\d{3}[- ]?\d{2}[- ]?\d{4}$/)],
  ["hexcolor", test(/^#?(?:[0-9a-f]{3}|[0-9a-f]{6})$/i)],
  ["rgbcolor", test(rgb)],
  ["k8s-short-name", (text) => dnsLabelErrors(text).length === 0],
  ["k8s-long-name", (text) => dnsSubdomainErrors(text).length === 0],
]);

export function formatCheck(name: string): FormatCheck | undefined {
  return checks.get(name) ?? checks.get(name.replaceAll("-", ""));
}
