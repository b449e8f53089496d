/** One thing that is wrong with one field, in the words that kubectl's users know. */
export type FieldError = {
  type: FieldErrorType;
  /** Path with dots and brackets: `spec.containers[0].name`, `metadata.labels[app]`. */
  field: string;
  /** The text behind the path, value included: `Required value: name is needed`. */
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
  return `${error.field}: ${error.body}`;
}

/** The word that stands for this error in `details.causes[].reason`. */
export function causeReason(error: FieldError): string {
  return causeReasons[error.type];
}

/** A value as a person reads it. No value at all is the word in quotes: upstream prints it as a string. */
function shown(value: unknown): string {
  return JSON.stringify(value ?? "null");
}

function withDetail(text: string, detail: string): string {
  return detail === "" ? text : `${text}: ${detail}`;
}
