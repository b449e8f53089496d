/**
 * KWOK's Stage objects: read, checked and compiled once. Every error that KWOK finds when a stage is first used is
 * found here, and reported with the stage's name.
 */
import { parseAllDocuments } from "yaml";
import { type CelProgram, compile } from "../../cel/cel.ts";
import { boolType, dynType } from "../../cel/types.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";
import { compileTemplate, type Template, TemplateError } from "./goTemplate.ts";
import { compileJq, JqError, type JqQuery } from "./jq.ts";
import { templateFunctionNames } from "./templateFunctions.ts";

export interface Stage {
  readonly name: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly matchAnnotations: Readonly<Record<string, string>>;
  readonly expressions: readonly MatchExpression[];
  readonly weight: number;
  readonly weightFrom: Expression | undefined;
  readonly delay: StageDelay | undefined;
  readonly steps: readonly StageStep[];
  readonly immediateNextStage: boolean;
}

export type MatchExpression =
  | { readonly kind: "cel"; readonly program: CelProgram }
  | {
      readonly kind: "jq";
      readonly query: JqQuery;
      readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
      readonly values: readonly string[];
    };

export type Expression =
  | { readonly kind: "cel"; readonly program: CelProgram }
  | { readonly kind: "jq"; readonly query: JqQuery };

/** Milliseconds. `bound` is the latest moment and not an addition, as in KWOK. */
export interface StageDelay {
  readonly base: number;
  readonly baseFrom: Expression | undefined;
  readonly bound: number | undefined;
  readonly boundFrom: Expression | undefined;
}

export interface StageStep {
  readonly event?: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: Template };
  readonly finalizers?: {
    readonly add: readonly string[];
    readonly remove: readonly string[];
    readonly empty: boolean;
  };
  readonly delete?: boolean;
  readonly patch?: {
    readonly subresource: string | undefined;
    readonly root: string | undefined;
    readonly template: Template;
    readonly type: "json" | "merge" | "strategic";
  };
  readonly apply?: {
    readonly subresource: string | undefined;
    readonly template: Template;
    readonly type: "apply" | "merge" | "strategic";
  };
}

/** Reads a stream of YAML; documents that are not stages are refused. */
export function parseStages(text: string, source: string): Stage[] {
  const stages: Stage[] = [];
  for (const [i, document] of parseAllDocuments(text).entries()) {
    const where = `${source}, document ${i + 1}`;
    const [syntax] = document.errors;
    if (syntax !== undefined) throw badStage(where, [syntax.message]);
    const value: unknown = document.toJS();
    if (value === null || value === undefined) continue;
    stages.push(readStage(value, where));
  }
  return stages;
}

function badStage(where: string, errors: readonly string[]): UserError {
  return new UserError(
    "stage-invalid",
    `the stage in ${where} is invalid: ${errors.join("; ")}`,
    "correct the fields that are named",
  );
}

export function readStage(value: unknown, where: string): Stage {
  if (!isObject(value) || value["kind"] !== "Stage") throw badStage(where, ["kind: must be Stage"]);
  const metadata = isObject(value["metadata"]) ? value["metadata"] : {};
  const name = typeof metadata["name"] === "string" ? metadata["name"] : "";
  const reader = new StageReader();
  const stage = reader.read(name, isObject(value["spec"]) ? value["spec"] : {});
  if (name === "") reader.errors.push("metadata.name: is required");
  if (reader.errors.length > 0) throw badStage(name === "" ? where : `${where} (${name})`, reader.errors);
  return stage;
}

const operators = ["In", "NotIn", "Exists", "DoesNotExist"] as const;

class StageReader {
  readonly errors: string[] = [];

  read(name: string, spec: JsonObject): Stage {
    const target = object(spec["resourceRef"]);
    const kind = this.#text(target, "kind", "spec.resourceRef.");
    const apiVersion = typeof target["apiGroup"] === "string" ? target["apiGroup"] : "v1";
    const selector = spec["selector"];
    // KWOK silently ignores a stage without a selector, which is never intended.
    if (!isObject(selector)) this.errors.push("spec.selector: is required; {} matches every object");
    const chosen = object(selector);
    const steps = Array.isArray(spec["steps"]) ? spec["steps"] : [];
    const isCore = kind === "Node" || kind === "Pod";
    return {
      name,
      apiVersion,
      kind,
      matchLabels: this.#texts(chosen["matchLabels"], "spec.selector.matchLabels"),
      matchAnnotations: this.#texts(chosen["matchAnnotations"], "spec.selector.matchAnnotations"),
      expressions: this.#expressions(chosen["matchExpressions"]),
      weight: this.#count(spec["weight"], "spec.weight") ?? 0,
      weightFrom: this.#expression(spec["weightFrom"], "spec.weightFrom"),
      delay: spec["delay"] === undefined ? undefined : this.#delay(object(spec["delay"])),
      steps:
        steps.length > 0
          ? steps.map((step, i) => this.#step(object(step), `spec.steps[${i}].`, isCore))
          : this.#next(object(spec["next"]), isCore),
      immediateNextStage: spec["immediateNextStage"] === true,
    };
  }

  #text(from: JsonObject, key: string, path: string): string {
    const value = from[key];
    if (typeof value === "string" && value !== "") return value;
    this.errors.push(`${path}${key}: is required`);
    return "";
  }

  #texts(from: Json | undefined, path: string): Record<string, string> {
    if (from === undefined || from === null) return {};
    if (isObject(from)) return Object.fromEntries(Object.entries(from).map(([key, value]) => [key, String(value)]));
    this.errors.push(`${path}: must be a mapping`);
    return {};
  }

  #count(value: Json | undefined, path: string): number | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
    this.errors.push(`${path}: must be a whole number that is not negative`);
    return undefined;
  }

  #jq(text: Json | undefined, path: string): JqQuery | undefined {
    try {
      if (typeof text === "string") return compileJq(text);
      this.errors.push(`${path}: must be an expression`);
    } catch (error) {
      if (!(error instanceof JqError)) throw error;
      this.errors.push(`${path}: ${error.message}`);
    }
    return undefined;
  }

  #cel(text: Json | undefined, path: string, isCondition: boolean): CelProgram | undefined {
    if (typeof text !== "string") {
      this.errors.push(`${path}: must be an expression`);
      return undefined;
    }
    const result = compile(text, { variables: { self: dynType }, ...(isCondition ? { result: boolType } : {}) });
    if (result.ok) return result.program;
    this.errors.push(`${path}: ${result.errors.join("; ")}`);
    return undefined;
  }

  #template(text: Json | undefined, path: string): Template {
    try {
      if (typeof text === "string") return compileTemplate(text, templateFunctionNames);
      this.errors.push(`${path}: is required`);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      this.errors.push(`${path}: ${error.message}`);
    }
    return { text: "", render: () => "" };
  }

  #expressions(from: Json | undefined): MatchExpression[] {
    if (from === undefined || from === null) return [];
    if (!Array.isArray(from)) {
      this.errors.push("spec.selector.matchExpressions: must be a list");
      return [];
    }
    const found: MatchExpression[] = [];
    for (const [i, each] of from.entries()) {
      const path = `spec.selector.matchExpressions[${i}]`;
      const given = object(each);
      if (given["cel"] !== undefined) {
        const program = this.#cel(object(given["cel"])["expression"], `${path}.cel.expression`, true);
        if (program !== undefined) found.push({ kind: "cel", program });
        continue;
      }
      // The bare form is the older notation.
      const jq = given["jq"] === undefined ? given : object(given["jq"]);
      const query = this.#jq(jq["key"], `${path}.key`);
      const operator = operators.find((word) => word === jq["operator"]);
      const values = Array.isArray(jq["values"]) ? jq["values"].map(String) : [];
      if (operator === undefined) this.errors.push(`${path}.operator: must be one of ${operators.join(", ")}`);
      else if ((operator === "In" || operator === "NotIn") && values.length === 0)
        this.errors.push(`${path}.values: are required for ${operator}`);
      else if ((operator === "Exists" || operator === "DoesNotExist") && values.length > 0)
        this.errors.push(`${path}.values: must be empty for ${operator}`);
      else if (query !== undefined) found.push({ kind: "jq", query, operator, values });
    }
    return found;
  }

  #expression(from: Json | undefined, path: string): Expression | undefined {
    if (from === undefined || from === null) return undefined;
    const given = object(from);
    if (given["cel"] !== undefined) {
      const program = this.#cel(object(given["cel"])["expression"], `${path}.cel.expression`, false);
      return program && { kind: "cel", program };
    }
    const text = given["jq"] === undefined ? given["expressionFrom"] : object(given["jq"])["expression"];
    const query = this.#jq(text, path);
    return query && { kind: "jq", query };
  }

  #delay(from: JsonObject): StageDelay {
    const path = "spec.delay.";
    const min = this.#count(from["minMilliseconds"], `${path}minMilliseconds`);
    const max = this.#count(from["maxMilliseconds"], `${path}maxMilliseconds`);
    if (min !== undefined && max !== undefined && max < min)
      this.errors.push(`${path}maxMilliseconds: is below minMilliseconds`);
    return {
      base: min ?? this.#count(from["durationMilliseconds"], `${path}durationMilliseconds`) ?? 0,
      baseFrom: this.#expression(from["durationFrom"], `${path}durationFrom`),
      bound: max ?? this.#count(from["jitterDurationMilliseconds"], `${path}jitterDurationMilliseconds`),
      boundFrom: this.#expression(from["jitterDurationFrom"], `${path}jitterDurationFrom`),
    };
  }

  #step(from: JsonObject, path: string, isCore: boolean): StageStep {
    const step: { -readonly [K in keyof StageStep]: StageStep[K] } = {};
    if (isObject(from["event"])) step.event = this.#event(from["event"], `${path}event.`);
    if (isObject(from["finalizers"])) step.finalizers = this.#finalizers(from["finalizers"]);
    if (from["delete"] === true) step.delete = true;
    if (isObject(from["patch"])) step.patch = this.#patch(from["patch"], `${path}patch.`, isCore);
    if (isObject(from["apply"])) {
      const given = from["apply"];
      const type = given["type"] ?? "apply";
      if (type !== "apply" && type !== "merge" && type !== "strategic")
        this.errors.push(`${path}apply.type: must be apply, merge or strategic`);
      step.apply = {
        subresource: optionalText(given["subresource"]),
        template: this.#template(given["template"], `${path}apply.template`),
        type: type === "merge" || type === "strategic" ? type : "apply",
      };
    }
    if (Object.keys(step).length === 0) this.errors.push(`${path.slice(0, -1)}: does nothing`);
    return step;
  }

  #event(from: JsonObject, path: string): NonNullable<StageStep["event"]> {
    const type = from["type"] ?? "Normal";
    if (type !== "Normal" && type !== "Warning") this.errors.push(`${path}type: must be Normal or Warning`);
    return {
      type: type === "Warning" ? "Warning" : "Normal",
      reason: String(from["reason"] ?? ""),
      message: this.#template(from["message"] ?? "", `${path}message`),
    };
  }

  #finalizers(from: JsonObject): NonNullable<StageStep["finalizers"]> {
    const values = (list: Json | undefined) =>
      Array.isArray(list) ? list.map((each) => String(object(each)["value"] ?? "")) : [];
    return { add: values(from["add"]), remove: values(from["remove"]), empty: from["empty"] === true };
  }

  #patch(from: JsonObject, path: string, isCore: boolean): NonNullable<StageStep["patch"]> {
    const type = from["type"] ?? (isCore ? "strategic" : "merge");
    if (type !== "json" && type !== "merge" && type !== "strategic")
      this.errors.push(`${path}type: must be json, merge or strategic`);
    return {
      subresource: optionalText(from["subresource"]),
      root: optionalText(from["root"]),
      template: this.#template(from["template"], `${path}template`),
      type: type === "json" || type === "merge" ? type : "strategic",
    };
  }

  /** The older form: one step each, in a fixed order. */
  #next(from: JsonObject, isCore: boolean): StageStep[] {
    const steps: StageStep[] = [];
    if (isObject(from["event"])) steps.push({ event: this.#event(from["event"], "spec.next.event.") });
    if (isObject(from["finalizers"])) steps.push({ finalizers: this.#finalizers(from["finalizers"]) });
    const patches = Array.isArray(from["patches"]) ? from["patches"] : [];
    for (const [i, patch] of patches.entries())
      steps.push({ patch: this.#patch(object(patch), `spec.next.patches[${i}].`, isCore) });
    if (patches.length === 0 && typeof from["statusTemplate"] === "string") {
      const subresource = optionalText(from["statusSubresource"]) ?? "status";
      const template = this.#template(from["statusTemplate"], "spec.next.statusTemplate");
      steps.push({ patch: { subresource, root: "status", template, type: isCore ? "strategic" : "merge" } });
    }
    if (from["delete"] === true) steps.push({ delete: true });
    return steps;
  }
}

function object(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function optionalText(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
