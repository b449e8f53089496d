import type { Written } from "../../intents/applyIntent.ts";
import { expectedOf } from "../../model/intent.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Writer } from "../runtime/writer.ts";

/** A patch and its reason. */
export interface Change {
  readonly patch: object;
  readonly subresource?: "status";
  readonly why: string;
}

/** Patches an object with the revision that was read as precondition: a concurrent write makes it fail. */
export function patchObject(
  writer: Writer,
  kind: Resource,
  object: KubeObject,
  { patch, subresource, why }: Change,
  cancel: Cancel,
): Promise<Outcome<Written>> {
  const { namespace = "", name } = object.metadata;
  return writer.apply(
    {
      type: "patch",
      target: { ...kind, namespace, name },
      ...(subresource !== undefined && { subresource }),
      expected: expectedOf(object),
      patch: patch as JsonObject,
      why,
    },
    { cancel },
  );
}
