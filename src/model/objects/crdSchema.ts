/** Building blocks of the OpenAPI schemas of CustomResourceDefinitions. */
import type { JSONSchemaProps } from "../kubernetes.generated.ts";

export type Schema = JSONSchemaProps;

export const text: Schema = { type: "string" };
export const flag: Schema = { type: "boolean" };
export const integer: Schema = { type: "integer" };
export const int32: Schema = { type: "integer", format: "int32" };
export const int64: Schema = { type: "integer", format: "int64" };
export const decimal: Schema = { type: "number" };
export const time: Schema = { type: "string", format: "date-time" };
/** An object whose fields are not checked and are preserved. */
export const open: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const quantity: Schema = {
  anyOf: [{ type: "integer" }, { type: "string" }],
  "x-kubernetes-int-or-string": true,
  pattern:
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
};

export const fields = (properties: Record<string, Schema>, required: string[] = []): Schema =>
  required.length > 0 ? { type: "object", properties, required } : { type: "object", properties };
export const list = (items: Schema): Schema => ({ type: "array", items });
export const map = (additionalProperties: Schema): Schema => ({ type: "object", additionalProperties });
/** Amounts by the name of the resource. */
export const quantities = map(quantity);
/** A list with the merge key `name`. */
export const listByName = (items: Schema): Schema => ({
  ...list(items),
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["name"],
});
export const oneOf = (...values: string[]): Schema => ({ ...text, enum: values as never });
export const nullable = (schema: Schema): Schema => ({ ...schema, nullable: true });
export const withDefault = (schema: Schema, value: unknown): Schema => ({ ...schema, default: value as never });
/** With the text that `kubectl explain` prints. */
export const described = (schema: Schema, description: string): Schema => ({ ...schema, description });

/** One field of `metav1.Condition` each. */
export const conditionFields = {
  type: described(text, "The type of the condition, in CamelCase."),
  status: described(text, "True, False or Unknown."),
  reason: described(text, "Why the condition has this status, in CamelCase."),
  message: described(text, "The reason in a sentence."),
  lastTransitionTime: described(time, "When the status last changed."),
};
