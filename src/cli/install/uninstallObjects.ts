import { finalizers as gangFinalizers, places } from "../../model/gang/keys.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { bindRequestFinalizer, bindRequestRef } from "../../model/scheduling/bindRequest.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import { UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { type InstallKind, installKinds, nameOf, refOf, resourceOf } from "./installKinds.ts";
import { installedComponents, installedDefinitions, partOf } from "./installObjects.ts";

export interface UninstallOptions {
  readonly namespace: string;
  /** The definitions as well, and with them every queue, gang and group. */
  readonly definitions: boolean;
  readonly dryRun: boolean;
  /** Told a line about each object when it is removed. */
  readonly tell: (line: string) => void;
}

export interface Uninstalled {
  readonly removed: readonly string[];
  readonly failed: readonly string[];
  /** What stays, and why. */
  readonly notes: readonly string[];
}

const pods: Resource = { group: "", version: "v1", plural: "pods" };
const gpuGroupLabel = "runai-gpu-group";
const processesGoneMs = 60_000;
const lookEveryMs = 500;
/** How long a Lease holds without being renewed. */
const leaseMs = 15_000;

/**
 * Removes an installation: first the webhooks, so that no write waits for a process that is going, then the processes,
 * then their finalizers, so that nothing waits for them for ever, then the rest. What cannot be removed is named at the
 * end, and does not stop the others.
 */
export async function removeInstallation(
  { kube, clock }: { readonly kube: KubeApi; readonly clock: Clock },
  options: UninstallOptions,
): Promise<Uninstalled> {
  const { namespace, definitions, dryRun, tell } = options;
  const removed: string[] = [];
  const failed: string[] = [];
  const notes: string[] = [];
  const found = new Map<string, KubeObject[]>();
  for (const kind of installKinds) found.set(kind.kind, await ours(kube, kind, namespace));
  const holdsGpus = await runningShares(kube);

  const remove = async (object: KubeObject): Promise<void> => {
    const name = nameOf(object);
    if (dryRun) {
      tell(`would remove ${name}`);
      removed.push(name);
      return;
    }
    const preconditions = { uid: object.metadata.uid };
    const outcome = await kube.delete(refOf(object), { preconditions, propagationPolicy: "Background" });
    if (!outcome.ok && outcome.reason !== "NotFound") {
      failed.push(`${name}: ${outcome.message}`);
      return;
    }
    tell(`removed ${name}`);
    removed.push(name);
  };

  for (const { kind } of installKinds) {
    for (const object of found.get(kind) ?? []) {
      if (kind === "CustomResourceDefinition") {
        if (definitions) await remove(object);
        continue;
      }
      if (kind === "Namespace" && object.metadata.name === reservationNamespace && holdsGpus > 0) {
        const why = `${holdsGpus} pods with shares of GPUs run, and its pods keep their GPUs from others`;
        notes.push(`Namespace ${reservationNamespace} stays: ${why}. Delete it when they are gone`);
        continue;
      }
      if (object.metadata.namespace === reservationNamespace && holdsGpus > 0) continue;
      await remove(object);
    }
    // From here on nothing acts any more.
    if (kind === "Deployment" && !dryRun) {
      if (!(await processesGone({ kube, clock }, namespace))) {
        failed.push(`pods of Deployment ${namespace}/muster are still there after ${processesGoneMs / 1000} s`);
      }
      const leader = await leaderElsewhere({ kube, clock }, namespace);
      if (leader !== undefined) notes.push(`${leader} runs outside of the Deployment and still leads: stop it`);
      await releaseAll(kube, { tell, failed });
    }
  }
  if (!definitions) {
    const kept = found.get("CustomResourceDefinition") ?? [];
    if (kept.length > 0) {
      notes.push(
        `${kept.length} definitions stay, and with them queues and gangs: \`muster uninstall --crds\` removes them`,
      );
    }
  }
  return { removed, failed, notes };
}

/** What an installation made, or a process with `--install`; a kind that the cluster lacks has none. */
async function ours(kube: KubeApi, kind: InstallKind, namespace: string): Promise<KubeObject[]> {
  const found = await kube.list(resourceOf(kind));
  if (!found.ok && (found.reason === "NotFound" || kind.isOptional === true)) return [];
  const { items } = mustSucceed(found, "nothing was removed");
  const objects = items.map((item) => ({ ...item, kind: kind.kind, apiVersion: kind.apiVersion }));
  const mine = objects.filter((object) => {
    return object.metadata.deletionTimestamp === undefined && isOurs(object) && isInScope(object, namespace);
  });
  for (const object of mine) mustNotBeHelms(object);
  return mine;
}

function isOurs(object: KubeObject): boolean {
  const labels = object.metadata.labels ?? {};
  if (labels["app.kubernetes.io/part-of"] === partOf["app.kubernetes.io/part-of"]) return true;
  if (labels["app.kubernetes.io/managed-by"] === "muster") return true;
  // Made by `muster run --install`, which labels nothing: by its name, and because a process of Muster wrote it.
  const { managedFields = [] } = object.metadata as { managedFields?: readonly { readonly manager?: string }[] };
  return startNames().has(nameOf(object)) && managedFields.some(({ manager = "" }) => /^muster(\/|$)/.test(manager));
}

function startNames(): ReadonlySet<string> {
  const made = installedComponents().flatMap(({ startObjects = [] }) => startObjects);
  return new Set([...installedDefinitions(), ...made].map(nameOf));
}

/** Gangs label their own objects, in any namespace, with the name of their set. */
function isInScope({ kind, metadata }: KubeObject, namespace: string): boolean {
  if (metadata.namespace !== undefined) return [namespace, reservationNamespace].includes(metadata.namespace);
  return kind !== "Namespace" || [namespace, reservationNamespace].includes(metadata.name);
}

function mustNotBeHelms(object: KubeObject): void {
  if (object.metadata.labels?.["app.kubernetes.io/managed-by"] !== "Helm") return;
  if (object.kind === "CustomResourceDefinition") return;
  const release = object.metadata.annotations?.["meta.helm.sh/release-name"] ?? "muster";
  const problem = `${nameOf(object)} belongs to the release ${release} of Helm; nothing was removed`;
  const cure = `\`helm uninstall ${release}\` first; then \`muster uninstall\` removes what Helm keeps`;
  throw new UserError("uninstall-by-helm", problem, cure);
}

async function runningShares(kube: KubeApi): Promise<number> {
  const found = await kube.list(pods, { labelSelector: gpuGroupLabel });
  const { items } = mustSucceed(found, "nothing was removed");
  return items.filter((pod) => {
    const { phase } = (pod["status"] ?? {}) as { phase?: string };
    return pod.metadata.namespace !== reservationNamespace && phase !== "Succeeded" && phase !== "Failed";
  }).length;
}

async function processesGone(
  { kube, clock }: { readonly kube: KubeApi; readonly clock: Clock },
  namespace: string,
): Promise<boolean> {
  const labelSelector = "app.kubernetes.io/name=muster,app.kubernetes.io/component=controllers";
  const untilMs = clock.monotonicMs() + processesGoneMs;
  for (;;) {
    const found = await kube.list(pods, { namespace, labelSelector });
    if (found.ok && found.value.items.length === 0) return true;
    if (clock.monotonicMs() >= untilMs) return false;
    await new Promise<void>((resolve) => clock.after(lookEveryMs, resolve));
  }
}

/** A process that ends gives its Lease back. */
async function leaderElsewhere(
  { kube, clock }: { readonly kube: KubeApi; readonly clock: Clock },
  namespace: string,
): Promise<string | undefined> {
  const found = await kube.get({ ...resourceOf({ kind: "Lease" }), namespace, name: "muster" });
  if (!found.ok) return undefined;
  const { holderIdentity = "", renewTime = "" } = (found.value["spec"] ?? {}) as Record<string, string | undefined>;
  const isFresh = clock.nowMs() - Date.parse(renewTime) < leaseMs;
  return holderIdentity !== "" && isFresh ? holderIdentity : undefined;
}

const released: readonly { readonly ref: Resource; readonly kind: string; readonly finalizer: string }[] = [
  ...(["PodCliqueSet", "PodCliqueScalingGroup", "PodClique"] as const).map((kind) => ({
    ref: places[kind],
    kind,
    finalizer: gangFinalizers[kind],
  })),
  { ref: bindRequestRef, kind: "BindRequest", finalizer: bindRequestFinalizer },
];

/** Takes our finalizers off, which no process would take off any more. Pods of gangs run on, and go with their set. */
async function releaseAll(
  kube: KubeApi,
  { tell, failed }: { readonly tell: (line: string) => void; readonly failed: string[] },
): Promise<void> {
  for (const { ref, kind, finalizer } of released) {
    const found = await kube.list(ref);
    if (!found.ok) continue;
    for (const { metadata } of found.value.items) {
      const { finalizers = [], namespace = "", name, uid } = metadata;
      if (!finalizers.includes(finalizer)) continue;
      const rest = finalizers.filter((each) => each !== finalizer);
      const body = { metadata: { uid, finalizers: rest.length === 0 ? null : rest } };
      const outcome = await kube.patch({ ...ref, namespace, name }, { type: "merge", body });
      if (outcome.ok || outcome.reason === "NotFound") tell(`released ${kind} ${namespace}/${name}`);
      else failed.push(`${kind} ${namespace}/${name} keeps its finalizer: ${outcome.message}`);
    }
  }
}
