import type { FieldError } from "../model/objects/fieldError.ts";
import type { Json } from "../model/objects/json.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { GroupResource } from "../model/objects/status.ts";
import type { ResourceType } from "./builtinResources.ts";
import type { FieldValidation } from "./schema/decode.ts";
import type { StructNode } from "./schema/schemaNode.ts";
import type { Strategy } from "./strategy.ts";
import type { TableKind } from "./table/table.ts";

/** A parsed body, and the paths of duplicate keys. */
export interface Sent {
  readonly value: Json;
  readonly duplicates: readonly string[];
  /** Positions of keys in the text; only where a key is duplicated. */
  readonly positions?: ReadonlyMap<string, number> | undefined;
  /** The length of the body; left out for one that this program created. */
  readonly byteLength?: number;
}

/** One resource in one served version, built-in or custom, with everything that the verbs need. */
export interface Resource {
  readonly type: ResourceType;
  readonly apiVersion: string;
  readonly groupResource: GroupResource;
  readonly schema: StructNode;
  readonly strategy: Strategy;
  /** The warning for requests of a deprecated version. */
  readonly deprecation?: string | undefined;
  /** Set for kinds that came from a CustomResourceDefinition. */
  readonly custom: CustomFacts | undefined;
  /**
   * Decodes a body into canonical form, without defaults. Throws a StatusError for a body that cannot be decoded. The
   * result shares nothing with the input, so it may be changed in place.
   */
  decode(sent: Sent, fieldValidation: FieldValidation, warn: (text: string) => void): KubeObject;
  setDefaults(object: KubeObject): void;
  /** Conversion between this version and the stored one; the identity where they are the same. */
  toStorage(object: KubeObject): KubeObject;
  fromStorage(object: KubeObject): KubeObject;
  /** Columns of a custom resource; those of built-in kinds are in table/. */
  readonly table?: TableKind | undefined;
  /** Values of `type.selectableFields`, in order. */
  selectFields(storedObject: KubeObject): string[];
}

/** Facts about a custom resource that the verbs use. */
export interface CustomFacts {
  /** UID of the definition: a definition that was deleted and created again is another one. */
  readonly definitionUid: string;
  readonly terminating: boolean;
  /** False for a version that is stored and not served. */
  readonly served: boolean;
  /** The schema as the definition states it, for OpenAPI. */
  readonly openApiSchema: unknown;
  readonly hasStatusSubresource: boolean;
  readonly scale:
    | {
        readonly specReplicasPath: string;
        readonly statusReplicasPath: string;
        readonly labelSelectorPath: string | undefined;
      }
    | undefined;
  validate(object: KubeObject, old: KubeObject | undefined): FieldError[];
}

/** A body that this program created. */
export function sentByUs(value: unknown): Sent {
  return { value: value as Json, duplicates: [] };
}
