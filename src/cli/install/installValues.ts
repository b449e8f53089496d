import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { UsageError } from "../../model/userError.ts";
import type { Values } from "./installTree.ts";

/** The version of the program, its chart and its CRDs, which are released together. */
export const installVersion = "0.1.0";

/** A setting of the installation: its default, its schema and its description. */
interface Setting {
  readonly about: string;
  readonly usual: unknown;
  readonly schema: Schema;
}

type Schema = { readonly [keyword: string]: unknown };

const text = (about: string, usual: string, more: Schema = {}): Setting => ({
  about,
  usual,
  schema: { type: "string", ...more },
});
const flag = (about: string, usual: boolean): Setting => ({ about, usual, schema: { type: "boolean" } });
const whole = (about: string, usual: number, minimum: number, maximum: number): Setting => ({
  about,
  usual,
  schema: { type: "integer", minimum, maximum },
});
const choice = (about: string, usual: string, ...choices: string[]): Setting => ({
  about,
  usual,
  schema: { type: "string", enum: choices },
});
const words = (about: string): Setting => ({
  about,
  usual: {},
  schema: { type: "object", additionalProperties: { type: "string" } },
});
const texts = (about: string): Setting => ({ about, usual: [], schema: { type: "array", items: { type: "string" } } });
const objects = (about: string): Setting => ({
  about,
  usual: [],
  schema: { type: "array", items: { type: "object" } },
});

const pullPolicies = ["Always", "IfNotPresent", "Never"];

export const controllerNames = ["scheduler", "binder", "gang"] as const;

const amounts = {
  type: "object",
  additionalProperties: { anyOf: [{ type: "string", pattern: "^[0-9.]+(m|[KMGT]i?)?$" }, { type: "number" }] },
};

/** Every setting, by its path. The chart's values.yaml and values.schema.json are written from this. */
const settings: Readonly<Record<string, Setting>> = {
  "image.repository": text("where your nodes pull the image from; build it with deploy/Dockerfile", "muster", {
    pattern: "^[a-z0-9]([a-z0-9._/:-]*[a-z0-9])?$",
  }),
  "image.tag": text("which version of it", installVersion, { pattern: "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" }),
  "image.pullPolicy": choice("when it is pulled", "IfNotPresent", ...pullPolicies),
  imagePullSecrets: objects("Secrets with which it is pulled, as a pod names them"),
  replicas: whole("processes, of which one leads and all answer webhooks", 2, 1, 9),
  controllers: {
    about: "components that run; their roles are given and no others",
    usual: [...controllerNames],
    schema: { type: "array", minItems: 1, uniqueItems: true, items: { type: "string", enum: [...controllerNames] } },
  },
  logLevel: choice("what is logged", "info", "debug", "info", "warn", "error"),
  extraArgs: texts("more flags of `muster run`, such as --feature-gates=DRAPartitionableDevices=true"),
  extraOwners: {
    about: "kinds of your own that own pods of kai-scheduler, as rules of a role: {apiGroups, resources}",
    usual: [],
    schema: {
      type: "array",
      items: {
        type: "object",
        required: ["apiGroups", "resources"],
        additionalProperties: false,
        properties: {
          apiGroups: { type: "array", minItems: 1, items: { type: "string", pattern: "^[a-z0-9.-]*$" } },
          resources: { type: "array", minItems: 1, items: { type: "string", pattern: "^[a-z0-9-]+$" } },
        },
      },
    },
  },
  resources: {
    about: "of each process; about 1 GiB for 5,000 nodes and 50,000 pods",
    usual: { requests: { cpu: "500m", memory: "512Mi" }, limits: { memory: "2Gi" } },
    schema: { type: "object", additionalProperties: false, properties: { requests: amounts, limits: amounts } },
  },
  nodeSelector: words("nodes that the processes run on"),
  tolerations: objects("taints that they tolerate"),
  podAnnotations: words("annotations of their pods"),
  podLabels: words("labels of their pods"),
  "serviceAccount.annotations": words("annotations of their ServiceAccount"),
  "priorityClass.create": flag("make a PriorityClass for them, above every workload", true),
  "priorityClass.name": text("the PriorityClass that they have", "muster-controllers", { minLength: 1 }),
  "podDisruptionBudget.enabled": flag("keep one process while nodes are drained", true),
  "networkPolicy.enabled": flag("let in webhooks and metrics, and out to the API server and DNS alone", true),
  "crds.install": flag("install the definitions; switch it off where KAI or Grove own them", true),
  "crds.keep": flag("keep the definitions, and with them every queue and gang, when the release is uninstalled", true),
  "webhooks.enabled": flag("defaults and checks of writes", true),
  "webhooks.certificates": choice(
    "own: the processes make and renew them. cert-manager: cert-manager does",
    "own",
    "own",
    "cert-manager",
  ),
  "webhooks.failurePolicy": choice("what a write gets while no process answers", "Fail", "Fail", "Ignore"),
  "webhooks.timeoutSeconds": whole("how long an answer may take", 10, 1, 30),
  "reservations.image": text("the image of reservation pods, such as KAI's; Muster's own when left out", ""),
  "reservations.pullPolicy": choice(
    "when the image of reservation pods is pulled; as Muster's own image when left out",
    "",
    "",
    ...pullPolicies,
  ),
  "reservations.timeout": text("how long a node may take to report the GPU of a reservation", "40s", {
    pattern: "^[0-9]+(s|m)$",
  }),
  "reservations.runtimeClassName": text("RuntimeClass of reservation pods, such as nvidia", ""),
  "serviceMonitor.enabled": flag("a ServiceMonitor for the Prometheus operator", false),
  "serviceMonitor.labels": words("labels by which your Prometheus finds it"),
  "serviceMonitor.interval": text("how often Prometheus reads metrics", "30s", { pattern: "^[0-9]+(ms|s|m)$" }),
};

export type InstallValues = Values;

export function usualValues(): InstallValues {
  const values: Record<string, unknown> = {};
  for (const [path, { usual }] of Object.entries(settings)) setAt(values, path, structuredClone(usual));
  return values;
}

/** JSON schema of the values, which rejects unknown settings. */
export function valuesSchema(): object {
  const root = { properties: {} as Record<string, unknown> };
  for (const [path, { about, schema }] of Object.entries(settings)) {
    const [first = "", second] = path.split(".");
    const described = { description: about, ...schema };
    if (second === undefined) root.properties[first] = described;
    else {
      root.properties[first] ??= { type: "object", additionalProperties: false, properties: {} };
      (root.properties[first] as { properties: Record<string, unknown> }).properties[second] = described;
    }
  }
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Settings of Muster's controllers",
    type: "object",
    additionalProperties: false,
    // Helm sets this value in every chart.
    properties: { global: { type: "object" }, ...root.properties },
  };
}

/** The defaults as YAML, with a comment for each. */
export function valuesText(): string {
  const lines: string[] = ["# Settings of Muster's controllers. values.schema.json refuses what is not among them."];
  let section = "";
  for (const [path, { about, usual, schema }] of Object.entries(settings)) {
    const [first = "", second] = path.split(".");
    const isNew = second !== undefined && first !== section;
    section = second === undefined ? "" : first;
    if (second === undefined || isNew) lines.push("");
    if (isNew) lines.push(`${first}:`);
    const indent = second === undefined ? "" : "  ";
    const choices = (schema["enum"] as string[] | undefined)?.join(", ");
    lines.push(`${indent}# ${about}${choices === undefined ? "" : ` (${choices})`}`);
    lines.push(`${indent}${second ?? first}: ${JSON.stringify(usual)}`);
  }
  return `${lines.join("\n")}\n`;
}

/** The defaults with the values of a file, validated like those of the chart. */
export async function readValues(file: string | undefined, more: InstallValues = {}): Promise<InstallValues> {
  const values = usualValues() as Record<string, unknown>;
  if (file !== undefined) merge(values, await parsed(file), file);
  merge(values, more, "the flags");
  const problem = Object.entries(settings).flatMap(([path, { schema }]) =>
    problemsOf(valueAt(values, path), schema, path),
  )[0];
  if (problem !== undefined) {
    throw new UsageError(
      "install-value-invalid",
      problem,
      "deploy/chart/values.yaml lists every setting with its default",
    );
  }
  return values;
}

async function parsed(file: string): Promise<Record<string, unknown>> {
  try {
    return (parse(await readFile(file, "utf8")) ?? {}) as Record<string, unknown>;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(
      "install-values-unreadable",
      `${file} cannot be read: ${why}`,
      "pass a YAML file with --values",
      {
        cause,
      },
    );
  }
}

function merge(into: Record<string, unknown>, from: unknown, where: string, above = ""): void {
  if (typeof from !== "object" || from === null || Array.isArray(from)) {
    throw new UsageError(
      "install-value-invalid",
      `${where}: ${above || "the file"} is not a mapping`,
      "write it as name: value",
    );
  }
  for (const [name, value] of Object.entries(from)) {
    const path = above === "" ? name : `${above}.${name}`;
    if (path in settings) into[name] = overlaid(into[name], value);
    else if (Object.keys(settings).some((known) => known.startsWith(`${path}.`))) {
      merge(into[name] as Record<string, unknown>, value, where, path);
    } else {
      const cure = "deploy/chart/values.yaml lists every setting with its default";
      throw new UsageError("install-value-invalid", `${where}: there is no setting ${path}`, cure);
    }
  }
}

/** Merges values into defaults as Helm does: mappings field by field, and null removes a field. */
function overlaid(usual: unknown, value: unknown): unknown {
  if (!isMapping(usual) || !isMapping(value)) return value;
  const fields = { ...usual };
  for (const [name, field] of Object.entries(value)) {
    if (field === null) delete fields[name];
    else fields[name] = overlaid(fields[name], field);
  }
  return fields;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function problemsOf(value: unknown, schema: Schema, path: string): string[] {
  const shown = JSON.stringify(value);
  const {
    type,
    enum: choices,
    pattern,
    minimum,
    maximum,
    minLength,
    minItems,
    items,
    required,
  } = schema as {
    type?: string;
    enum?: unknown[];
    pattern?: string;
    minimum?: number;
    maximum?: number;
    minLength?: number;
    minItems?: number;
    items?: Schema;
    required?: string[];
  };
  if (type !== undefined && typeOf(value, type) === false) return [`${path} is ${shown}: it must be of type ${type}`];
  if (choices !== undefined && !choices.includes(value))
    return [`${path} is ${shown}: choose from ${choices.join(", ")}`];
  if (typeof value === "string") {
    if (pattern !== undefined && !new RegExp(pattern).test(value))
      return [`${path} is ${shown}: it must match ${pattern}`];
    if (minLength !== undefined && value.length < minLength) return [`${path} must not be empty`];
  }
  if (typeof value === "number" && minimum !== undefined && maximum !== undefined) {
    if (value < minimum || value > maximum) return [`${path} is ${shown}: it must be from ${minimum} to ${maximum}`];
  }
  if (Array.isArray(value)) {
    if (minItems !== undefined && value.length < minItems) return [`${path} must not be empty`];
    if (items !== undefined) return value.flatMap((item, at) => problemsOf(item, items, `${path}[${at}]`));
  } else if (typeof value === "object" && value !== null) {
    const { properties, additionalProperties } = schema as {
      properties?: Record<string, Schema>;
      additionalProperties?: Schema | false;
    };
    for (const name of required ?? []) if (!(name in value)) return [`${path} lacks ${name}`];
    return Object.entries(value).flatMap(([name, field]) => {
      const of = properties?.[name] ?? additionalProperties;
      if (of === false) return [`there is no setting ${path}.${name}`];
      return of === undefined ? [] : problemsOf(field, of, `${path}.${name}`);
    });
  }
  const { anyOf } = schema as { anyOf?: Schema[] };
  if (anyOf !== undefined && !anyOf.some((one) => problemsOf(value, one, path).length === 0)) {
    return [`${path} is ${shown}: it must be an amount, such as 500m or 2Gi`];
  }
  return [];
}

function typeOf(value: unknown, type: string): boolean {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return isMapping(value);
    default:
      return typeof value === type;
  }
}

function setAt(values: Record<string, unknown>, path: string, value: unknown): void {
  const [first = "", second] = path.split(".");
  if (second === undefined) values[first] = value;
  else {
    values[first] ??= {};
    (values[first] as Record<string, unknown>)[second] = value;
  }
}

function valueAt(values: Record<string, unknown>, path: string): unknown {
  const [first = "", second] = path.split(".");
  return second === undefined ? values[first] : (values[first] as Record<string, unknown>)[second];
}
