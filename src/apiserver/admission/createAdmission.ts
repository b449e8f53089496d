import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { Admission } from "../admission.ts";
import type { Core } from "../verbs/core.ts";
import { type ObserveCall, WebhookCaller } from "./callWebhook.ts";
import { Hooks } from "./hooks.ts";
import { restrictNode } from "./nodeRestriction.ts";
import { admitPodSecurity } from "./podSecurity/podSecurity.ts";
import { Policies } from "./policies.ts";
import { checkQuota } from "./quota/checkQuota.ts";
import { quotaLedgerOf } from "./quota/quotaLedger.ts";
import { type ServiceAddresses, Webhooks } from "./webhooks.ts";

export interface AdmissionOptions {
  /** `{"ns/name:port": "https://127.0.0.1:8443"}`: where webhooks that name a service are found. */
  readonly services?: ServiceAddresses;
  readonly observe?: ObserveCall;
  /** Rules that run in this process, before the webhooks. */
  readonly hooks?: readonly AdmissionHook[];
}

/**
 * Everything that users configure to stand in the way of a write: webhooks, policies, quota. With nothing configured a
 * write passes through in one turn of the event loop.
 */
export function createAdmission(options: AdmissionOptions = {}): (core: () => Core) => Admission {
  return (lazyCore) => {
    let parts: { core: Core; caller: WebhookCaller; hooks: Hooks; webhooks: Webhooks; policies: Policies } | undefined;
    // The core holds the admission and the admission the core: it is there by the time of the first write.
    const ready = (): NonNullable<typeof parts> => {
      if (parts !== undefined) return parts;
      const core = lazyCore();
      const caller = new WebhookCaller(core.clock, options.observe);
      const webhooks = new Webhooks(core, caller, options.services ?? {});
      parts = { core, caller, hooks: new Hooks(core, options.hooks ?? []), webhooks, policies: new Policies(core) };
      return parts;
    };
    return {
      mutate(attributes) {
        const { core, hooks, webhooks } = ready();
        restrictNode(core, attributes);
        const changed = hooks.mutate(attributes);
        if (changed === undefined) return webhooks.mutate(attributes);
        return webhooks.mutate({ ...attributes, object: changed }) ?? Promise.resolve(changed);
      },
      validate(attributes) {
        const { core, hooks, policies, webhooks } = ready();
        // A deletion has nothing to change, so this is the only place where it passes.
        if (attributes.operation === "DELETE") restrictNode(core, attributes);
        admitPodSecurity(core, attributes);
        hooks.validate(attributes);
        policies.validate(attributes);
        return webhooks.validate(attributes);
      },
      commit(attributes) {
        const { core } = ready();
        checkQuota(core, quotaLedgerOf(core), attributes);
      },
      stop: () => parts?.caller.close(),
    };
  };
}
