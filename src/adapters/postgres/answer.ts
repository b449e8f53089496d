/** Classifies errors of PostgreSQL. */
import type { Answer } from "../../ports/database.ts";

/** The data or the statement is invalid: a retry would fail again. */
export function isDataError(error: unknown): boolean {
  const code = codeOf(error);
  return code.startsWith("22") || code.startsWith("23");
}

export function answerOf(error: unknown): Extract<Answer<never>, { ok: false }> {
  const code = codeOf(error);
  const why = error instanceof Error ? error.message : String(error);
  // SQLSTATE classes of permanent errors: syntax, permissions and invalid data.
  const refused = code.startsWith("42") || isDataError(error);
  return { ok: false, reason: refused ? "Refused" : "Unavailable", why: code === "" ? why : `${why} (${code})` };
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

export async function answering<T>(call: () => Promise<T>): Promise<Answer<T>> {
  try {
    return { ok: true, value: await call() };
  } catch (error) {
    return answerOf(error);
  }
}
