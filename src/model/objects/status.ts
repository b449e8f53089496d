import { causeReason, cut, describeFieldError, type FieldError, shown } from "./fieldError.ts";

/** The API's response when there is no object to return. */
export type Status = {
  kind: "Status";
  apiVersion: "v1";
  metadata: { resourceVersion?: string; continue?: string };
  status: "Success" | "Failure";
  message?: string;
  reason?: string;
  details?: StatusDetails;
  code: number;
};

export type StatusDetails = {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  causes?: StatusCause[];
  retryAfterSeconds?: number;
};

export type StatusCause = { reason?: string; message?: string; field?: string };

/** Group and plural of a resource; prints as `deployments.apps` or `pods`. */
export type GroupResource = { group: string; resource: string };

export function groupResourceText({ group, resource }: GroupResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

/** An error of the API, thrown inside the API server; the HTTP handler turns it into a Status. */
export class StatusError extends Error {
  readonly status: Status;

  constructor(status: Status) {
    super(status.message ?? status.reason ?? "refused");
    this.name = "StatusError";
    this.status = status;
  }
}

export function failure(code: number, reason: string, message: string, details?: StatusDetails): StatusError {
  return new StatusError({
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    ...(details === undefined ? {} : { details }),
    code,
  });
}

export function success(details: StatusDetails, code = 200): Status {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details, code };
}

export function badRequest(message: string): StatusError {
  return failure(400, "BadRequest", message);
}

export function unauthorized(): StatusError {
  return failure(401, "Unauthorized", "Unauthorized");
}

export function forbiddenError(gr: GroupResource, name: string, why: string, causes?: StatusCause[]): StatusError {
  const subject = name === "" ? groupResourceText(gr) : `${groupResourceText(gr)} ${JSON.stringify(name)}`;
  const message = gr.resource === "" ? `forbidden: ${why}` : `${subject} is forbidden: ${why}`;
  return failure(403, "Forbidden", message, { ...detailsOf(gr, name), ...(causes ? { causes } : {}) });
}

export function notFound(gr: GroupResource, name: string): StatusError {
  return failure(404, "NotFound", `${groupResourceText(gr)} ${JSON.stringify(name)} not found`, detailsOf(gr, name));
}

/** The path itself is unknown, as opposed to an object under a known path. */
export function unknownPath(): StatusError {
  return failure(404, "NotFound", "the server could not find the requested resource", {});
}

export function methodNotAllowed(): StatusError {
  return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {});
}

export function notAcceptable(accepted: readonly string[]): StatusError {
  return failure(406, "NotAcceptable", `only the following media types are accepted: ${accepted.join(", ")}`);
}

export function unsupportedMediaType(accepted: readonly string[]): StatusError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`;
  return failure(415, "UnsupportedMediaType", message);
}

export function alreadyExists(gr: GroupResource, name: string, beingDeleted = false): StatusError {
  const message = `${beingDeleted ? "object is being deleted: " : ""}${groupResourceText(gr)} ${JSON.stringify(name)} already exists`;
  return failure(409, "AlreadyExists", message, detailsOf(gr, name));
}

export function conflict(gr: GroupResource, name: string, why: string): StatusError {
  const message = `Operation cannot be fulfilled on ${groupResourceText(gr)} ${JSON.stringify(name)}: ${why}`;
  return failure(409, "Conflict", message, detailsOf(gr, name));
}

/** The object was changed since the caller read it. */
export function modifiedConflict(gr: GroupResource, name: string): StatusError {
  const why = "the object has been modified; please apply your changes to the latest version and try again";
  return conflict(gr, name, why);
}

export function expired(message: string, continueToken?: string): StatusError {
  const error = failure(410, "Expired", message);
  if (continueToken !== undefined) error.status.metadata.continue = continueToken;
  return error;
}

export function tooLarge(message: string): StatusError {
  return failure(413, "RequestEntityTooLarge", message);
}

/** The maximum number of errors in a message; the number of further errors follows. */
const errorsShownMax = 100;

/** Validation failed: every field error becomes a cause. */
export function invalidObject(
  gk: { group: string; kind: string },
  name: string,
  errors: readonly FieldError[],
): StatusError {
  const first = errors.slice(0, errorsShownMax);
  const texts = first.map(describeFieldError);
  if (errors.length > first.length) texts.push(`and ${errors.length - first.length} more errors`);
  const what = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const kind = gk.group === "" ? gk.kind : `${gk.kind}.${gk.group}`;
  return failure(422, "Invalid", `${kind} ${shown(name)} is invalid: ${what}`, {
    ...(name === "" ? {} : { name: cut(name) }),
    ...(gk.group === "" ? {} : { group: gk.group }),
    ...(gk.kind === "" ? {} : { kind: gk.kind }),
    causes: first.map((error) => ({ reason: causeReason(error), message: error.body, field: cut(error.field) })),
  });
}

export function tooManyRequests(message: string, retryAfterSeconds: number, causes?: StatusCause[]): StatusError {
  const details: StatusDetails = {
    ...(causes ? { causes } : {}),
    ...(retryAfterSeconds > 0 ? { retryAfterSeconds } : {}),
  };
  return failure(429, "TooManyRequests", message, details);
}

export function internalError(message: string): StatusError {
  const error = failure(500, "InternalError", `Internal error occurred: ${message}`, { causes: [{ message }] });
  return error;
}

export function unavailable(message: string): StatusError {
  return failure(503, "ServiceUnavailable", message);
}

export function timeout(message: string, retryAfterSeconds: number, causes?: StatusCause[]): StatusError {
  return failure(504, "Timeout", `Timeout: ${message}`, { ...(causes ? { causes } : {}), retryAfterSeconds });
}

function detailsOf(gr: GroupResource, name: string): StatusDetails {
  return {
    ...(name === "" ? {} : { name }),
    ...(gr.group === "" ? {} : { group: gr.group }),
    ...(gr.resource === "" ? {} : { kind: gr.resource }),
  };
}
