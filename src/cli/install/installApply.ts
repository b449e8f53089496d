import type { NewObject } from "../../model/intent.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, succeeded } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { installKinds, nameOf, refOf, resourceOf } from "./installKinds.ts";
import { partOf } from "./installObjects.ts";

/** What an installation did, by the names of objects. */
export interface Installed {
  readonly created: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  /** They belong to another program, which has them as it needs them. */
  readonly left: readonly string[];
  /** Of an earlier installation with other settings. */
  readonly removed: readonly string[];
}

const fieldManager = "muster-install";
const managedBy = "app.kubernetes.io/managed-by";

/** Others may own these, and the controllers work with them as they are. */
const shareable: ReadonlySet<string> = new Set([
  "CustomResourceDefinition",
  "PriorityClass",
  "Namespace",
  "ServiceAccount",
]);

/**
 * Makes a cluster have these objects, all or none: the API server tries every write first, and when a later one is
 * refused all the same, what was made is removed and what was changed is put back.
 */
export async function applyInstallation(kube: KubeApi, objects: readonly NewObject[]): Promise<Installed> {
  const before = await lookAt(kube, objects);
  const ours = objects.filter((object) => !isLeft(before.get(object)));
  for (const object of ours) mustBeOurs(object, before.get(object));
  for (const object of ours) {
    const tried = await apply(kube, object, true);
    // What lies in a namespace that is yet to be made cannot be tried.
    if (tried.ok || tried.reason === "NotFound") continue;
    mustSucceed(tried, `nothing was installed, as ${nameOf(object)} would be refused`);
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
      const cure = "wait until it is gone; if it stays, look at its finalizers and at what is left inside";
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
  // Helm keeps definitions when it removes a release.
  const isKept = earlier.kind === "CustomResourceDefinition" && isHelms(earlier);
  return isKept || !isLabelled(earlier);
}

function isHelms({ metadata }: KubeObject): boolean {
  return metadata.labels?.[managedBy] === "Helm";
}

function mustBeOurs(object: NewObject, earlier: KubeObject | undefined): void {
  if (earlier === undefined) return;
  if (isHelms(earlier)) {
    const problem = `${nameOf(object)} belongs to a release of Helm; nothing was installed`;
    throw new UserError(
      "install-by-helm",
      problem,
      "change it with `helm upgrade`, or remove it with `helm uninstall` first",
    );
  }
  if (isLabelled(earlier)) return;
  const problem = `${nameOf(object)} exists and was not made by \`muster install\`; nothing was installed`;
  throw new UserError("install-foreign", problem, "remove it, or choose another namespace with --namespace");
}

function apply(kube: KubeApi, object: NewObject, dryRun: boolean): Promise<Outcome<KubeObject>> {
  const patch = { type: "apply", body: object, force: true } as const;
  return kube.patch(refOf(object), patch, { fieldManager, dryRun });
}

/** Goes back in the reverse order, and says what could not be taken back. */
async function undone(kube: KubeApi, object: NewObject, why: Refusal, done: readonly Done[]): Promise<UserError> {
  const stuck: string[] = [];
  for (const { earlier, now } of [...done].reverse()) {
    const outcome = earlier === undefined ? await remove(kube, now) : await putBack(kube, earlier, now);
    if (!outcome.ok) stuck.push(`${nameOf(now)} (${outcome.message})`);
  }
  const state = stuck.length === 0 ? "what was made before it was removed again" : `left behind: ${stuck.join(", ")}`;
  const problem = `${nameOf(object)} was refused: ${why.message}; ${state}`;
  return new UserError("install-refused", problem, "correct what the message names, and install again");
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

/** Removes what an earlier `muster install` made and this one does not want. */
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

/** Not what a running process made, such as a configuration of webhooks. */
function isInstalled({ metadata }: KubeObject): boolean {
  const { managedFields = [] } = metadata as { managedFields?: readonly { readonly manager?: string }[] };
  return managedFields.some(({ manager }) => equalFields(manager, fieldManager));
}
