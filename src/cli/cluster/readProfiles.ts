import { readFile } from "node:fs/promises";
import type { Profile } from "../../model/profiles/profile.ts";
import { parseProfiles } from "../../model/profiles/profiles.ts";
import { UserError } from "../../model/userError.ts";

/** Node profiles of the user's own, from the files of `--profile-file`. */
export async function readProfiles(files: readonly string[]): Promise<Profile[]> {
  const profiles: Profile[] = [];
  for (const file of files) {
    const text = await readFile(file, "utf8").catch((cause: Error) => {
      throw new UserError(
        "profile-file-unreadable",
        `cannot read ${file}: ${cause.message}`,
        "pass --profile-file with a YAML file that exists and that you may read",
        { cause },
      );
    });
    profiles.push(...parseProfiles(text, file));
  }
  return profiles;
}
