/** Rows of a custom resource, as its definition describes them. */
import { humanAge } from "../../model/humanDuration.ts";
import type { KubeObject } from "../../model/object.ts";
import { timeToMs } from "../../model/time.ts";
import { type Cell, nameColumn, type TableKind } from "./tableKind.ts";

/** One entry of `additionalPrinterColumns`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
  readonly jsonPath: string;
}

/** Turns a path into a function that finds its first value, undefined where there is none. */
export type CompileJsonPath = (jsonPath: string) => (object: KubeObject) => unknown;

const ageOnly: readonly PrinterColumn[] = [
  {
    name: "Age",
    type: "date",
    description: "Time since the object was created.",
    jsonPath: ".metadata.creationTimestamp",
  },
];

/** Paths are compiled once, here; a version that declares no columns shows the age. */
export function customTable(declared: readonly PrinterColumn[] | undefined, compile: CompileJsonPath): TableKind {
  const columns = declared === undefined || declared.length === 0 ? ageOnly : declared;
  const finders = columns.map(({ type, jsonPath }) => ({ type, find: compile(jsonPath) }));
  return {
    columns: [
      nameColumn,
      ...columns.map(({ name, type, format = "", description = "", priority = 0 }) => ({
        name,
        type,
        format,
        description,
        priority,
      })),
    ],
    cells(object, nowMs) {
      const cells: Cell[] = [object.metadata.name];
      for (const { type, find } of finders) cells.push(cellOf(type, find(object), nowMs));
      return cells;
    },
  };
}

/** A value that is missing or of another type than declared leaves the cell empty. */
function cellOf(type: string, value: unknown, nowMs: number): Cell {
  if (value === undefined || value === null) return null;
  switch (type) {
    case "string":
      return typeof value === "object" ? JSON.stringify(value) : String(value);
    case "integer":
      return typeof value === "number" ? Math.trunc(value) : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "boolean":
      return typeof value === "boolean" ? value : null;
    case "date":
      if (typeof value !== "string") return null;
      return timeToMs(value) === undefined ? "<invalid>" : humanAge(value, nowMs);
    default:
      return null;
  }
}
