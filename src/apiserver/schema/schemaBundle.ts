import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** The generated types of the built-in kinds, as stored on disk by tools/genSchema.ts. */
export type SchemaBundle = { readonly [definition: string]: BundleDefinition };

export type BundleDefinition = {
  readonly atomic?: true;
  readonly fields: { readonly [name: string]: string | BundleField };
};

/**
 * Type, flags, extras. The type is a scalar's name, `any`, `#definition`, `[]type` or `{}type`. Flags: `R` required,
 * `k` zero is kept, `p` pointer, `a` always written.
 */
export type BundleField = readonly [type: string, flags: string, extras?: FieldExtras];

export type FieldExtras = {
  readonly list?: "set" | "map";
  readonly keys?: readonly string[];
  readonly keyDefaults?: Readonly<Record<string, string>>;
  readonly merge?: string;
  readonly retain?: true;
  readonly replace?: true;
  readonly atomic?: boolean;
};

/** Descriptions for `kubectl explain`: by definition, then by field; the empty field is the type itself. */
export type SchemaDescriptions = { readonly [definition: string]: { readonly [field: string]: string } };

let bundle: SchemaBundle | undefined;
let descriptions: SchemaDescriptions | undefined;

export function schemaBundle(): SchemaBundle {
  bundle ??= read("schema.json") as SchemaBundle;
  return bundle;
}

/** Half a megabyte for OpenAPI only, so it is read with the first document. */
export function schemaDescriptions(): SchemaDescriptions {
  descriptions ??= read("descriptions.json") as SchemaDescriptions;
  return descriptions;
}

/** Changes when the data does. */
export function bundleFingerprint(): string {
  fingerprint ??= createHash("sha256").update(bytes("schema.json")).update(bytes("descriptions.json")).digest("hex");
  return fingerprint;
}

let fingerprint: string | undefined;

function read(file: string): unknown {
  return JSON.parse(bytes(file).toString("utf8"));
}

function bytes(file: string): Buffer {
  // src/ and dist/ are equally deep below the root: the compiler does not copy the data.
  return readFileSync(new URL(`../../../src/apiserver/schema/${file}`, import.meta.url));
}
