/** What a failure of PostgreSQL means to the caller. */
import type { Answer } from "../../ports/database.ts";

/** The row, or the statement, is at fault: asking again with the same words gives the same answer. */
export function isDataError(error: unknown): boolean {
  const code = codeOf(error);
  return code.startsWith("22") || code.startsWith("23");
}

export function answerOf(error: unknown): Extract<Answer<never>, { ok: false }> {
  const code = codeOf(error);
  const why = error instanceof Error ? error.message : String(error);
  // Classes of SQLSTATE that say no for good: syntax and rights, and broken data.
  const refused = code.startsWith("42") || isDataError(error);
  return { ok: false, reason: refused ? "Refused" : "Unavailable", why: code === "" ? why : `${why} (${code})` };
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

export async function asking<T>(ask: () => Promise<T>): Promise<Answer<T>> {
  try {
    return { ok: true, value: await ask() };
  } catch (error) {
    return answerOf(error);
  }
}
