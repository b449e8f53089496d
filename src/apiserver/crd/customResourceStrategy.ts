import type { JsonObject } from "../../model/json.ts";
import type { KubeObject } from "../../model/object.ts";
import type { Strategy } from "../strategy.ts";
import type { CustomResource } from "./customResource.ts";

/** A version of a custom resource as the verbs see any kind. */
export function customResourceStrategy(resource: CustomResource): Strategy {
  const json = (object: KubeObject) => object as unknown as JsonObject;
  return {
    name: "dnsSubdomain",
    generation: "content",
    requiresRevision: true,
    setDefaults: (object) => resource.setDefaults(json(object)),
    validate: (object) => resource.validate(json(object)),
    validateUpdate: (next, old) => resource.validate(json(next), json(old)),
    validateStatusUpdate: (next, old) => resource.validate(json(next), json(old)),
    selectFields: (object) => resource.selectFields(json(object)),
  };
}
