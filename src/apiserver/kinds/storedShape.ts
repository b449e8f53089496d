/**
 * Some kinds are served in versions whose form differs from the stored one. Their strategy is written once, for the
 * stored form; an object in another version is converted, checked, and converted back.
 */
import type { KubeObject } from "../../model/objects/object.ts";
import type { Conversion } from "../builtinResource.ts";
import type { Strategy } from "../strategy.ts";

/** `conversions` by apiVersion; objects of any other apiVersion are in the stored form. */
export function inStoredShape(strategy: Strategy, conversions: Readonly<Record<string, Conversion>>): Strategy {
  const stored = (object: KubeObject): KubeObject => conversions[object.apiVersion]?.toStorage(object) ?? object;
  /** Runs a change on the stored form and writes the result back into the caller's object. */
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
