import type { FieldError } from "../model/objects/fieldError.ts";
import type { Json } from "../model/objects/json.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { GroupResource } from "../model/objects/status.ts";
import type { ResourceType } from "./resources.ts";
import type { FieldValidation } from "./schema/decode.ts";
import type { StructNode } from "./schema/schemaNode.ts";
import type { Strategy } from "./strategy.ts";
import type { TableKind } from "./table/table.ts";

/** A body as it was read: what it says, and the paths of keys that it says twice. */
export interface Sent {
  readonly value: Json;
  readonly duplicates: readonly string[];
  /** Where its keys stand in the text, counted; only where one stands twice. */
  readonly positions?: ReadonlyMap<string, number> | undefined;
}

/** One resource in one served version, built in or custom, with everything the verbs need to know about it. */
export interface Resource {
  readonly type: ResourceType;
  readonly apiVersion: string;
  readonly groupResource: GroupResource;
  readonly schema: StructNode;
  readonly strategy: Strategy;
  /** What every request for a version that is on its way out is warned with. */
  readonly deprecation?: string | undefined;
  /** Set for kinds that came from a CustomResourceDefinition. */
  readonly custom: CustomFacts | undefined;
  /**
   * Turns what a client sent into the canonical form, without defaults. Throws a StatusError for what cannot be read.
   * The result shares nothing with the input, so the pipeline may change it in place.
   */
  decode(sent: Sent, fieldValidation: FieldValidation, warn: (text: string) => void): KubeObject;
  setDefaults(object: KubeObject): void;
  /** Between this version and the stored one. The identity where they are the same. */
  toStorage(object: KubeObject): KubeObject;
  fromStorage(object: KubeObject): KubeObject;
  /** Columns of a custom resource; built-in kinds have theirs in the table room. */
  readonly table?: TableKind | undefined;
  /** Values of `type.selectableFields`, in order. */
  selectFields(storedObject: KubeObject): string[];
}

/** What the verbs ask about a custom resource. */
export interface CustomFacts {
  /** UID of the definition: a definition that was deleted and made again is another one. */
  readonly definitionUid: string;
  readonly terminating: boolean;
  /** False for a version that only stores objects. */
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

/** A value that this program made itself. */
export function sentByUs(value: unknown): Sent {
  return { value: value as Json, duplicates: [] };
}
