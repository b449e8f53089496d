/**
 * Which stage an object is in, when it is due and what it writes. KWOK's rules with these differences: a stage that no
 * longer matches is cancelled, an expression that fails skips only its own stage, an empty delay means the constant,
 * and random choices are derived from the seed.
 */
import { parse } from "yaml";
import { type CelProgram, evaluate } from "../../cel/cel.ts";
import { CelDuration, CelTimestamp, type CelValue } from "../../cel/values.ts";
import { equalFields, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import type { RefusalReason } from "../../model/outcome.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { ObjectRef, Patch } from "../../ports/kubeApi.ts";
import { durationMs } from "../node/faults.ts";
import { eventTarget, type NodeEvent, type NodeWrite } from "../node/nodeWrite.ts";
import { TemplateError, type TemplateFunctions } from "./goTemplate.ts";
import { JqError } from "./jq.ts";
import { patchChanges } from "./patchChanges.ts";
import type { Expression, MatchExpression, Stage, StageDelay, StageStep } from "./stage.ts";
import { type TemplateContext, templateFunctions } from "./templateFunctions.ts";

/** The pending stage of an object, the version on which it was chosen, and when it is due. */
export interface StageJob {
  readonly stage: Stage | undefined;
  readonly resourceVersion: string;
  readonly dueMs: number;
  /** The step to continue with after a refusal. */
  readonly step: number;
  readonly attempts: number;
}

export interface StageInput {
  readonly object: KubeObject;
  readonly stages: readonly Stage[];
  readonly job: StageJob | undefined;
  readonly clusterSeed: string;
  readonly context: TemplateContext;
}

export interface StageWrite {
  /** Which step it belongs to, for `afterRefusal`. */
  readonly step: number;
  readonly write: NodeWrite;
}

export interface StageNext {
  readonly job: StageJob;
  /** The job of these writes; for `afterRefusal` if one of them is refused. */
  readonly playing: StageJob | undefined;
  readonly writes: readonly StageWrite[];
  readonly wakeAtMs: number | undefined;
  /** Whether to continue with the object of the answer, without waiting for the watch. */
  readonly again: boolean;
}

export function nextForObject(input: StageInput): StageNext {
  const { object, context } = input;
  const { resourceVersion } = object.metadata;
  let { job } = input;
  const problems: StageWrite[] = [];
  if (job === undefined || job.resourceVersion !== resourceVersion) {
    const chosen = chooseStage(input);
    problems.push(...chosen.problems.map((write) => ({ step: 0, write })));
    const dueMs = context.nowMs + (chosen.delayMs ?? 0);
    job = { stage: chosen.stage, resourceVersion, dueMs, step: 0, attempts: 0 };
  }
  const { stage } = job;
  const waiting = { job, playing: undefined, writes: problems, again: false };
  if (stage === undefined) return { ...waiting, wakeAtMs: undefined };
  if (context.nowMs < job.dueMs) return { ...waiting, wakeAtMs: job.dueMs };
  const played = playStage(stage, object, context, job.step);
  const writes = [...problems, ...played];
  // A stage is played once for a version: if nothing was written, nothing happens until the object changes.
  const isSent = played.some(({ write }) => write.kind !== "event");
  const done: StageJob = { ...job, stage: undefined };
  return { job: done, playing: job, writes, wakeAtMs: undefined, again: stage.immediateNextStage && isSent };
}

/** The job after a write was refused at a step; undefined means to start again with a fresh object. */
export function afterRefusal(
  playing: StageJob,
  refusal: { readonly step: number; readonly reason: RefusalReason },
  { clusterSeed, uid, nowMs }: { clusterSeed: string; uid: string; nowMs: number },
): StageJob | undefined {
  const { step, reason } = refusal;
  switch (reason) {
    case "TooManyRequests":
    case "Unavailable":
    case "Unknown": {
      const attempts = playing.attempts + 1;
      const jitter = 1 + 0.2 * seededFraction(clusterSeed, "retry", uid, playing.stage?.name ?? "", attempts);
      const waitMs = Math.min(32 * 60_000, 1000 * 2 ** Math.min(attempts - 1, 20)) * jitter;
      return { ...playing, step, attempts, dueMs: nowMs + Math.floor(waitMs) };
    }
    case "Conflict":
    case "Expired":
    case "AlreadyExists":
      return undefined;
    case "NotFound":
    case "Invalid":
    case "Forbidden":
    case "Unauthorized":
    case "Fenced":
      return { ...playing, stage: undefined };
  }
}

interface Choice {
  readonly stage: Stage | undefined;
  readonly delayMs: number | undefined;
  readonly problems: readonly NodeEvent[];
}

/** One of the stages that match now. The draw depends on the object's version, so a replay draws the same. */
export function chooseStage({ object, stages, clusterSeed, context }: StageInput): Choice {
  const problems: NodeEvent[] = [];
  const report = (stage: Stage, message: string) => {
    const regarding = eventTarget(object);
    problems.push({
      kind: "event",
      regarding,
      type: "Warning",
      reason: "StageExpressionFailed",
      message: `stage ${stage.name}: ${message}`,
    });
  };
  const matching: { stage: Stage; weight: number | undefined }[] = [];
  for (const stage of stages) {
    try {
      if (!matchesStage(stage, object)) continue;
      matching.push({ stage, weight: weightOf(stage, object) });
    } catch (error) {
      if (!(error instanceof ExpressionFailure) && !(error instanceof JqError)) throw error;
      report(stage, error.message);
    }
  }
  const { uid, resourceVersion } = object.metadata;
  const stage = pick(matching, seededFraction(clusterSeed, "stage", uid, resourceVersion));
  if (stage === undefined) return { stage: undefined, delayMs: undefined, problems };
  try {
    const delayMs = delayOf(
      stage.delay,
      object,
      context.nowMs,
      seededFraction(clusterSeed, "delay", uid, resourceVersion, stage.name),
    );
    return { stage, delayMs, problems };
  } catch (error) {
    if (!(error instanceof ExpressionFailure) && !(error instanceof JqError)) throw error;
    report(stage, error.message);
    return { stage, delayMs: stage.delay?.base ?? 0, problems };
  }
}

/** A stage of weight zero beside one with a greater weight is never drawn: so chaos stages replace ordinary ones. */
function pick(matching: readonly { stage: Stage; weight: number | undefined }[], fraction: number): Stage | undefined {
  if (matching.length <= 1) return matching[0]?.stage;
  const weighted = matching.filter(({ weight }) => weight !== undefined);
  const sum = weighted.reduce((total, { weight }) => total + (weight ?? 0), 0);
  if (sum === 0) {
    const among = weighted.length > 0 ? weighted : matching;
    return among[Math.floor(fraction * among.length)]?.stage;
  }
  let left = fraction * sum;
  for (const { stage, weight } of weighted) {
    left -= weight ?? 0;
    if (left < 0) return stage;
  }
  return weighted.findLast(({ weight }) => (weight ?? 0) > 0)?.stage;
}

class ExpressionFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ExpressionFailure";
  }
}

export function matchesStage(stage: Stage, object: KubeObject): boolean {
  if (object.kind !== stage.kind || object.apiVersion !== stage.apiVersion) return false;
  const { labels = {}, annotations = {} } = object.metadata;
  const { matchLabels, matchAnnotations } = stage;
  if (!Object.keys(matchLabels).every((key) => labels[key] === matchLabels[key])) return false;
  if (!Object.keys(matchAnnotations).every((key) => annotations[key] === matchAnnotations[key])) return false;
  return stage.expressions.every((expression) => matchesExpression(expression, object));
}

function matchesExpression(expression: MatchExpression, object: KubeObject): boolean {
  if (expression.kind === "cel") return celValue(expression.program, object) === true;
  const results = expression.query.run(object as Json);
  switch (expression.operator) {
    case "In":
      return results.some((result) => isListed(result, expression.values));
    case "NotIn":
      return !results.some((result) => isListed(result, expression.values));
    case "Exists":
      return results.some((result) => result !== null);
    case "DoesNotExist":
      return results.every((result) => result === null);
  }
}

/** Strings, booleans and integers are compared as strings; other values never match. */
function isListed(result: Json, values: readonly string[]): boolean {
  if (typeof result === "string" || typeof result === "boolean") return values.includes(String(result));
  return typeof result === "number" && Number.isInteger(result) && values.includes(String(result));
}

function celValue(program: CelProgram, object: KubeObject): CelValue {
  const result = evaluate(program, { self: object }, { costLimit: 1_000_000 });
  if (result.kind === "value") return result.value;
  throw new ExpressionFailure(result.kind === "error" ? result.message : "the expression costs too much");
}

/** The constant, the value of an expression, or undefined for an expression without a value. */
function weightOf(stage: Stage, object: KubeObject): number | undefined {
  if (stage.weightFrom === undefined) return stage.weight;
  const value = firstOf(stage.weightFrom, object);
  if (value === undefined || value === null) return stage.weight;
  const weight =
    typeof value === "number" ? value : typeof value === "string" && value !== "" ? Number(value) : Number.NaN;
  return Number.isInteger(weight) && weight >= 0 ? weight : undefined;
}

function firstOf(expression: Expression, object: KubeObject): CelValue | undefined {
  return expression.kind === "cel" ? celValue(expression.program, object) : expression.query.run(object as Json)[0];
}

/** Milliseconds from now. */
export function delayOf(delay: StageDelay | undefined, object: KubeObject, nowMs: number, fraction: number): number {
  if (delay === undefined) return 0;
  const base = spanOf(delay.baseFrom, object, nowMs) ?? delay.base;
  const bound = spanOf(delay.boundFrom, object, nowMs) ?? delay.bound;
  if (bound === undefined) return Math.max(0, base);
  if (bound <= base) return Math.max(0, bound);
  return Math.max(0, base + Math.floor(fraction * (bound - base)));
}

/** A duration, or the time until a timestamp; undefined for any other value, the empty string included. */
function spanOf(expression: Expression | undefined, object: KubeObject, nowMs: number): number | undefined {
  if (expression === undefined) return undefined;
  const value = firstOf(expression, object);
  if (value instanceof CelDuration) return Number(value.ns) / 1_000_000;
  if (value instanceof CelTimestamp) return Number(value.ns) / 1_000_000 - nowMs;
  if (typeof value !== "string" || value === "") return undefined;
  const momentMs = timeToMs(value);
  return momentMs === undefined ? durationMs(value) : momentMs - nowMs;
}

/** The writes of a stage, from a step on. After a delete only events are sent. */
export function playStage(stage: Stage, object: KubeObject, context: TemplateContext, from = 0): StageWrite[] {
  const functions = templateFunctions(context);
  const writes: StageWrite[] = [];
  let isGone = false;
  for (let i = from; i < stage.steps.length; i++) {
    const step = stage.steps[i];
    if (step === undefined) continue;
    try {
      for (const write of stepWrites(step, object, functions, { isGone, hasWritten: from > 0 || hasPatch(writes) })) {
        if (write.kind === "delete") isGone = true;
        writes.push({ step: i, write });
      }
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      const message = `stage ${stage.name}, step ${i}: ${error.message}`;
      const write: NodeEvent = {
        kind: "event",
        regarding: eventTarget(object),
        type: "Warning",
        reason: "StageTemplateFailed",
        message,
      };
      return [...writes, { step: i, write }];
    }
  }
  return writes;
}

function stepWrites(
  step: StageStep,
  object: KubeObject,
  functions: TemplateFunctions,
  { isGone, hasWritten: before }: { isGone: boolean; hasWritten: boolean },
): NodeWrite[] {
  const writes: NodeWrite[] = [];
  if (step.event !== undefined) {
    const { type, reason, message } = step.event;
    writes.push({
      kind: "event",
      regarding: eventTarget(object),
      type,
      reason,
      message: message.render(object, functions),
    });
  }
  if (isGone) return writes;
  const ref = refOf(object);
  if (step.finalizers !== undefined) {
    const body = finalizerPatch(object.metadata.finalizers ?? [], step.finalizers);
    if (body.length > 0) writes.push({ kind: "patch", ref, patch: { type: "json", body } });
  }
  if (step.patch !== undefined) {
    const { subresource, root, template, type } = step.patch;
    const rendered = readYaml(template.render(object, functions));
    const body = root === undefined ? rendered : { [root]: rendered };
    if (patchChanges(object as Json, body, type)) {
      writes.push({
        kind: "patch",
        ref: subresource === undefined ? ref : { ...ref, subresource },
        // The server validates the patch.
        patch: { type, body } as Patch,
      });
    }
  }
  if (step.apply !== undefined) writes.push(applyWrite(step.apply, object, functions));
  const hasWritten = before || writes.some(({ kind }) => kind === "patch");
  if (step.delete === true) {
    const { uid, resourceVersion } = object.metadata;
    writes.push({ kind: "delete", ref, expected: hasWritten ? { uid } : { uid, resourceVersion }, graceSeconds: 0 });
  }
  return writes;
}

/** A patch of this run has changed the version of the object. */
function hasPatch(writes: readonly StageWrite[]): boolean {
  return writes.some(({ write }) => write.kind === "patch");
}

function readYaml(text: string): Json {
  try {
    return (parse(text) ?? {}) as Json;
  } catch (error) {
    throw new TemplateError(`the output of the template is not YAML: ${error instanceof Error ? error.message : ""}`);
  }
}

/** One JSON patch. Emptying comes first, so that `empty` with `add` leaves exactly what is added. */
function finalizerPatch(current: readonly string[], wish: NonNullable<StageStep["finalizers"]>): JsonObject[] {
  const patch: JsonObject[] = [];
  let now = [...current];
  if (wish.empty && now.length > 0) {
    patch.push({ op: "remove", path: "/metadata/finalizers" });
    now = [];
  } else {
    for (const value of wish.remove) {
      const at = now.indexOf(value);
      if (at < 0) continue;
      now.splice(at, 1);
      if (now.length > 0) patch.push({ op: "remove", path: `/metadata/finalizers/${at}` });
      else patch.push({ op: "remove", path: "/metadata/finalizers" });
    }
  }
  const added = wish.add.filter((value) => !now.includes(value));
  if (added.length === 0) return patch;
  if (now.length === 0) return [...patch, { op: "add", path: "/metadata/finalizers", value: added }];
  return [...patch, ...added.map((value): JsonObject => ({ op: "add", path: "/metadata/finalizers/-", value }))];
}

/** Cluster-scoped kinds that stages create. */
const clusterKinds = new Set([
  "Node",
  "Namespace",
  "PersistentVolume",
  "StorageClass",
  "ClusterRole",
  "ClusterRoleBinding",
  "PriorityClass",
  "RuntimeClass",
  "CSINode",
  "ResourceSlice",
  "DeviceClass",
]);

/** Creates or changes another object; a namespaced one is in the namespace of the stage's object. */
function applyWrite(
  step: NonNullable<StageStep["apply"]>,
  object: KubeObject,
  functions: TemplateFunctions,
): NodeWrite {
  const body = readYaml(step.template.render(object, functions));
  if (!isObject(body) || !isObject(body["metadata"]))
    throw new TemplateError("the output of the template is not an object");
  const metadata: JsonObject = { ...body["metadata"] };
  const { namespace } = object.metadata;
  const isNamespaced = !clusterKinds.has(String(body["kind"]));
  if (isNamespaced && metadata["namespace"] === undefined && namespace !== undefined) metadata["namespace"] = namespace;
  const whole: JsonObject = { ...body, metadata };
  const ref = refOf(whole as KubeObject);
  const target = step.subresource === undefined ? ref : { ...ref, subresource: step.subresource };
  const patch =
    step.type === "apply" ? { type: "apply" as const, body: whole, force: true } : { type: step.type, body: whole };
  return { kind: "patch", ref: target, patch };
}

/** The plural in lower case, by the rules of the built-in kinds. */
export function pluralOf(kind: string): string {
  const lower = kind.toLowerCase();
  if (/(s|x|ch|sh)$/.test(lower)) return lower.endsWith("endpoints") ? lower : `${lower}es`;
  return /[^aeiou]y$/.test(lower) ? `${lower.slice(0, -1)}ies` : `${lower}s`;
}

function refOf({ apiVersion, kind, metadata }: KubeObject): ObjectRef {
  const { group, version } = splitApiVersion(apiVersion);
  return { group, version, plural: pluralOf(kind), namespace: metadata.namespace ?? "", name: metadata.name };
}

/** Whether two jobs are equal: then a driver does not set its timer again. */
export function isSameJob(a: StageJob | undefined, b: StageJob | undefined): boolean {
  return (
    a?.stage === b?.stage &&
    a?.dueMs === b?.dueMs &&
    a?.step === b?.step &&
    equalFields(a?.resourceVersion, b?.resourceVersion)
  );
}
