import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { Authorizer } from "../auth/access.ts";
import type { Core } from "../verbs/core.ts";
import type { Admission } from "./admission.ts";
import { type ObserveCall, WebhookCaller } from "./callWebhook.ts";
import { admitCertificate } from "./certificateAdmission.ts";
import { Hooks } from "./hooks.ts";
import { restrictNode } from "./nodeRestriction.ts";
import { admitPodSecurity } from "./podSecurity/podSecurity.ts";
import { Policies } from "./policies.ts";
import { checkQuota } from "./quota/checkQuota.ts";
import { quotaLedgerOf } from "./quota/quotaLedger.ts";
import { type ServiceAddresses, Webhooks } from "./webhooks.ts";

export interface AdmissionOptions {
  /** `{"ns/name:port": "https://127.0.0.1:8443"}`: addresses of webhooks that name a Service. */
  readonly services?: ServiceAddresses;
  readonly observe?: ObserveCall;
  /** Admission hooks that run in this process, before the webhooks. */
  readonly hooks?: readonly AdmissionHook[];
}

/**
 * Admission beyond the strategies: hooks of components, then webhooks, policies and quota, which users configure. A
 * write that nothing matches passes in one turn of the event loop.
 */
export function createAdmission(
  options: AdmissionOptions = {},
): (core: () => Core, authorizer?: () => Authorizer) => Admission {
  return (lazyCore, authorizer) => {
    let parts: { core: Core; caller: WebhookCaller; hooks: Hooks; webhooks: Webhooks; policies: Policies } | undefined;
    // Core and admission refer to each other: the core is set before the first write.
    const ready = (): NonNullable<typeof parts> => {
      if (parts !== undefined) return parts;
      const core = lazyCore();
      const caller = new WebhookCaller(core.clock, options.observe);
      const webhooks = new Webhooks(core, caller, options.services ?? {});
      parts = { core, caller, hooks: new Hooks(core, options.hooks ?? []), webhooks, policies: new Policies(core) };
      return parts;
    };
    return {
      mutate(attributes, shown) {
        const { core, hooks, webhooks } = ready();
        restrictNode(core, attributes);
        if (!hooks.mutates(attributes) && !webhooks.mutates(attributes)) return undefined;
        const asked = shown();
        const changed = hooks.mutate(asked);
        if (changed === undefined) return webhooks.mutate(asked);
        return webhooks.mutate({ ...asked, object: changed }) ?? Promise.resolve(changed);
      },
      validate(attributes) {
        const { core, hooks, policies, webhooks } = ready();
        // A deletion is not mutated, so mutating hooks see it here.
        if (attributes.operation === "DELETE") restrictNode(core, attributes);
        admitPodSecurity(core, attributes);
        if (authorizer !== undefined) admitCertificate(authorizer(), attributes);
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
