import type { CelValue } from "./values.ts";

/** A parsed expression. Macros are nodes of their own. */
export type Expr =
  | { readonly op: "const"; readonly at: number; readonly value: CelValue }
  | { readonly op: "ident"; readonly at: number; readonly name: string }
  | Select
  | { readonly op: "has"; readonly at: number; readonly select: Select }
  | {
      readonly op: "index";
      readonly at: number;
      readonly target: Expr;
      readonly index: Expr;
      readonly optional: boolean;
    }
  | Call
  | { readonly op: "and" | "or"; readonly at: number; readonly args: readonly Expr[] }
  | { readonly op: "if"; readonly at: number; readonly test: Expr; readonly then: Expr; readonly otherwise: Expr }
  | { readonly op: "list"; readonly at: number; readonly items: readonly ListItem[] }
  | { readonly op: "map"; readonly at: number; readonly entries: readonly MapEntry[] }
  | { readonly op: "struct"; readonly at: number; readonly name: string; readonly fields: readonly StructField[] }
  | Fold
  | { readonly op: "bind"; readonly at: number; readonly name: string; readonly value: Expr; readonly body: Expr }
  | {
      readonly op: "optMap" | "optFlatMap";
      readonly at: number;
      readonly target: Expr;
      readonly name: string;
      readonly body: Expr;
    };

/** A field of a message that an expression builds. */
export interface StructField {
  readonly at: number;
  readonly name: string;
  readonly value: Expr;
  readonly optional: boolean;
}

export interface Select {
  readonly op: "select";
  readonly at: number;
  readonly target: Expr;
  readonly field: string;
  /** Written with `.?`. */
  readonly optional: boolean;
  /** Written in backticks, so taken literally. */
  readonly quoted: boolean;
}

/** Operators are calls named as CEL names them: `_+_`, `!_`, `-_`, `@in`. */
export interface Call {
  readonly op: "call";
  readonly at: number;
  readonly name: string;
  readonly target: Expr | undefined;
  readonly args: readonly Expr[];
}

export interface ListItem {
  readonly value: Expr;
  readonly optional: boolean;
}

export interface MapEntry {
  readonly key: Expr;
  readonly value: Expr;
  readonly optional: boolean;
}

export type FoldKind =
  | "all"
  | "exists"
  | "existsOne"
  | "map"
  | "filter"
  | "transformList"
  | "transformMap"
  | "transformMapEntry"
  | "sortBy";

/** One loop over a list or a map. */
export interface Fold {
  readonly op: "fold";
  readonly at: number;
  readonly kind: FoldKind;
  readonly range: Expr;
  /** One name: item or key. Two names: index or key, then value. */
  readonly names: readonly string[];
  /** The filter of the items. */
  readonly filter: Expr | undefined;
  readonly body: Expr;
}
