/** Which table a kind is shown in when kubectl asks for rows instead of objects. */
import { agedTable, datedTable } from "./plain.ts";
import { podTable } from "./pods.ts";
import type { TableKind } from "./tableKind.ts";

export type { Cell, ColumnDefinition, RowCondition, TableKind } from "./tableKind.ts";

const tables = new Map<string, TableKind>([
  ["/pods", podTable],
  ["/serviceaccounts", agedTable],
]);

/** By group and plural of the stored form: `/pods`, `apps/deployments`. */
export function tableFor(storageKey: string): TableKind {
  return tables.get(storageKey) ?? datedTable;
}
