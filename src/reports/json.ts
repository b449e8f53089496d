import type { VerifyResult } from "../decide/verify/verifyResult.ts";

/** The complete result, as `-o json` prints it. */
export function jsonReport(result: VerifyResult): string {
  return `${JSON.stringify(result, undefined, 2)}\n`;
}
