import { lstatSync } from "node:fs";
import { UserError } from "../../model/userError.ts";

/**
 * Throws unless the path is a directory (not a symbolic link) of this user that no other user can write to: programs or
 * secrets are read from it.
 */
export function requireOwnFolder(path: string): void {
  const uid = process.getuid?.();
  if (uid === undefined) return; // Windows has no owners and modes of this kind.
  const found = lstatSync(path);
  const problem = !found.isDirectory()
    ? "is not a directory"
    : found.uid !== uid
      ? `belongs to user ${found.uid}, but this process runs as user ${uid}`
      : (found.mode & 0o022) !== 0
        ? "can be written by other users"
        : undefined;
  if (problem === undefined) return;
  throw new UserError(
    "folder-untrusted",
    `${path} ${problem}`,
    "check its content, then remove it, or take it over with chown and chmod go-w, or choose another --data-dir",
  );
}
