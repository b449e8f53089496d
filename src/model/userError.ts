/**
 * An error that a user can fix. It has a stable code that `docs/errors.md` lists, a message, and a cure; the command
 * line or the HTTP handler prints it.
 */
export class UserError extends Error {
  readonly code: string;
  /** What to do, as an imperative. */
  readonly cure: string;

  constructor(code: string, message: string, cure: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UserError";
    this.code = code;
    this.cure = cure;
  }
}

/** The command was called with invalid arguments; it has another exit code than errors at run time. */
export class UsageError extends UserError {}
