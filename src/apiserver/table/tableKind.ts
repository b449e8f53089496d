import type { KubeObject } from "../../model/objects/object.ts";

/** The value of a cell; null is an empty cell. */
export type Cell = string | number | boolean | null;

/** A column as kubectl gets it. */
export interface ColumnDefinition {
  readonly name: string;
  /** `string`, `integer`, `number`, `boolean` or `date`. */
  readonly type: string;
  /** `name` marks the column that identifies the row. */
  readonly format: string;
  readonly description: string;
  /** 0 is always shown, more only by `-o wide`. */
  readonly priority: number;
}

/** A condition of a row, such as that a pod is finished. */
export interface RowCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** The table of one kind. */
export interface TableKind {
  readonly columns: readonly ColumnDefinition[];
  /** One cell per column, wide ones included: the client hides those that it does not show. */
  cells(object: KubeObject, nowMs: number): Cell[];
  conditions?(object: KubeObject): RowCondition[] | undefined;
}

/** Stored objects have passed validation, so they have the type of their kind. */
export function tableOf<T>(
  columns: readonly ColumnDefinition[],
  cells: (object: T, nowMs: number) => Cell[],
  conditions?: (object: T) => RowCondition[] | undefined,
): TableKind {
  return {
    columns,
    cells: (object, nowMs) => cells(object as T, nowMs),
    ...(conditions === undefined ? {} : { conditions: (object) => conditions(object as T) }),
  };
}

export function column(name: string, description: string, type = "string"): ColumnDefinition {
  return { name, type, format: "", description, priority: 0 };
}

export function wideColumn(name: string, description: string, type = "string"): ColumnDefinition {
  return { name, type, format: "", description, priority: 1 };
}

export const nameColumn: ColumnDefinition = {
  name: "Name",
  type: "string",
  format: "name",
  description: "The name of the object, unique among its kind in its namespace.",
  priority: 0,
};

export const ageColumn = column("Age", "Time since the object was created.");
