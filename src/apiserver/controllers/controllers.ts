import type { TokenIssuer } from "../auth/serviceAccountToken.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Core } from "../verbs/core.ts";
import { AccountTokens } from "./accountTokens.ts";
import { BudgetController } from "./budgetController.ts";
import type { Controller, Place } from "./controller.ts";
import { DefinitionController } from "./definitionController.ts";
import { EventExpiry } from "./eventExpiry.ts";
import { GarbageCollector } from "./garbageCollector.ts";
import { NamespaceController } from "./namespaceController.ts";
import { NamespaceObjects } from "./namespaceObjects.ts";
import { QuotaController } from "./quotaController.ts";
import { RoleAggregation } from "./roleAggregation.ts";
import { VolumeProtection } from "./volumeProtection.ts";
import { Turns } from "./workQueue.ts";

export interface ControllerOptions {
  /**
   * How long a collector with much to do takes for a dependent whose owner has gone, or that is new and its owner is
   * not there; at once when left out.
   */
  readonly collectAfterMs?: (dependent: Place, isNew: boolean) => number;
  /** The authority's certificate, which every namespace gets. */
  readonly authority?: string;
  /** Makes the tokens that Secrets ask for; without it they stay empty. */
  readonly tokens?: TokenIssuer;
  /** Told of work that failed and will be tried again. */
  readonly log?: (what: string, error: unknown) => void;
}

export interface Controllers {
  stop(): void;
  /** Resolves when there is nothing left to do now. */
  idle(): Promise<void>;
}

/** Starts the loops that belong to the API itself. They run in this process, on the store's own feed. */
export function startControllers(core: Core, options: ControllerOptions = {}): Controllers {
  const turns = new Turns(core.clock);
  const log = options.log ?? (() => {});
  const controllers: Controller[] = [
    new NamespaceController(core, turns, log),
    new GarbageCollector(core, turns, log, options.collectAfterMs),
    new NamespaceObjects(core, turns, options.authority ?? "", log),
    new DefinitionController(core, turns, log),
    new BudgetController(core, turns, log),
    new QuotaController(core, turns, log),
    new RoleAggregation(core, turns, log),
    new VolumeProtection(core, turns, log),
    new EventExpiry(core, turns, log),
  ];
  const { tokens: issuer, authority = "" } = options;
  if (issuer !== undefined) controllers.push(new AccountTokens(core, turns, { issuer, authority }, log));
  for (const controller of controllers) controller.start();
  const unsubscribe = core.store.onEvent((event: StoreEvent) => {
    for (const controller of controllers) {
      try {
        controller.observe(event);
      } catch (error) {
        // We stand inside a commit that has happened: a mistake here must not look like a failed write.
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
