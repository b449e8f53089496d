/** A validation error of one field, in Kubernetes' wording. */
export type FieldError = {
  type: FieldErrorType;
  /** Path with dots and brackets: `spec.containers[0].name`, `metadata.labels[app]`. */
  field: string;
  /** The text after the path, with the value: `Required value: name is needed`. */
  body: string;
};

export type FieldErrorType =
  | "Required"
  | "Invalid"
  | "NotSupported"
  | "Forbidden"
  | "Duplicate"
  | "TooLong"
  | "TooMany"
  | "TypeInvalid"
  | "NotFound"
  | "Internal";

const causeReasons: Record<FieldErrorType, string> = {
  Required: "FieldValueRequired",
  Invalid: "FieldValueInvalid",
  NotSupported: "FieldValueNotSupported",
  Forbidden: "FieldValueForbidden",
  Duplicate: "FieldValueDuplicate",
  TooLong: "FieldValueTooLong",
  TooMany: "FieldValueTooMany",
  TypeInvalid: "FieldValueTypeInvalid",
  NotFound: "FieldValueNotFound",
  Internal: "InternalError",
};

export function required(field: string, detail = ""): FieldError {
  return { type: "Required", field, body: withDetail("Required value", detail) };
}

export function invalid(field: string, value: unknown, detail: string): FieldError {
  return { type: "Invalid", field, body: withDetail(`Invalid value: ${shown(value)}`, detail) };
}

export function notSupported(field: string, value: unknown, supported: readonly string[]): FieldError {
  const list = supported.map((word) => JSON.stringify(word)).join(", ");
  const detail = supported.length > 0 ? `supported values: ${list}` : "";
  return { type: "NotSupported", field, body: withDetail(`Unsupported value: ${shown(value)}`, detail) };
}

export function forbidden(field: string, detail: string): FieldError {
  return { type: "Forbidden", field, body: withDetail("Forbidden", detail) };
}

export function duplicate(field: string, value: unknown): FieldError {
  return { type: "Duplicate", field, body: `Duplicate value: ${shown(value)}` };
}

export function tooLong(field: string, maxBytes: number): FieldError {
  return { type: "TooLong", field, body: `Too long: may not be more than ${maxBytes} bytes` };
}

export function tooMany(field: string, count: number, max: number): FieldError {
  return { type: "TooMany", field, body: `Too many: ${count}: must have at most ${max} items` };
}

export function typeInvalid(field: string, value: unknown, detail: string): FieldError {
  return { type: "TypeInvalid", field, body: withDetail(`Invalid value: ${shown(value)}`, detail) };
}

export function fieldNotFound(field: string, value: unknown): FieldError {
  return { type: "NotFound", field, body: `Not found: ${shown(value)}` };
}

export function internal(field: string, detail: string): FieldError {
  return { type: "Internal", field, body: withDetail("Internal error", detail) };
}

/** `spec.x: Required value`, as it stands in a Status message. */
export function describeFieldError(error: FieldError): string {
  return `${cut(error.field)}: ${error.body}`;
}

/** The value of `details.causes[].reason` for this error. */
export function causeReason(error: FieldError): string {
  return causeReasons[error.type];
}

/** A value as text. Undefined is printed as `"null"`, as upstream does. */
export function shown(value: unknown): string {
  return cut(JSON.stringify(value ?? "null"));
}

/** The maximum length of a printed value. */
const shownCharsMax = 1024;

export function cut(text: string): string {
  return text.length <= shownCharsMax
    ? text
    : `${text.slice(0, shownCharsMax)}... (${text.length - shownCharsMax} more characters)`;
}

function withDetail(text: string, detail: string): string {
  return detail === "" ? text : `${text}: ${detail}`;
}
