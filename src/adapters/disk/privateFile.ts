import { randomBytes } from "node:crypto";
import { chmod, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder } from "./makeFolder.ts";

/**
 * Writes a file that only its owner may read: to a temporary file, synced, then renamed. A reader sees the old text or
 * the new one, and the secret is never in a file with wider permissions.
 */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const folder = dirname(path);
  const beside = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  await makeFolder(folder, 0o700);
  try {
    const file = await open(beside, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  await syncFolder(folder);
}

/** Creates a folder that only its owner may enter; an existing one loses wider permissions. */
export async function makePrivateFolder(path: string): Promise<void> {
  await makeFolder(path, 0o700);
  await chmod(path, 0o700);
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return; // a folder cannot be opened there
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
