import type { Admission } from "../admission.ts";
import type { Core } from "../verbs/core.ts";
import { type ObserveCall, WebhookCaller } from "./callWebhook.ts";
import { Policies } from "./policies.ts";
import { checkQuota } from "./quota/checkQuota.ts";
import { quotaLedgerOf } from "./quota/quotaLedger.ts";
import { type ServiceAddresses, Webhooks } from "./webhooks.ts";

export interface AdmissionOptions {
  /** `{"ns/name:port": "https://127.0.0.1:8443"}`: where webhooks that name a service are found. */
  readonly services?: ServiceAddresses;
  readonly observe?: ObserveCall;
}

/**
 * Everything that users configure to stand in the way of a write: webhooks, policies, quota. With nothing configured a
 * write passes through in one turn of the event loop.
 */
export function createAdmission(options: AdmissionOptions = {}): (core: () => Core) => Admission {
  return (lazyCore) => {
    let parts: { core: Core; caller: WebhookCaller; webhooks: Webhooks; policies: Policies } | undefined;
    // The core holds the admission and the admission the core: it is there by the time of the first write.
    const ready = (): NonNullable<typeof parts> => {
      if (parts !== undefined) return parts;
      const core = lazyCore();
      const caller = new WebhookCaller(core.clock, options.observe);
      const webhooks = new Webhooks(core, caller, options.services ?? {});
      parts = { core, caller, webhooks, policies: new Policies(core) };
      return parts;
    };
    return {
      mutate: (attributes) => ready().webhooks.mutate(attributes),
      validate(attributes) {
        const { policies, webhooks } = ready();
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
