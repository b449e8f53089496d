/**
 * The environment of device selectors: the variable `device` with its driver, its attributes and capacities by domain,
 * and whether it may be shared. The API server validates expressions against it on write, the allocator evaluates them.
 */
import type { Device, DeviceAttribute } from "../model/kubernetes.generated.ts";
import { parseQuantity } from "../model/values/quantity.ts";
import type { Expr } from "./ast.ts";
import { type CelProgram, compile } from "./cel.ts";
import { CelQuantity, CelSemver } from "./library/kubernetes.ts";
import { parseSemver } from "./library/semver.ts";
import { parse } from "./parse.ts";
import { boolType, type CelType, mapType, objectType, quantityType, stringType } from "./types.ts";
import { CelDefaultedMap, type CelValue, type JsonMap } from "./values.ts";

/** The maximum number of attributes and capacities of a device together. */
const entriesMax = 32;
/** The maximum length of an attribute value and of a driver name. */
const textMax = 64;

/** The maximum cost of an expression, estimated on write and counted at run time. */
export const deviceCostMax = 1_000_000;
export const deviceExpressionBytesMax = 10 * 1024;

const boundedText: CelType = { kind: "string", max: textMax };
/** A value of any type; a string has at most this length. */
const boundedValue: CelType = { kind: "dyn", max: textMax };

export const deviceVariables: Readonly<Record<string, CelType>> = {
  device: objectType("Device", {
    driver: boundedText,
    attributes: mapType(stringType, mapType(stringType, boundedValue, entriesMax), entriesMax),
    capacity: mapType(stringType, mapType(stringType, quantityType, entriesMax), entriesMax),
    allowMultipleAllocations: boolType,
  }),
};

/** The single values that an expression reads of a device; devices with equal values get the same result. */
export interface DeviceReads {
  readonly driver: boolean;
  readonly sharing: boolean;
  /** `domain/name`. */
  readonly attributes: readonly string[];
  readonly capacities: readonly string[];
}

export type DeviceExpression =
  | { readonly ok: true; readonly program: CelProgram; readonly reads: DeviceReads | undefined }
  | { readonly ok: false; readonly message: string };

export function compileDeviceExpression(expression: string): DeviceExpression {
  const result = compile(expression, { variables: deviceVariables, result: boolType, hasBindings: true });
  if (!result.ok) return { ok: false, message: `compilation failed: ${result.errors.join("\n")}` };
  return { ok: true, program: result.program, reads: readsOf(parse(expression)) };
}

/** The device as an expression sees it, or why it cannot be converted. */
export function deviceValue(driver: string, device: Device): { value: JsonMap } | { problem: string } {
  const attributes = new Map<string, Map<string, CelValue>>();
  for (const [name, attribute] of Object.entries(device.attributes ?? {})) {
    const value = attributeValue(attribute);
    if (value === undefined) return { problem: `attribute ${name}: unsupported attribute value` };
    put(attributes, driver, name, value);
  }
  const capacity = new Map<string, Map<string, CelValue>>();
  for (const [name, { value }] of Object.entries(device.capacity ?? {})) {
    put(capacity, driver, name, new CelQuantity(parseQuantity(value)));
  }
  return {
    value: {
      driver,
      attributes: defaulted(attributes),
      capacity: defaulted(capacity),
      allowMultipleAllocations: device.allowMultipleAllocations === true,
    },
  };
}

function attributeValue(attribute: DeviceAttribute): CelValue | undefined {
  const { int, bool, string: text, version, ints, bools, strings, versions } = attribute;
  if (int !== undefined) return int;
  if (bool !== undefined) return bool;
  if (text !== undefined) return text;
  if (version !== undefined) return semverValue(version);
  if (ints !== undefined) return [...ints];
  if (bools !== undefined) return [...bools];
  if (strings !== undefined) return [...strings];
  const list = versions?.map(semverValue);
  return list === undefined || list.includes(undefined) ? undefined : (list as CelValue[]);
}

function semverValue(text: string): CelSemver | undefined {
  const parsed = parseSemver(text, false);
  return typeof parsed === "string" ? undefined : new CelSemver(parsed);
}

/** A name without a domain belongs to the domain of the driver. */
function put(domains: Map<string, Map<string, CelValue>>, driver: string, name: string, value: CelValue): void {
  const [domain, id] = splitName(driver, name);
  const known = domains.get(domain);
  if (known === undefined) domains.set(domain, new Map([[id, value]]));
  else known.set(id, value);
}

export function splitName(driver: string, name: string): [domain: string, id: string] {
  const slash = name.indexOf("/");
  return slash < 0 ? [driver, name] : [name.slice(0, slash), name.slice(slash + 1)];
}

function defaulted(domains: Map<string, Map<string, CelValue>>): CelDefaultedMap {
  const plain = new Map<string, CelValue>();
  for (const [domain, values] of domains) plain.set(domain, Object.fromEntries(values) as JsonMap);
  return new CelDefaultedMap(plain);
}

function readsOf(expr: Expr): DeviceReads | undefined {
  const reads = { driver: false, sharing: false, attributes: new Set<string>(), capacities: new Set<string>() };
  if (!collect(expr, reads)) return undefined;
  return { ...reads, attributes: [...reads.attributes].sort(), capacities: [...reads.capacities].sort() };
}

type Collected = { driver: boolean; sharing: boolean; attributes: Set<string>; capacities: Set<string> };

/** False when the device is used in another way than by single values. */
function collect(expr: Expr, into: Collected): boolean {
  const path = pathOf(expr);
  if (path !== undefined) {
    const [root, domain, id] = path;
    if (root === "driver" && domain === undefined) into.driver = true;
    else if (root === "allowMultipleAllocations" && domain === undefined) into.sharing = true;
    else if (root === "attributes" && id !== undefined) into.attributes.add(`${domain}/${id}`);
    else if (root === "capacity" && id !== undefined) into.capacities.add(`${domain}/${id}`);
    else return false;
    return true;
  }
  switch (expr.op) {
    case "const":
    case "struct":
      return true;
    case "ident":
      return expr.name !== "device";
    case "select":
      return collect(expr.target, into);
    case "has":
      return collect(expr.select, into);
    case "index":
      return collect(expr.target, into) && collect(expr.index, into);
    case "call":
      return (
        (expr.target === undefined || collect(expr.target, into)) && expr.args.every((each) => collect(each, into))
      );
    case "and":
    case "or":
      return expr.args.every((each) => collect(each, into));
    case "if":
      return collect(expr.test, into) && collect(expr.then, into) && collect(expr.otherwise, into);
    case "list":
      return expr.items.every(({ value }) => collect(value, into));
    case "map":
      return expr.entries.every(({ key, value }) => collect(key, into) && collect(value, into));
    case "fold":
      return (
        !expr.names.includes("device") &&
        collect(expr.range, into) &&
        (expr.filter === undefined || collect(expr.filter, into)) &&
        collect(expr.body, into)
      );
    case "bind":
      return expr.name !== "device" && collect(expr.value, into) && collect(expr.body, into);
    case "optMap":
    case "optFlatMap":
      return expr.name !== "device" && collect(expr.target, into) && collect(expr.body, into);
  }
}

/**
 * `device.attributes["a"].b` is ["attributes", "a", "b"]; any other expression that begins with `device` ends where it
 * stops selecting fields.
 */
function pathOf(expr: Expr): string[] | undefined {
  if (expr.op === "select") {
    if (expr.target.op === "ident" && expr.target.name === "device") return [expr.field];
    const before = pathOf(expr.target);
    return before === undefined || before.length > 2 || !isMapRoot(before) ? undefined : [...before, expr.field];
  }
  if (expr.op === "index" && expr.index.op === "const" && typeof expr.index.value === "string") {
    const before = pathOf(expr.target);
    return before === undefined || before.length > 2 || !isMapRoot(before) ? undefined : [...before, expr.index.value];
  }
  return undefined;
}

function isMapRoot([root]: readonly string[]): boolean {
  return root === "attributes" || root === "capacity";
}
