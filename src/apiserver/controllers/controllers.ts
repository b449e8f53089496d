import type { Authorizer } from "../auth/access.ts";
import type { CertificateSigner } from "../auth/pki.ts";
import type { TokenIssuer } from "../auth/serviceAccountToken.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Core } from "../verbs/core.ts";
import { AccountTokens } from "./accountTokens.ts";
import { BootstrapTokenCleaner } from "./bootstrapTokenCleaner.ts";
import { BudgetController } from "./budgetController.ts";
import { CertificateController } from "./certificateController.ts";
import type { Controller, Place } from "./controller.ts";
import { DefinitionController } from "./definitionController.ts";
import { EventExpiry } from "./eventExpiry.ts";
import { GarbageCollector } from "./garbageCollector.ts";
import { NamespaceController } from "./namespaceController.ts";
import { NamespaceObjects } from "./namespaceObjects.ts";
import { QuotaController } from "./quotaController.ts";
import { RoleAggregation } from "./roleAggregation.ts";
import { type ServerAddress, ServerObjectsController } from "./serverObjectsController.ts";
import { VolumeProtection } from "./volumeProtection.ts";
import { Turns } from "./workQueue.ts";

export interface ControllerOptions {
  /** Leave out the controllers that belong to kube-controller-manager. */
  readonly isServerOnly?: boolean;
  /**
   * Delay of the garbage collector for a dependent whose owner was deleted, or that is new and whose owner does not
   * exist; none when left out.
   */
  readonly collectAfterMs?: (dependent: Place, isNew: boolean) => number;
  /** The CA certificate for `kube-root-ca.crt` of each namespace. */
  readonly authority?: string;
  /** Issues the tokens of service-account-token Secrets; without it they stay empty. */
  readonly tokens?: TokenIssuer;
  /** Approves and signs CertificateSigningRequests; without it they stay pending. */
  readonly certificates?: { readonly authorizer: Authorizer; readonly sign: CertificateSigner };
  /** Keeps the Service `kubernetes`; without it a deleted one is created at the next start. */
  readonly server?: ServerAddress;
  /** Called with the error of a failed reconcile, which is retried. */
  readonly log?: (what: string, error: unknown) => void;
}

export interface Controllers {
  stop(): void;
  /** Resolves when no work is left now. */
  idle(): Promise<void>;
}

/** Controllers that a kube-apiserver runs too. */
const serverControllers = [DefinitionController, EventExpiry, ServerObjectsController];

/** Starts the controllers of the API server itself. They run in this process, on the events of the store. */
export function startControllers(core: Core, options: ControllerOptions = {}): Controllers {
  const turns = new Turns(core.clock);
  const log = options.log ?? (() => {});
  const all: Controller[] = [
    new NamespaceController(core, turns, log),
    new GarbageCollector(core, turns, log, options.collectAfterMs),
    new NamespaceObjects(core, turns, options.authority ?? "", log),
    new DefinitionController(core, turns, log),
    new BudgetController(core, turns, log),
    new QuotaController(core, turns, log),
    new RoleAggregation(core, turns, log),
    new VolumeProtection(core, turns, log),
    new EventExpiry(core, turns, log),
    new BootstrapTokenCleaner(core, turns, log),
  ];
  const { tokens: issuer, authority = "" } = options;
  if (issuer !== undefined) all.push(new AccountTokens(core, turns, { issuer, authority }, log));
  const { certificates, server } = options;
  if (server !== undefined) all.push(new ServerObjectsController(core, turns, server, log));
  if (certificates !== undefined) all.push(new CertificateController(core, turns, certificates, log));
  const isServers = (each: Controller): boolean => serverControllers.some((type) => each instanceof type);
  const controllers = options.isServerOnly === true ? all.filter(isServers) : all;
  for (const controller of controllers) controller.start();
  const unsubscribe = core.store.onEvent((event: StoreEvent) => {
    for (const controller of controllers) {
      try {
        controller.observe(event);
      } catch (error) {
        // This runs inside a completed commit: an error here must not look like a failed write.
        log(`event ${event.revision} of ${event.current.resource} ${event.current.key}`, error);
      }
    }
  });
  return {
    stop() {
      unsubscribe();
      for (const controller of controllers) controller.stop?.();
      turns.stop();
    },
    idle: () => turns.idle(),
  };
}
