import type { Clock } from "../ports/clock.ts";
import type { Memory } from "../ports/memory.ts";
import type { Random } from "../ports/random.ts";
import type { OpenReport, Store } from "../ports/store.ts";
import { type Admission, noAdmission } from "./admission/admission.ts";
import type { Authorizer } from "./auth/access.ts";
import { followRbac } from "./auth/followRbac.ts";
import { NodeAuthorizer } from "./auth/nodeAuthorizer.ts";
import type { CertificateSigner } from "./auth/pki.ts";
import { readRules } from "./auth/policyRule.ts";
import type { RbacAuthorizer } from "./auth/rbac.ts";
import { rbacStrategies } from "./auth/rbacStrategies.ts";
import type { TokenIssuer } from "./auth/serviceAccountToken.ts";
import { type BootstrapObject, bootstrapObjects } from "./bootstrap/bootstrapObjects.ts";
import { bootstrapUpdate } from "./bootstrap/bootstrapUpdate.ts";
import { nodeRules } from "./bootstrap/clusterRoles.ts";
import { builtinResource, type Conversion } from "./builtinResource.ts";
import { builtinResources, type ResourceType } from "./builtinResources.ts";
import { type Controllers, startControllers } from "./controllers/controllers.ts";
import { conversions } from "./conversions.ts";
import { definitionStrategy } from "./crd/definitionStrategy.ts";
import { followDefinitions } from "./crd/followDefinitions.ts";
import { crdResource } from "./crd/validateCrd.ts";
import { strategyFor } from "./kinds/strategies.ts";
import { Registry } from "./registry.ts";
import { sentByUs } from "./resource.ts";
import { indexedFields } from "./storage/indexedFields.ts";
import { ObjectStore, type Retention } from "./storage/objectStore.ts";
import { WatchHub } from "./storage/watchHub.ts";
import type { Strategy } from "./strategy.ts";
import { systemCall } from "./systemCall.ts";
import type { Core } from "./verbs/core.ts";
import { createObject } from "./verbs/create.ts";
import { replaceObject } from "./verbs/update.ts";

export interface ApiOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Nothing is added to the store while it is scarce. */
  readonly memory?: Memory;
  /** Where commits are stored; in memory when left out. */
  readonly log?: Store | undefined;
  readonly retention?: Partial<Retention>;
  readonly freeze?: boolean;
  readonly admission?: (core: () => Core, authorizer: () => Authorizer) => Admission;
  /** The CA certificate and the port, for the bootstrap objects. */
  readonly authority?: string;
  /** Signs CertificateSigningRequests; without it they stay unsigned. */
  readonly signRequest?: CertificateSigner;
  /** Issues service account tokens, for Secrets of type service-account-token. */
  readonly tokens?: TokenIssuer;
  /** The address and the port of the server, for the endpoints of the Service `kubernetes`. */
  readonly address?: string;
  readonly port?: number;
  /**
   * Which controllers run in this process: all (default); those that a kube-apiserver runs too, without the ones of
   * kube-controller-manager (garbage collection, namespaces, quota...); none.
   */
  readonly controllers?: "all" | "server" | "none";
  /** Admit pods without a look at their service account, as kube-apiserver without its plugin `ServiceAccount`. */
  readonly ignoresServiceAccounts?: boolean;
  /** Called with the duration of each sync of the log. */
  readonly onSync?: (seconds: number) => void;
  /** Called once when the log has failed; the server is read-only from then on. */
  readonly onStoreFailure?: (error: Error) => void;
  /** Called with internal errors of the server. */
  readonly onError?: (what: string, error: unknown) => void;
}

/** The API without a network: verbs, store and authorizer. The simulator uses it directly. */
export interface Api {
  readonly core: Core;
  readonly rbac: RbacAuthorizer;
  /** The node authorizer and RBAC. */
  readonly authorizer: Authorizer;
  readonly opened: OpenReport;
  readonly controllers: Controllers;
}

const noControllers: Controllers = { stop: () => {}, idle: () => Promise.resolve() };

/** Creates the API and replays its log. */
export async function createApi(options: ApiOptions): Promise<Api> {
  const { clock, random } = options;
  const store = new ObjectStore({
    log: options.log,
    clock,
    indexedFields,
    memory: options.memory,
    ...(options.retention === undefined ? {} : { retention: options.retention }),
    ...(options.freeze === undefined ? {} : { freeze: options.freeze }),
    ...(options.onSync === undefined ? {} : { onSync: options.onSync }),
    ...(options.onStoreFailure === undefined ? {} : { onFailure: options.onStoreFailure }),
    ...(options.onError === undefined ? {} : { onProblem: (error: unknown) => options.onError?.("the store", error) }),
  });
  const opened = await store.open();
  const hub = new WatchHub(store, clock, indexedFields);
  const registry = new Registry();
  const rbac = followRbac(store);
  registry.add(builtinResources().map((type) => builtinResource(type, strategyOf(type, rbac), conversionOf(type))));
  let core: Core | undefined;
  const lazyCore = (): Core => core as Core;
  const authorizer = new NodeAuthorizer(store, readRules(nodeRules), rbac);
  const admission = options.admission?.(lazyCore, () => authorizer) ?? noAdmission;
  const { memory } = options;
  const ignoresServiceAccounts = options.ignoresServiceAccounts === true;
  core = { store, hub, registry, clock, random, admission, ignoresServiceAccounts, ...(memory && { memory }) };
  followDefinitions(core, options.onError);
  const authority = options.authority ?? "";
  await ensureBootstrap(core, bootstrapObjects({ authority, address: options.address, port: options.port ?? 0 }));
  const log = options.onError === undefined ? {} : { log: options.onError };
  const tokens = options.tokens === undefined ? {} : { tokens: options.tokens };
  const sign = options.signRequest;
  const certificates = sign === undefined ? {} : { certificates: { authorizer, sign } };
  const { address, port } = options;
  const server = address === undefined || port === undefined ? {} : { server: { address, port } };
  const { controllers: which = "all" } = options;
  const controllers =
    which === "none"
      ? noControllers
      : startControllers(core, {
          authority,
          isServerOnly: which === "server",
          ...tokens,
          ...certificates,
          ...server,
          ...log,
        });
  return { core, rbac, authorizer, opened, controllers };
}

function strategyOf(type: ResourceType, rbac: RbacAuthorizer): Strategy {
  if (type.group === "rbac.authorization.k8s.io") {
    return rbacStrategies(rbac)[type.kind as keyof ReturnType<typeof rbacStrategies>];
  }
  return type.storageKey === crdResource ? definitionStrategy : strategyFor(type.storageKey);
}

function conversionOf(type: ResourceType): Conversion | undefined {
  return conversions[`${type.group}/${type.version}/${type.plural}`];
}

/** Creates missing bootstrap objects, and updates existing ones. */
async function ensureBootstrap(core: Core, objects: Iterable<BootstrapObject>): Promise<void> {
  const call = systemCall("kube-apiserver");
  for (const { resource: storageKey, object } of objects) {
    const { namespace = "", name } = object.metadata;
    const resource = core.registry.stored(storageKey);
    if (resource === undefined) throw new Error(`a bootstrap object has the unknown resource ${storageKey}`);
    const target = { resource, namespace, name, subresource: "" };
    const found = core.store.get(storageKey, namespace, name);
    if (found === undefined) {
      await createObject(core, target, sentByUs(object), call);
      continue;
    }
    const updated = bootstrapUpdate(found.object(), object);
    if (updated !== undefined) await replaceObject(core, target, sentByUs(updated), call);
  }
}
