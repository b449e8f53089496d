import { type FieldError, invalid, notSupported, tooLong } from "../../model/objects/fieldError.ts";
import { isObject, type Json } from "../../model/objects/json.ts";
import { badRequest, invalidObject } from "../../model/objects/status.ts";
import type { FieldValidation } from "../schema/decode.ts";
import type { Call } from "../verbs/core.ts";
import type { DeleteOptions } from "../verbs/delete.ts";
import type { ReadOptions, WatchReadOptions } from "../verbs/getListWatch.ts";
import type { PatchCall } from "../verbs/patch.ts";
import type { Exchange } from "./exchange.ts";
import type { Query } from "./query.ts";

/** Watches without a timeout end after half an hour to an hour. */
const watchSecondsMin = 1800;

export function readOptions(query: Query): ReadOptions {
  const limit = query.integer("limit");
  // Only watches use it, but an invalid value is always rejected.
  query.integer("timeoutSeconds");
  return {
    labelSelector: query.text("labelSelector"),
    fieldSelector: query.text("fieldSelector"),
    resourceVersion: query.text("resourceVersion"),
    resourceVersionMatch: query.text("resourceVersionMatch"),
    // A limit below one is no limit, as upstream.
    limit: limit === undefined ? undefined : Math.max(0, limit),
    continueToken: query.text("continue"),
  };
}

export function watchOptions(query: Query, randomBelow: (bound: number) => number): WatchReadOptions {
  const seconds = query.integer("timeoutSeconds");
  return {
    ...readOptions(query),
    allowBookmarks: query.flag("allowWatchBookmarks"),
    sendInitialEvents: query.optionalFlag("sendInitialEvents"),
    timeoutMs: 1000 * (seconds !== undefined && seconds > 0 ? seconds : watchSecondsMin + randomBelow(watchSecondsMin)),
  };
}

/** Options that all writes share. */
export function callOf(
  exchange: Exchange,
  kind: "CreateOptions" | "UpdateOptions" | "PatchOptions" | "DeleteOptions",
): Call {
  const { query } = exchange;
  const errors: FieldError[] = [];
  const dryRun = query.all("dryRun");
  // An empty value is rejected too: a write that was meant as a dry run must not happen.
  if (dryRun.some((value) => value !== "All")) errors.push(notSupported("dryRun", dryRun, ["All"]));
  const fieldValidation = query.text("fieldValidation") ?? "";
  if (!["", "Ignore", "Warn", "Strict"].includes(fieldValidation)) {
    errors.push(notSupported("fieldValidation", fieldValidation, ["", "Ignore", "Strict", "Warn"]));
  }
  const manager = query.text("fieldManager") ?? "";
  if (manager.length > 128) errors.push(tooLong("fieldManager", 128));
  else if (!/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u.test(manager)) {
    errors.push(invalid("fieldManager", manager, "should only contain printable characters"));
  }
  if (errors.length > 0) throw invalidObject({ group: "meta.k8s.io", kind }, "", errors);
  return {
    user: exchange.user,
    dryRun: dryRun.length > 0,
    fieldManager: manager === "" ? managerFromUserAgent(exchange.header("user-agent")) : manager,
    fieldValidation: (fieldValidation === "" ? "Warn" : fieldValidation) as FieldValidation,
    warn: exchange.warn,
  };
}

export function patchCallOf(exchange: Exchange, apply: boolean): PatchCall {
  const call = callOf(exchange, "PatchOptions");
  const force = exchange.query.optionalFlag("force");
  if (force !== undefined && !apply) {
    const why = [
      { type: "Forbidden" as const, field: "force", body: "Forbidden: may not be specified for non-apply patch" },
    ];
    throw invalidObject({ group: "meta.k8s.io", kind: "PatchOptions" }, "", why);
  }
  // An apply requires a field manager; the user agent is no substitute.
  const fieldManager = apply ? (exchange.query.text("fieldManager") ?? "") : call.fieldManager;
  return { ...call, fieldManager, force: force ?? false };
}

function managerFromUserAgent(agent: string | undefined): string {
  if (agent === undefined || agent === "") return "unknown";
  const [name = ""] = agent.split("/", 1);
  return name.slice(0, 128);
}

/** Options of a delete: from the body, or from the query when there is none. */
export function deleteOptionsOf(query: Query, body: Json | undefined): { options: DeleteOptions; dryRun: string[] } {
  if (body === undefined) {
    return {
      options: {
        gracePeriodSeconds: query.integer("gracePeriodSeconds"),
        propagationPolicy: query.text("propagationPolicy") as DeleteOptions["propagationPolicy"],
        orphanDependents: query.optionalFlag("orphanDependents"),
      },
      dryRun: [],
    };
  }
  if (!isObject(body)) throw badRequest("DeleteOptions must be an object");
  const { kind } = body;
  if (kind !== undefined && kind !== "" && kind !== "DeleteOptions") {
    throw badRequest(`expected DeleteOptions, not ${JSON.stringify(kind)}`);
  }
  const preconditions = body["preconditions"] ?? undefined;
  if (preconditions !== undefined && !isObject(preconditions)) {
    throw badRequest(`DeleteOptions.preconditions must be an object, not ${JSON.stringify(preconditions)}`);
  }
  return {
    options: {
      gracePeriodSeconds: typed(body, "gracePeriodSeconds", "number"),
      propagationPolicy: typed(body, "propagationPolicy", "string") as DeleteOptions["propagationPolicy"],
      orphanDependents: typed(body, "orphanDependents", "boolean"),
      preconditions:
        preconditions === undefined
          ? undefined
          : {
              uid: typed(preconditions, "uid", "string"),
              resourceVersion: typed(preconditions, "resourceVersion", "string"),
            },
    },
    dryRun: dryRunOf(body["dryRun"] ?? undefined),
  };
}

function dryRunOf(sent: Json | undefined): string[] {
  if (sent === undefined) return [];
  if (!Array.isArray(sent) || !sent.every((item) => typeof item === "string")) {
    throw badRequest(`DeleteOptions.dryRun must be a list of strings, not ${JSON.stringify(sent)}`);
  }
  if (sent.some((item) => item !== "All")) {
    throw invalidObject({ group: "meta.k8s.io", kind: "DeleteOptions" }, "", [notSupported("dryRun", sent, ["All"])]);
  }
  return sent;
}

interface Types {
  number: number;
  string: string;
  boolean: boolean;
}

function typed<T extends keyof Types>(object: { [key: string]: Json }, field: string, type: T): Types[T] | undefined {
  const value = object[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== type) throw badRequest(`DeleteOptions.${field} must be a ${type}, not ${JSON.stringify(value)}`);
  return value as Types[T];
}
