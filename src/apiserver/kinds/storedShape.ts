/**
 * Some kinds are served in versions that look different from the stored one. Their rules are written once, for the
 * stored shape; an object that arrives in another shape is carried over, judged, and carried back.
 */
import type { KubeObject } from "../../model/objects/object.ts";
import type { Conversion } from "../builtinResource.ts";
import type { Strategy } from "../strategy.ts";

/** `conversions` by apiVersion; objects of any other apiVersion are taken to be in the stored shape. */
export function inStoredShape(strategy: Strategy, conversions: Readonly<Record<string, Conversion>>): Strategy {
  const stored = (object: KubeObject): KubeObject => conversions[object.apiVersion]?.toStorage(object) ?? object;
  /** Runs a change on the stored shape and writes the outcome back into the object that the caller holds. */
  const changing = (object: KubeObject, change: (object: KubeObject) => void): void => {
    const conversion = conversions[object.apiVersion];
    if (conversion === undefined) {
      change(object);
      return;
    }
    const carried = conversion.toStorage(object);
    change(carried);
    const back = conversion.fromStorage(carried);
    for (const field of Object.keys(object)) if (!(field in back)) delete object[field];
    Object.assign(object, back);
  };
  const wrapped: Strategy = { ...strategy };
  const { setDefaults, prepareForCreate, validate, prepareForUpdate, validateUpdate, validateStatusUpdate } = strategy;
  if (setDefaults) wrapped.setDefaults = (object) => changing(object, (carried) => setDefaults(carried));
  if (prepareForCreate) {
    wrapped.prepareForCreate = (object, context) => changing(object, (carried) => prepareForCreate(carried, context));
  }
  if (validate) wrapped.validate = (object, context) => validate(stored(object), context);
  if (prepareForUpdate) {
    wrapped.prepareForUpdate = (next, old, context) =>
      changing(next, (carried) => prepareForUpdate(carried, stored(old), context));
  }
  if (validateUpdate) {
    wrapped.validateUpdate = (next, old, context) => validateUpdate(stored(next), stored(old), context);
  }
  if (validateStatusUpdate) {
    wrapped.validateStatusUpdate = (next, old, context) => {
      let errors: ReturnType<typeof validateStatusUpdate> = [];
      changing(next, (carried) => {
        errors = validateStatusUpdate(carried, stored(old), context);
      });
      return errors;
    };
  }
  return wrapped;
}
