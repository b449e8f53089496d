import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { KeyFiles } from "../../ports/keyFiles.ts";
import { requireOwnFolder } from "./ownFolder.ts";
import { makePrivateFolder, writePrivateFile } from "./privateFile.ts";

/** Keys and certificates in a folder of the data folder: folder 0700, files 0600. */
export function diskKeyFiles(folder: string): KeyFiles {
  return {
    async read(name) {
      try {
        requireOwnFolder(folder);
        return await readFile(pathOf(name), "utf8");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async write(name, text) {
      await makePrivateFolder(folder);
      await writePrivateFile(pathOf(name), text);
    },
  };

  function pathOf(name: string): string {
    if (name !== basename(name) || name === ".." || name === ".") throw new Error(`not a plain file name: ${name}`);
    return join(folder, name);
  }
}
