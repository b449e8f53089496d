import type { ManagedFieldsEntry } from "../../model/objects/object.ts";
import { failure, type StatusError } from "../../model/objects/status.ts";
import { describePath, type FieldSet, type Path, pathsOf } from "./fieldSet.ts";
import { identityText } from "./ownershipEntry.ts";

/** A field whose value an applier would change while another manager owns it. */
export interface Conflict {
  readonly owner: ManagedFieldsEntry;
  readonly path: Path;
}

export function conflictsOf(owner: ManagedFieldsEntry, fields: FieldSet): Conflict[] {
  return pathsOf(fields).map((path) => ({ owner, path }));
}

/** The conflict error that kubectl prints: each field, and the manager that owns it. */
export function applyConflict(conflicts: readonly Conflict[]): StatusError {
  const causes = conflicts.map(({ owner, path }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with ${describeOwner(owner)}`,
    field: describePath(path),
  }));
  return failure(409, "Conflict", conflictText(conflicts), { causes });
}

function conflictText(conflicts: readonly Conflict[]): string {
  const [first] = conflicts;
  if (conflicts.length === 1 && first !== undefined) {
    return `Apply failed with 1 conflict: conflict with ${describeOwner(first.owner)}: ${describePath(first.path)}`;
  }
  const byOwner = new Map<string, Conflict[]>();
  const identities = new Map<ManagedFieldsEntry, string>();
  for (const conflict of conflicts) {
    const id = identities.get(conflict.owner) ?? identityText(conflict.owner);
    identities.set(conflict.owner, id);
    const own = byOwner.get(id);
    if (own === undefined) byOwner.set(id, [conflict]);
    else own.push(conflict);
  }
  const lines: string[] = [];
  for (const id of [...byOwner.keys()].sort()) {
    const own = byOwner.get(id) ?? [];
    if (own[0] !== undefined) lines.push(`conflicts with ${describeOwner(own[0].owner)}:`);
    for (const { path } of own) lines.push(`- ${describePath(path)}`);
  }
  return `Apply failed with ${conflicts.length} conflicts: ${lines.join("\n")}`;
}

function describeOwner({ manager = "", operation, apiVersion, subresource = "" }: ManagedFieldsEntry): string {
  const through = subresource === "" ? "" : ` with subresource ${JSON.stringify(subresource)}`;
  const using = operation === "Update" ? ` using ${apiVersion}` : "";
  return `${JSON.stringify(manager)}${through}${using}`;
}
