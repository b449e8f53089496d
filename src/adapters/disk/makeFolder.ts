import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Creates a folder and its parents; an existing folder is left unchanged. Node's own recursive mkdir loops forever
 * where the parent exists and the system reports that it does not, as under /proc.
 */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  try {
    await mkdir(path, mode);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "EEXIST" && (await isFolder(path))) return;
    const parent = dirname(path);
    if (code !== "ENOENT" || parent === path || (await isFolder(parent))) throw cause;
    await makeFolder(parent, mode);
    await makeFolder(path, mode);
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
