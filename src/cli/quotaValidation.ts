import type { Part } from "../control/part.ts";
import { schedulingHooks } from "../model/scheduling/hooks.ts";

/** The same parts, with queues whose quotas are held against those of their parents and children if that is switched on. */
export function withQuotaValidation(parts: readonly Part[], isOn: boolean | undefined): Part[] {
  const hooks = schedulingHooks({ checksQuotas: true });
  return parts.map((part) => (part.name === "scheduler" && isOn === true ? { ...part, hooks } : part));
}
