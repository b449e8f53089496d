import type { Component } from "../../control/component.ts";
import { schedulingHooks } from "../../model/scheduling/hooks.ts";

/** The same components, with queues whose quotas are held against those of their parents and children if that is switched on. */
export function withQuotaValidation(components: readonly Component[], isOn: boolean | undefined): Component[] {
  const hooks = schedulingHooks({ checksQuotas: true });
  return components.map((component) =>
    component.name === "scheduler" && isOn === true ? { ...component, hooks } : component,
  );
}
