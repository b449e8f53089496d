/** A bug: an invariant of the program is violated. Not used for anything that the API or a user may do. */
export class AssertionFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = "AssertionFailure";
  }
}

/** Enabled in production. The message may be a function, if building it costs more than the check. */
export function assert(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new AssertionFailure(typeof message === "string" ? message : message());
}
