import { Buffer } from "node:buffer";
import type { CelValue } from "../../cel/values.ts";
import type {
  EndpointSlice,
  MutatingWebhook,
  MutatingWebhookConfiguration,
  NamedRuleWithOperations,
  Service,
  ValidatingWebhook,
  ValidatingWebhookConfiguration,
} from "../../model/kubernetes.generated.ts";
import { equalJson, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, forbiddenError, internalError } from "../../model/objects/status.ts";
import { jsonPatch } from "../patch/jsonPatch.ts";
import type { Core } from "../verbs/core.ts";
import { newUid } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";
import { admissionRequest, attributesIn, convert, requestForExpressions } from "./admissionRequest.ts";
import type { WebhookAddress, WebhookCaller } from "./callWebhook.ts";
import { type Condition, compileConditions, meetsConditions } from "./expressions.ts";
import { type Matched, type Matcher, MatchIndex } from "./matchIndex.ts";
import { type Selectors, selectorsOf, selectsRequest } from "./selectRequest.ts";
import { type ServiceState, serviceAddress } from "./serviceAddress.ts";
import { readAnswer, type WebhookAnswer } from "./webhookAnswer.ts";

const mutatingKey = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
const validatingKey = "admissionregistration.k8s.io/validatingwebhookconfigurations";
const slicesKey = "discovery.k8s.io/endpointslices";
const conditionVariables = ["object", "oldObject", "request"];
const warningCharsMax = 256;
const warningsCharsMax = 4096;

/** Addresses of Services, by `namespace/name:port`, which take precedence over their endpoints. */
export type ServiceAddresses = Readonly<Record<string, string>>;

/** One webhook of a configuration, compiled. */
interface Hook extends Matcher {
  readonly name: string;
  readonly mutates: boolean;
  readonly selectors: Selectors;
  readonly conditions: readonly Condition[];
  readonly ignoresFailure: boolean;
  readonly hasSideEffects: boolean;
  readonly timeoutSeconds: number;
  readonly reinvokes: boolean;
  readonly address: WebhookAddress | ServiceTarget | { readonly problem: string };
}

/** A webhook behind a Service, which is resolved at each call. */
interface ServiceTarget {
  readonly service: { readonly namespace: string; readonly name: string; readonly port: number };
  readonly path: string;
  readonly authority: string | undefined;
}

/** Calls the webhooks of the webhook configurations. */
export class Webhooks {
  private readonly core: Core;
  private readonly caller: WebhookCaller;
  private readonly services: ServiceAddresses;
  private readonly mutating: MatchIndex<Hook>;
  private readonly validating: MatchIndex<Hook>;

  constructor(core: Core, caller: WebhookCaller, services: ServiceAddresses) {
    this.core = core;
    this.caller = caller;
    this.services = services;
    this.mutating = new MatchIndex(core.registry);
    this.validating = new MatchIndex(core.registry);
    this.reload(mutatingKey);
    this.reload(validatingKey);
    core.store.onEvent(({ current }) => {
      if (current.resource === mutatingKey || current.resource === validatingKey) this.reload(current.resource);
    });
  }

  /** Whether a mutating webhook may match such a request; its selectors and conditions are left for `mutate`. */
  mutates(attributes: AdmissionAttributes): boolean {
    return this.mutating.find(attributes).length > 0;
  }

  mutate(attributes: AdmissionAttributes): Promise<KubeObject> | undefined {
    const hooks = this.mutating.find(attributes);
    if (hooks.length === 0 || !hooks.some((hook) => this.wants(hook, attributes))) return undefined;
    return this.mutateBy(hooks, attributes);
  }

  validate(attributes: AdmissionAttributes): Promise<void> | undefined {
    // A deletion or a connection is not mutated, but mutating webhooks may reject it, before the validating ones.
    const isChange = attributes.operation === "CREATE" || attributes.operation === "UPDATE";
    const first = isChange ? [] : this.mutating.find(attributes);
    const hooks = this.validating.find(attributes);
    if (first.length + hooks.length === 0) return undefined;
    const asked = hooks.filter((hook) => this.wants(hook, attributes));
    const askedFirst = first.filter((hook) => this.wants(hook, attributes));
    if (asked.length + askedFirst.length === 0) return undefined;
    return this.validateBy(askedFirst, asked, attributes);
  }

  private async mutateBy(hooks: readonly Matched<Hook>[], attributes: AdmissionAttributes): Promise<KubeObject> {
    let object = attributes.object as KubeObject;
    const invoked: Matched<Hook>[] = [];
    const again = new Set<Matched<Hook>>();
    for (const hook of hooks) {
      const now = { ...attributes, object };
      if (!this.wants(hook, now)) continue;
      const changed = await this.ask(hook, now);
      if (changed !== undefined) {
        object = changed;
        for (const earlier of invoked) if (earlier.entry.reinvokes) again.add(earlier);
      }
      invoked.push(hook);
    }
    // Webhooks with reinvocationPolicy IfNeeded are called once more when a later webhook changed the object; none is
    // called a third time.
    for (const hook of hooks) {
      const now = { ...attributes, object };
      if (again.has(hook) && this.wants(hook, now)) object = (await this.ask(hook, now)) ?? object;
    }
    return object;
  }

  private async validateBy(
    first: readonly Matched<Hook>[],
    hooks: readonly Matched<Hook>[],
    attributes: AdmissionAttributes,
  ): Promise<void> {
    for (const hook of first) await this.ask(hook, attributes);
    const outcomes = await Promise.allSettled(hooks.map((hook) => this.ask(hook, attributes)));
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  private wants({ entry, resource }: Matched<Hook>, attributes: AdmissionAttributes): boolean {
    if (!selectsRequest(this.core, entry.selectors, attributes)) return false;
    if (entry.conditions.length === 0) return true;
    const shown = attributesIn(this.core, attributes, resource);
    const { matches, problem } = meetsConditions(entry.conditions, {
      object: (shown.object ?? null) as CelValue,
      oldObject: (shown.oldObject ?? null) as CelValue,
      request: requestForExpressions(attributes, resource) as CelValue,
    });
    if (problem === undefined || entry.ignoresFailure) return matches;
    const { group, plural } = attributes.type;
    throw forbiddenError({ group, resource: plural }, attributes.name, problem);
  }

  /** Calls one webhook. Returns the changed object in the version of the request, or undefined when it is unchanged. */
  private async ask(
    { entry, resource }: Matched<Hook>,
    attributes: AdmissionAttributes,
  ): Promise<KubeObject | undefined> {
    if (attributes.dryRun && entry.hasSideEffects) {
      throw badRequest(`admission webhook ${JSON.stringify(entry.name)} does not support dry run`);
    }
    let answer: WebhookAnswer;
    let changed: KubeObject | undefined;
    try {
      const shown = attributesIn(this.core, attributes, resource);
      answer = await this.call(entry, attributes, shown, resource);
      if (answer.kind === "allowed" && answer.patch !== undefined && shown.object !== undefined) {
        const patched = jsonPatch(shown.object as JsonObject, answer.patch) as KubeObject;
        refuseNewIdentity(shown.object, patched);
        if (!equalJson(patched, shown.object)) {
          const own = this.core.registry.find(attributes.type.group, attributes.type.version, attributes.type.plural);
          changed = own === undefined ? patched : convert(this.core, patched, resource.type, own);
        }
      }
    } catch (error) {
      if (entry.ignoresFailure) return undefined;
      const why = error instanceof Error ? error.message : String(error);
      throw internalError(`failed calling webhook ${JSON.stringify(entry.name)}: ${why}`);
    }
    forward(answer.warnings, attributes);
    if (answer.kind === "denied") throw answer.error;
    return changed;
  }

  private async call(
    hook: Hook,
    attributes: AdmissionAttributes,
    shown: AdmissionAttributes,
    resource: Matched<Hook>["resource"],
  ): Promise<WebhookAnswer> {
    if ("problem" in hook.address) throw new Error(`failed to call webhook: ${hook.address.problem}`);
    const address = "service" in hook.address ? this.resolve(hook.address) : hook.address;
    const uid = newUid(this.core.random);
    const review = {
      kind: "AdmissionReview",
      apiVersion: "admission.k8s.io/v1",
      request: admissionRequest(uid, attributes, shown, resource),
    };
    let text: string;
    try {
      text = await this.caller.post(address, JSON.stringify(review), hook.timeoutSeconds * 1000, hook.name);
    } catch (error) {
      throw new Error(`failed to call webhook: ${error instanceof Error ? error.message : String(error)}`);
    }
    return readAnswer(text, { uid, webhook: hook.name, mayPatch: hook.mutates });
  }

  private reload(key: string): void {
    const hooks: Hook[] = [];
    // Collections are sorted by name, which is the order in which configurations apply.
    for (const version of this.core.store.collection(key).all()) {
      const { webhooks } = version.object() as MutatingWebhookConfiguration & ValidatingWebhookConfiguration;
      for (const webhook of webhooks ?? []) hooks.push(this.readHook(webhook, key === mutatingKey));
    }
    (key === mutatingKey ? this.mutating : this.validating).set(hooks);
  }

  /** A webhook that cannot be compiled fails the requests that it may match, and leaves the other webhooks alone. */
  private readHook(webhook: ValidatingWebhook & Partial<MutatingWebhook>, mutates: boolean): Hook {
    try {
      return this.hookOf(webhook, mutates);
    } catch (error) {
      const { matchConditions: _, namespaceSelector: __, objectSelector: ___, ...readable } = webhook;
      const problem = `its configuration cannot be read: ${error instanceof Error ? error.message : String(error)}`;
      return { ...this.hookOf(readable, mutates), address: { problem } };
    }
  }

  private hookOf(webhook: ValidatingWebhook & Partial<MutatingWebhook>, mutates: boolean): Hook {
    const timeoutSeconds = webhook.timeoutSeconds ?? 10;
    return {
      name: webhook.name,
      mutates,
      rules: (webhook.rules ?? []) as NamedRuleWithOperations[],
      excludes: [],
      matchPolicy: webhook.matchPolicy ?? "Equivalent",
      selectors: selectorsOf(webhook),
      conditions: compileConditions(webhook.matchConditions, conditionVariables),
      ignoresFailure: webhook.failurePolicy === "Ignore",
      hasSideEffects: webhook.sideEffects !== "None" && webhook.sideEffects !== "NoneOnDryRun",
      timeoutSeconds,
      reinvokes: webhook.reinvocationPolicy === "IfNeeded",
      address: this.addressOf(webhook.clientConfig, timeoutSeconds),
    };
  }

  private addressOf(config: ValidatingWebhook["clientConfig"], timeoutSeconds: number): Hook["address"] {
    const authority =
      config.caBundle === undefined || config.caBundle === ""
        ? undefined
        : Buffer.from(config.caBundle, "base64").toString("utf8");
    const query = `timeout=${timeoutSeconds}s`;
    if (config.url !== undefined) {
      return { url: `${config.url}${config.url.includes("?") ? "&" : "?"}${query}`, authority, serverName: undefined };
    }
    const { service } = config;
    if (service === undefined) return { problem: "clientConfig names neither a URL nor a service" };
    const { namespace, name, port = 443 } = service;
    return {
      service: { namespace, name, port },
      path: `${(service.path ?? "").replace(/^\/*/, "/")}?${query}`,
      authority,
    };
  }

  private resolve({ service, path, authority }: ServiceTarget): WebhookAddress {
    const { namespace, name, port } = service;
    const serverName = `${name}.${namespace}.svc`;
    const base = this.services[`${namespace}/${name}:${port}`];
    if (base !== undefined) return { url: `${base.replace(/\/+$/, "")}${path}`, authority, serverName };
    try {
      const { random } = this.core;
      const address = serviceAddress(name, port, this.stateOf(namespace, name), (count) => random.uint32() % count);
      return { url: `https://${address}${path}`, authority, serverName };
    } catch (error) {
      const url = JSON.stringify(`https://${serverName}:${port}${path}`);
      throw new Error(`failed to call webhook: Post ${url}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private stateOf(namespace: string, name: string): ServiceState {
    const { store } = this.core;
    const service = store.get("/services", namespace, name)?.object() as Service | undefined;
    const slices: EndpointSlice[] = [];
    for (const version of store.collection(slicesKey).at(store.revision, namespace)) {
      const slice = version.object() as EndpointSlice;
      if (slice.metadata.labels?.["kubernetes.io/service-name"] === name) slices.push(slice);
    }
    return { service, slices };
  }
}

/** A webhook may not change the identity of an object. */
function refuseNewIdentity(before: KubeObject, after: KubeObject): void {
  const meta = (after.metadata ?? {}) as Partial<KubeObject["metadata"]>;
  for (const field of ["apiVersion", "kind"] as const) {
    if (after[field] !== before[field]) throw new Error(`the patch changes ${field}, which is immutable`);
  }
  for (const field of ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] as const) {
    if (meta[field] !== before.metadata[field])
      throw new Error(`the patch changes metadata.${field}, which is immutable`);
  }
}

function forward(warnings: readonly string[], attributes: AdmissionAttributes): void {
  let room = warningsCharsMax;
  for (const warning of warnings) {
    const text = warning.slice(0, Math.min(warningCharsMax, room));
    if (text === "") return;
    room -= text.length;
    attributes.warn(text);
  }
}
