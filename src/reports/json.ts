import type { VerifyResult } from "../decide/verify/verifyResult.ts";

/** The whole result: what `-o json` prints and what a program should read. */
export function jsonReport(result: VerifyResult): string {
  return `${JSON.stringify(result, undefined, 2)}\n`;
}
