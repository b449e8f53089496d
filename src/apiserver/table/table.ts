import type { KubeObject } from "../../model/object.ts";

/** One column of a table, as `kubectl get` shows it. */
export interface ColumnDefinition {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  /** 0 is always shown, 1 with `-o wide`. */
  readonly priority: number;
}

export type Cell = string | number | boolean | null;

/** How objects of one kind become rows. */
export interface TableKind {
  readonly columns: readonly ColumnDefinition[];
  cells(object: KubeObject, nowMs: number): Cell[];
  conditions?(object: KubeObject): readonly unknown[] | undefined;
}

const generic: TableKind = {
  columns: [
    { name: "Name", type: "string", format: "name", description: "Name of the object.", priority: 0 },
    { name: "Created At", type: "date", format: "", description: "When it was created.", priority: 0 },
  ],
  cells: ({ metadata }) => [metadata.name, metadata.creationTimestamp],
};

/** The table of a built-in resource by its storage key; unknown ones show name and time. */
export function tableFor(_storageKey: string): TableKind {
  return generic;
}
