import type {
  AdmissionHook,
  AdmissionLookup,
  AdmissionRequest,
  AdmissionVerdict,
  HookResource,
} from "../../model/objects/admissionHook.ts";
import { type FieldError, invalid, typeInvalid } from "../../model/objects/fieldError.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { failure, invalidObject } from "../../model/objects/status.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { DecodeError, decodeFields } from "../schema/decode.ts";
import type { Core } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";

const none: readonly never[] = [];

/**
 * Calls the admission hooks that run in this process: rules of control plane components for the writes of all clients.
 */
export class Hooks {
  private readonly byResource = new Map<string, AdmissionHook[]>();
  private readonly lookup: AdmissionLookup;

  constructor(core: Core, hooks: readonly AdmissionHook[]) {
    for (const hook of hooks) {
      const key = `${hook.resource.group}/${hook.resource.plural}`;
      const others = this.byResource.get(key);
      if (others === undefined) this.byResource.set(key, [hook]);
      else others.push(hook);
    }
    this.lookup = lookupIn(core);
  }

  /** Whether a mutating hook reviews such a request. */
  mutates(attributes: AdmissionAttributes): boolean {
    return this.matching("mutating", attributes).length > 0;
  }

  /** The mutated object, or undefined when no hook changed it. Throws a StatusError when one refuses. */
  mutate(attributes: AdmissionAttributes): KubeObject | undefined {
    let changed: KubeObject | undefined;
    for (const hook of this.matching("mutating", attributes)) {
      const verdict = this.ask(hook, changed === undefined ? attributes : { ...attributes, object: changed });
      if (verdict.object !== undefined) changed = verdict.object;
    }
    return changed;
  }

  /** Throws a StatusError when one refuses. */
  validate(attributes: AdmissionAttributes): void {
    // A deletion is not mutated, but a mutating hook may reject it.
    if (attributes.operation === "DELETE") {
      for (const hook of this.matching("mutating", attributes)) this.ask(hook, attributes);
    }
    for (const hook of this.matching("validating", attributes)) this.ask(hook, attributes);
  }

  private matching(type: AdmissionHook["type"], attributes: AdmissionAttributes): readonly AdmissionHook[] {
    const { operation, subresource } = attributes;
    const hooks = this.byResource.get(attributes.type.storageKey);
    if (hooks === undefined || operation === "CONNECT") return none;
    return hooks.filter(
      (hook) => hook.type === type && (hook.subresource ?? "") === subresource && hook.operations.includes(operation),
    );
  }

  private ask(hook: AdmissionHook, attributes: AdmissionAttributes): AdmissionVerdict & { allowed: true } {
    const { operation, namespace, name, object, oldObject, user, dryRun, requestUid: uid = "" } = attributes;
    const request = { uid, operation, namespace, name, object, oldObject, user, dryRun } as AdmissionRequest;
    const verdict = hook.review(request, this.lookup);
    if (verdict.allowed) {
      for (const warning of verdict.warnings ?? []) attributes.warn(warning);
      return verdict;
    }
    const { group, kind } = attributes.type;
    if (verdict.errors !== undefined) throw invalidObject({ group, kind }, name, verdict.errors);
    throw failure(
      403,
      "Forbidden",
      `admission webhook ${JSON.stringify(hook.name)} denied the request: ${verdict.message}`,
    );
  }
}

function lookupIn(core: Core): AdmissionLookup {
  return {
    get: <T extends KubeObject>({ group, plural }: HookResource<T>, namespace: string, name: string) =>
      core.store.get(`${group}/${plural}`, namespace, name)?.object() as T | undefined,
    list: <T extends KubeObject>({ group, plural }: HookResource<T>, namespace: string) => {
      const collection = core.store.collection(`${group}/${plural}`);
      return [...collection.at(core.store.revision, namespace)].map((version) => version.object() as T);
    },
    podSpecError,
  };
}

function podSpecError(podSpec: unknown, field: string): FieldError | undefined {
  try {
    decodeFields(schemaFor("io.k8s.api.core.v1.PodSpec"), podSpec, false);
    return undefined;
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    if (error.misfit === undefined) return invalid(field, "object", error.message);
    const { path, value, type } = error.misfit;
    return typeInvalid(path === "" ? field : `${field}.${path}`, value, `must be of type ${type}`);
  }
}
