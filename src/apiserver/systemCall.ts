import type { UserInfo } from "./strategy.ts";
import type { Call } from "./verbs/core.ts";

/** The server itself, when it writes: bootstrap objects, and what its own controllers do. */
export const systemUser: UserInfo = {
  username: "system:apiserver",
  groups: ["system:masters", "system:authenticated"],
};

export function systemCall(fieldManager: string): Call {
  return { user: systemUser, dryRun: false, fieldManager, fieldValidation: "Ignore", warn: () => {} };
}
