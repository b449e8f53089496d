import type { UserInfo } from "./strategy.ts";
import type { Call } from "./verbs/core.ts";

/** The user of the server's own writes: bootstrap objects, and those of its controllers. */
export const systemUser: UserInfo = {
  username: "system:apiserver",
  groups: ["system:masters", "system:authenticated"],
};

export function systemCall(fieldManager: string): Call {
  return { user: systemUser, dryRun: false, fieldManager, fieldValidation: "Ignore", warn: () => {} };
}
