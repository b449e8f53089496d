import type { NewObject } from "../../model/intent.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, succeeded } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { installKinds, nameOf, refOf, resourceOf } from "./installKinds.ts";
import { partOf } from "./installObjects.ts";

/** The result of an installation: names of objects. */
export interface Installed {
  readonly created: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  /** Objects that belong to another program and were not changed. */
  readonly left: readonly string[];
  /** Objects of an earlier installation that the current settings do not include. */
  readonly removed: readonly string[];
}

const fieldManager = "muster-install";
const managedBy = "app.kubernetes.io/managed-by";

/** Kinds that may belong to another program; the controllers work with them unchanged. */
const shareable: ReadonlySet<string> = new Set([
  "CustomResourceDefinition",
  "PriorityClass",
  "Namespace",
  "ServiceAccount",
]);

/**
 * Applies all objects or none: every write is first sent as a dry run, and when a later one is rejected anyway, created
 * objects are deleted and changed ones restored.
 */
export async function applyInstallation(kube: KubeApi, objects: readonly NewObject[]): Promise<Installed> {
  const before = await lookAt(kube, objects);
  const ours = objects.filter((object) => !isLeft(before.get(object)));
  for (const object of ours) mustBeOurs(object, before.get(object));
  for (const object of ours) {
    const tried = await apply(kube, object, true);
    // Objects in a namespace that does not exist yet cannot be sent as a dry run.
    if (tried.ok || tried.reason === "NotFound") continue;
    mustSucceed(tried, `nothing was installed: ${nameOf(object)} would be rejected`);
  }
  const created: string[] = [];
  const changed: string[] = [];
  const unchanged: string[] = [];
  const done: Done[] = [];
  for (const object of ours) {
    const written = await apply(kube, object, false);
    const earlier = before.get(object);
    if (!written.ok) throw await undone(kube, object, written, done);
    done.push({ earlier, now: written.value });
    const name = nameOf(object);
    if (earlier === undefined) created.push(name);
    else if (earlier.metadata.resourceVersion === written.value.metadata.resourceVersion) unchanged.push(name);
    else changed.push(name);
  }
  const left = objects.filter((object) => isLeft(before.get(object))).map(nameOf);
  return { created, changed, unchanged, left, removed: await prune(kube, objects) };
}

interface Done {
  readonly earlier: KubeObject | undefined;
  readonly now: KubeObject;
}

async function lookAt(
  kube: KubeApi,
  objects: readonly NewObject[],
): Promise<ReadonlyMap<NewObject, KubeObject | undefined>> {
  const found = new Map<NewObject, KubeObject | undefined>();
  for (const object of objects) {
    const outcome = await kube.get(refOf(object));
    if (!outcome.ok && outcome.reason !== "NotFound") mustSucceed(outcome, "nothing was installed");
    if (outcome.ok && outcome.value.metadata.deletionTimestamp !== undefined) {
      const problem = `${nameOf(object)} is being deleted; nothing was installed`;
      const cure = "wait until it is deleted; if it stays, check its finalizers and its remaining objects";
      throw new UserError("install-terminating", problem, cure);
    }
    found.set(object, outcome.ok ? outcome.value : undefined);
  }
  return found;
}

function isLabelled({ metadata }: KubeObject): boolean {
  return Object.entries(partOf).every(([name, value]) => metadata.labels?.[name] === value);
}

function isLeft(earlier: KubeObject | undefined): boolean {
  if (earlier === undefined || !shareable.has(earlier.kind)) return false;
  // Helm keeps CRDs when it uninstalls a release.
  const isKept = earlier.kind === "CustomResourceDefinition" && isHelms(earlier);
  return isKept || !isLabelled(earlier);
}

function isHelms({ metadata }: KubeObject): boolean {
  return metadata.labels?.[managedBy] === "Helm";
}

function mustBeOurs(object: NewObject, earlier: KubeObject | undefined): void {
  if (earlier === undefined) return;
  if (isHelms(earlier)) {
    const problem = `${nameOf(object)} belongs to a Helm release; nothing was installed`;
    throw new UserError(
      "install-by-helm",
      problem,
      "change it with `helm upgrade`, or remove it with `helm uninstall` first",
    );
  }
  if (isLabelled(earlier)) return;
  const problem = `${nameOf(object)} exists and was not created by \`muster install\`; nothing was installed`;
  throw new UserError("install-foreign", problem, "remove it, or choose another namespace with --namespace");
}

function apply(kube: KubeApi, object: NewObject, dryRun: boolean): Promise<Outcome<KubeObject>> {
  const patch = { type: "apply", body: object, force: true } as const;
  return kube.patch(refOf(object), patch, { fieldManager, dryRun });
}

/** Rolls back in reverse order, and reports what could not be rolled back. */
async function undone(kube: KubeApi, object: NewObject, why: Refusal, done: readonly Done[]): Promise<UserError> {
  const stuck: string[] = [];
  for (const { earlier, now } of [...done].reverse()) {
    const outcome = earlier === undefined ? await remove(kube, now) : await putBack(kube, earlier, now);
    if (!outcome.ok) stuck.push(`${nameOf(now)} (${outcome.message})`);
  }
  const state =
    stuck.length === 0 ? "all earlier changes were rolled back" : `these could not be rolled back: ${stuck.join(", ")}`;
  const problem = `${nameOf(object)} was rejected: ${why.message}; ${state}`;
  return new UserError(
    "install-refused",
    problem,
    "fix the problem that the message names, and run `muster install` again",
  );
}

async function remove(kube: KubeApi, object: KubeObject): Promise<Outcome<unknown>> {
  const outcome = await kube.delete(refOf(object), { preconditions: { uid: object.metadata.uid } });
  return !outcome.ok && outcome.reason === "NotFound" ? succeeded(undefined) : outcome;
}

async function putBack(kube: KubeApi, earlier: KubeObject, now: KubeObject): Promise<Outcome<unknown>> {
  if (earlier.metadata.resourceVersion === now.metadata.resourceVersion) return succeeded(undefined);
  const { resourceVersion } = now.metadata;
  return kube.update(refOf(now), { ...earlier, metadata: { ...earlier.metadata, resourceVersion } });
}

/** Deletes objects that an earlier `muster install` created and this one does not include. */
async function prune(kube: KubeApi, objects: readonly NewObject[]): Promise<string[]> {
  const wanted = new Set(objects.map(nameOf));
  const labelSelector = `${Object.entries(partOf).map(([name, value]) => `${name}=${value}`)},${managedBy}=muster`;
  const removed: string[] = [];
  for (const each of installKinds) {
    if (each.kind === "Namespace" || each.kind === "CustomResourceDefinition") continue;
    const found = await kube.list(resourceOf(each), { labelSelector });
    if (!found.ok) continue;
    for (const object of found.value.items) {
      const named = { ...object, kind: each.kind };
      if (wanted.has(nameOf(named)) || !isInstalled(object)) continue;
      if ((await remove(kube, named)).ok) removed.push(nameOf(named));
    }
  }
  return removed;
}

/** False for objects that a running process created, such as webhook configurations. */
function isInstalled({ metadata }: KubeObject): boolean {
  const { managedFields = [] } = metadata as { managedFields?: readonly { readonly manager?: string }[] };
  return managedFields.some(({ manager }) => equalFields(manager, fieldManager));
}
