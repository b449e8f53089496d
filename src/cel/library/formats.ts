import {
  dns1035LabelErrors,
  dnsLabelErrors,
  dnsSubdomainErrors,
  generateNameErrors,
  labelValueErrors,
  qualifiedNameErrors,
} from "../../model/objects/names.ts";
import { type CelFunction, define, traversal } from "../functions.ts";
import { parseTimestamp } from "../time.ts";
import { decodeBase64 } from "../utf8.ts";
import { CelObject, CelOptional, type CelValue, noOverload } from "../values.ts";
import { parseUrl } from "./url.ts";

/** Named formats: `format.dns1123Label().validate("x")` is none for a valid string, else the errors. */
export class CelFormat extends CelObject {
  readonly typeName = "kubernetes.NamedFormat";
  readonly name: string;
  readonly check: (text: string) => string[];
  constructor(name: string, check: (text: string) => string[]) {
    super();
    this.name = name;
    this.check = check;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelFormat && other.name === this.name;
  }
}

function unless(good: (text: string) => boolean, complaint: string): (text: string) => string[] {
  return (text) => (good(text) ? [] : [complaint]);
}

const uuid = /^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$/;

const formats = [
  new CelFormat("dns1123Label", dnsLabelErrors),
  new CelFormat("dns1123Subdomain", dnsSubdomainErrors),
  new CelFormat("dns1035Label", dns1035LabelErrors),
  new CelFormat("qualifiedName", qualifiedNameErrors),
  new CelFormat("dns1123LabelPrefix", (text) => generateNameErrors("dnsLabel", text)),
  new CelFormat("dns1123SubdomainPrefix", (text) => generateNameErrors("dnsSubdomain", text)),
  new CelFormat("dns1035LabelPrefix", (text) => generateNameErrors("dns1035Label", text)),
  new CelFormat("labelValue", labelValueErrors),
  new CelFormat(
    "uri",
    unless((text) => typeof parseUrl(text) !== "string", "invalid URI"),
  ),
  new CelFormat(
    "uuid",
    unless((text) => uuid.test(text), "does not match the UUID format"),
  ),
  new CelFormat(
    "byte",
    unless((text) => decodeBase64(text) !== undefined, "invalid base64"),
  ),
  new CelFormat(
    "date",
    unless((text) => parseTimestamp(`${text}T00:00:00Z`) !== undefined, "invalid date"),
  ),
  new CelFormat(
    "datetime",
    unless((text) => parseTimestamp(text) !== undefined, "invalid datetime"),
  ),
];
const byName = new Map(formats.map((format) => [format.name, format]));

export const formatLibrary: readonly CelFunction[] = [
  ...formats.map((format) => define([`format.${format.name}(): Format`], () => format)),
  define(["format.named(string): optional<Format>"], (a) => {
    const format = typeof a === "string" ? byName.get(a) : noOverload();
    return format === undefined ? CelOptional.none : new CelOptional(format);
  }),
  define(
    ["<Format>.validate(string): optional<list<string>>"],
    (a, b): CelValue => {
      if (!(a instanceof CelFormat) || typeof b !== "string") return noOverload();
      const complaints = a.check(b);
      return complaints.length === 0 ? CelOptional.none : new CelOptional(complaints);
    },
    // The cost of the longest of the patterns.
    { cost: (_, b) => 32 * traversal(b) },
  ),
];
