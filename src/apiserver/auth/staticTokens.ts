import { hash } from "node:crypto";
import type { UserInfo } from "../strategy.ts";

/**
 * Tokens from a file, for clients with neither certificate nor service account. Stored as hashes: a look-up by hash
 * does not leak through its timing how much of a token was right.
 */
export class StaticTokens {
  readonly #users = new Map<string, UserInfo>();

  /**
   * Reads lines of `token,user,uid,"group1,group2"`; the groups may be left out. Lines that begin with # and empty
   * lines are skipped.
   */
  static parse(text: string): StaticTokens {
    const tokens = new StaticTokens();
    for (const [index, line] of text.split(/\r?\n/).entries()) {
      if (line.trim() === "" || line.startsWith("#")) continue;
      const [token = "", username = "", uid, groups = ""] = fieldsOf(line);
      if (token === "" || username === "" || uid === undefined) {
        throw new Error(`token file, line ${index + 1}: expected token,user,uid and optionally "group1,group2"`);
      }
      const user = {
        username,
        ...(uid === "" ? {} : { uid }),
        groups: groups.split(",").filter((group) => group !== ""),
      };
      tokens.#users.set(hashOf(token), user);
    }
    return tokens;
  }

  find(token: string): UserInfo | undefined {
    return this.#users.size === 0 ? undefined : this.#users.get(hashOf(token));
  }
}

function hashOf(token: string): string {
  return hash("sha256", token, "base64");
}

/** One line of CSV: quoted fields may contain commas, and a quote inside is doubled. */
function fieldsOf(line: string): string[] {
  const fields: string[] = [];
  const field = /\s*(?:"((?:[^"]|"")*)"|([^",]*))\s*(?:,|$)/y;
  while (field.lastIndex < line.length) {
    const match = field.exec(line);
    if (match === null) return [];
    fields.push((match[1]?.replaceAll('""', '"') ?? match[2] ?? "").trim());
  }
  if (line.endsWith(",")) fields.push("");
  return fields;
}
