import { assert } from "./assert.ts";

/**
 * A resourceVersion: a decimal number as a string. It may exceed the exact range of a JavaScript number, so it is
 * compared as text: by length, then digit by digit.
 */
export type Revision = string;

/** Before every other revision. */
export const firstRevision: Revision = "0";

/** Positive when a is later. */
export function compareRevisions(a: Revision, b: Revision): number {
  if (a.length !== b.length) return a.length - b.length;
  return a === b ? 0 : a < b ? -1 : 1;
}

export function isAtLeast(revision: Revision, floor: Revision): boolean {
  return compareRevisions(revision, floor) >= 0;
}

export function isLater(revision: Revision, than: Revision): boolean {
  return compareRevisions(revision, than) > 0;
}

export function laterOf(a: Revision, b: Revision): Revision {
  return compareRevisions(a, b) >= 0 ? a : b;
}

const decimal = /^(?:0|[1-9][0-9]*)$/;

export function isRevision(text: unknown): text is Revision {
  return typeof text === "string" && decimal.test(text);
}

/** For values from the API, which are revisions unless the server breaks the contract. */
export function expectRevision(text: unknown): Revision {
  assert(isRevision(text), () => `${JSON.stringify(text)} is not a revision`);
  return text;
}
