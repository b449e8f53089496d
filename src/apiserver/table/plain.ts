/** Tables of kinds without columns of their own: name and age. */

import type { KubeObject } from "../../model/objects/object.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { ageColumn, column, nameColumn, type TableKind } from "./tableKind.ts";

/** Name and age. */
export const agedTable: TableKind = {
  columns: [nameColumn, ageColumn],
  cells: ({ metadata }, nowMs) => [metadata.name, humanAge(metadata.creationTimestamp, nowMs)],
};

/** Any kind without a table of its own: name and date of creation. */
export const datedTable: TableKind = {
  columns: [nameColumn, column("Created At", "When the object was created.", "date")],
  cells: ({ metadata }: KubeObject) => [metadata.name, metadata.creationTimestamp],
};
