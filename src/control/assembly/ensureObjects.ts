import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { splitApiVersion } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, succeeded } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { firstRevision } from "../../model/revision.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, ObjectRef } from "../../ports/kubeApi.ts";
import type { Component } from "../runtime/component.ts";
import { Writer } from "../runtime/writer.ts";
import { isOthers } from "./isOthers.ts";

type NewDefinition = NewObject<CustomResourceDefinition>;

const definitionsRef = builtin.CustomResourceDefinition;

/** Resources of the start objects whose kinds no component defines. */
const pluralsOfEveryCluster: Readonly<Record<string, string>> = {
  Namespace: "namespaces",
  PriorityClass: "priorityclasses",
  Role: "roles",
  RoleBinding: "rolebindings",
  ServiceAccount: "serviceaccounts",
};

/** How long a server may take to serve a kind that was just defined. */
const servedWithinMs = 30_000;
const lookEveryMs = 20;
const attemptsMax = 5;

/** The definitions of these components that the cluster lacks or that differ, by name. */
export async function missingDefinitions(kube: KubeApi, components: readonly Component[]): Promise<Outcome<string[]>> {
  const missing: string[] = [];
  for (const definition of definitionsOf(components)) {
    const found = await kube.get(definitionNamed(definition));
    if (!found.ok && found.reason !== "NotFound") return found;
    if (!found.ok) missing.push(definition.metadata.name);
  }
  return { ok: true, value: missing };
}

export interface EnsuredDefinitions {
  /** Definitions that differ and belong to another program: they are used as they are. */
  readonly left: readonly string[];
}

/**
 * Installs the CustomResourceDefinitions of these components: creates missing ones, updates older ones, and waits until
 * all are served. Every write is first sent as a dry run: a refusal ends the installation before anything was written.
 */
export async function ensureDefinitions(
  ports: { readonly kube: KubeApi; readonly clock: Clock },
  components: readonly Component[],
): Promise<Outcome<EnsuredDefinitions>> {
  const { kube } = ports;
  const definitions = definitionsOf(components);
  const lacking: NewDefinition[] = [];
  const left: string[] = [];
  for (const definition of definitions) {
    const outcome = await ensureDefinition(kube, definition, { dryRun: true });
    if (!outcome.ok) return about(outcome, "no definition was written");
    if (outcome.value === "written") lacking.push(definition);
    if (outcome.value === "left") left.push(definition.metadata.name);
  }
  const written: string[] = [];
  for (const definition of lacking) {
    const outcome = await ensureDefinition(kube, definition);
    if (!outcome.ok) return about(outcome, `written before that: ${written.join(", ") || "nothing"}`);
    written.push(definition.metadata.name);
  }
  for (const definition of definitions) {
    const outcome = await untilServed(ports, definition);
    if (!outcome.ok) return outcome;
  }
  return succeeded({ left });
}

function about(refusal: Refusal, state: string): Refusal {
  return { ...refusal, message: `${refusal.message}; ${state}` };
}

/** Creates the start objects of the components. Existing ones are left as they are. */
export async function ensureStartObjects(kube: KubeApi, components: readonly Component[]): Promise<Outcome<undefined>> {
  const plurals = new Map(definitionsOf(components).map(({ spec }) => [spec.names.kind, spec.names.plural]));
  for (const object of components.flatMap(({ startObjects = [] }) => startObjects)) {
    const plural = plurals.get(object.kind) ?? pluralsOfEveryCluster[object.kind];
    if (plural === undefined) throw new Error(`a component starts with a ${object.kind}, which no component defines`);
    const kind = { ...splitApiVersion(object.apiVersion), plural };
    const { namespace = "", name } = object.metadata;
    // A create calls the webhooks before it finds that the object exists, and those of Muster may not answer yet.
    const target = { ...kind, namespace, name };
    const found = await kube.get(target);
    if (found.ok) continue;
    if (found.reason !== "NotFound") return found;
    const why = "a component needs it at its start";
    const outcome = await new Writer(kube).apply({
      type: "create",
      target,
      absentAtRevision: firstRevision,
      object,
      why,
    });
    if (!outcome.ok && outcome.reason !== "AlreadyExists") return outcome;
  }
  return { ok: true, value: undefined };
}

function definitionsOf(components: readonly Component[]): NewDefinition[] {
  const byName = new Map(
    components.flatMap(({ definitions = [] }) => definitions).map((each) => [each.metadata.name, each]),
  );
  return [...byName.values()];
}

function definitionNamed({ metadata }: NewDefinition): ObjectRef<CustomResourceDefinition> {
  return { ...definitionsRef, namespace: "", name: metadata.name };
}

async function ensureDefinition(
  kube: KubeApi,
  definition: NewDefinition,
  options: { readonly dryRun?: boolean } = {},
): Promise<Outcome<"written" | "equal" | "left">> {
  const ref = definitionNamed(definition);
  for (let attempt = 1; ; attempt++) {
    const found = await kube.get(ref);
    if (!found.ok && found.reason !== "NotFound") return found;
    const spec = { ...(found.ok ? found.value.spec : {}), ...(definition.spec as CustomResourceDefinition["spec"]) };
    if (found.ok && equalFields(found.value.spec, spec)) return succeeded("equal");
    if (found.ok && isOthers(found.value)) return succeeded("left");
    const why = "a component uses this kind";
    const written = await new Writer(kube).apply(
      found.ok
        ? { type: "update", target: ref, expected: expectedOf(found.value), object: { ...found.value, spec }, why }
        : { type: "create", target: ref, absentAtRevision: firstRevision, object: definition, why },
      options,
    );
    if (written.ok) return succeeded("written");
    // Another process of this installation may have been first.
    const isRace = written.reason === "Conflict" || written.reason === "AlreadyExists";
    if (!isRace || attempt === attemptsMax) return written;
  }
}

async function untilServed(
  { kube, clock }: { readonly kube: KubeApi; readonly clock: Clock },
  definition: NewDefinition,
): Promise<Outcome<undefined>> {
  const lastMs = clock.nowMs() + servedWithinMs;
  const { group, names, versions } = definition.spec;
  const version = versions.find(({ served }) => served)?.name ?? "";
  for (;;) {
    const found = await kube.list({ group, version, plural: names.plural }, { limit: 1 });
    if (found.ok) return { ok: true, value: undefined };
    if (found.reason !== "NotFound" || clock.nowMs() >= lastMs) return found;
    await new Promise<void>((resolve) => clock.after(lookEveryMs, resolve));
  }
}
