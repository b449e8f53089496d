/** What every answer to a fuzzed request must obey. */
import { expect } from "vitest";
import type { Answer } from "../httpCaller.ts";

/** Mistakes of the caller that upstream answers with 500; clients know them by their texts. */
const upstreamOddities =
  /resourceVersion should not be set on objects to be created|failed to create typed patch object/;

/** How many cases are tried; more when there is time. */
export const fuzzRuns = Number(
  process.env["MUSTER_FUZZ_RUNS"] ?? (process.env["MUSTER_LONG"] === "1" ? 20_000 : 1_000),
);

export const fuzzMsMax = 120_000 + fuzzRuns * 20;

const prototypeKeys = Object.getOwnPropertyNames(Object.prototype).sort();

/** A refusal is a Status, and the server's own mistakes are nobody's refusal. */
export function expectHonestAnswer({ code, json, text }: Answer, mistakes: unknown[]): void {
  expect(mistakes.splice(0), text).toEqual([]);
  expect(Object.getOwnPropertyNames(Object.prototype).sort()).toEqual(prototypeKeys);
  if (code < 400) return;
  if (code === 500) expect(text).toMatch(upstreamOddities);
  // Without a node agent, what would be streamed is not implemented.
  else if (code > 500) expect(code, text).toBe(501);
  expect(json, text).toMatchObject({ kind: "Status", apiVersion: "v1", status: "Failure", code });
  expect(typeof json.message).toBe("string");
}
