import type { FieldError } from "../../model/objects/fieldError.ts";
import type { Strategy, WriteContext } from "../strategy.ts";

/** A strategy with the type of its kind instead of KubeObject. */
export interface KindStrategy<T>
  extends Pick<
    Strategy,
    | "name"
    | "generation"
    | "orphansByDefault"
    | "orphanWarning"
    | "takesAlong"
    | "createOnUpdate"
    | "requiresRevision"
    | "returnsDeleted"
    | "statusOnCreate"
    | "statusKeeps"
  > {
  setDefaults?(object: T): void;
  prepareForCreate?(object: T, context: WriteContext): void;
  validate?(object: T, context: WriteContext): FieldError[];
  prepareForUpdate?(next: T, old: T, context: WriteContext): void;
  validateUpdate?(next: T, old: T, context: WriteContext): FieldError[];
  validateStatusUpdate?(next: T, old: T, context: WriteContext): FieldError[];
  graceSeconds?(object: T, requested: number | undefined): number | undefined;
  beginDeletion?(object: T): void;
  holdsDeletion?(object: T): boolean;
  refusesDeletion?(object: T): string | undefined;
  selectFields?(object: T): string[];
}

/**
 * The one cast from a kind's type to the general one. The verbs look up strategies by resource, so an object of another
 * kind never reaches them; decoding has ensured that the object has the type.
 */
export function strategyOfKind<T>(strategy: KindStrategy<T>): Strategy {
  return strategy as Strategy;
}
