/**
 * Something a person can fix. It carries a stable code that `docs/errors.md` lists, what happened, and what to do;
 * the edge (CLI, HTTP) decides how to print it.
 */
export class UserError extends Error {
  readonly code: string;
  /** What the reader should try, as an imperative. */
  readonly cure: string;

  constructor(code: string, message: string, cure: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UserError";
    this.code = code;
    this.cure = cure;
  }
}

/** The command was called wrongly: another exit code than for what went wrong while it ran. */
export class UsageError extends UserError {}
