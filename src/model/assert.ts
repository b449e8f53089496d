/** A bug: a fact that the program relies on does not hold. Never for what the API or a user may do. */
export class AssertionFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = "AssertionFailure";
  }
}

/** Stays on in production. The message is a function where building it costs more than the check. */
export function assert(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new AssertionFailure(typeof message === "string" ? message : message());
}
