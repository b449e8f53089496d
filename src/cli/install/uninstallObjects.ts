import { writtenByMuster } from "../../control/assembly/isOthers.ts";
import { finalizers as gangFinalizers, gangResources } from "../../model/gang/keys.ts";
import type { Lease } from "../../model/kubernetes.generated.ts";
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
  /** Deletes the CRDs as well, and with them every queue, gang and PodGroup. */
  readonly definitions: boolean;
  readonly dryRun: boolean;
  /** Called with a line for each object that is removed. */
  readonly tell: (line: string) => void;
}

export interface Uninstalled {
  readonly removed: readonly string[];
  readonly failed: readonly string[];
  /** Objects that are kept, with the reason. */
  readonly notes: readonly string[];
}

const pods: Resource = { group: "", version: "v1", plural: "pods" };
const gpuGroupLabel = "runai-gpu-group";
const processesGoneMs = 60_000;
const lookEveryMs = 500;

/**
 * Removes an installation: first the webhooks, so that no write waits for a terminating process, then the processes,
 * then their finalizers, so that no deletion blocks on them, then the rest. Objects that cannot be deleted are reported
 * at the end and do not stop the others.
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
        const why = `${holdsGpus} pods with GPU shares are running, and the pods in the namespace reserve their GPUs`;
        notes.push(`Namespace ${reservationNamespace} is kept: ${why}. Delete it after these pods have ended`);
        continue;
      }
      if (object.metadata.namespace === reservationNamespace && holdsGpus > 0) continue;
      await remove(object);
    }
    // From here on no controller is running.
    if (kind === "Deployment" && !dryRun) {
      if (!(await processesGone({ kube, clock }, namespace))) {
        failed.push(`pods of Deployment ${namespace}/muster still exist after ${processesGoneMs / 1000} s`);
      }
      const leader = await leaderElsewhere({ kube, clock }, namespace);
      if (leader !== undefined) notes.push(`${leader} runs outside the Deployment and is still the leader: stop it`);
      await releaseAll(kube, { tell, failed });
    }
  }
  if (!definitions) {
    const kept = found.get("CustomResourceDefinition") ?? [];
    if (kept.length > 0) {
      notes.push(
        `${kept.length} CRDs are kept, and with them queues and gangs: \`muster uninstall --crds\` removes them`,
      );
    }
  }
  return { removed, failed, notes };
}

/** The objects of a kind that `muster install` or `muster run --install` created; none if the kind is not served. */
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
  // `muster run --install` adds no labels: its objects are identified by name and field manager.
  return startNames().has(nameOf(object)) && writtenByMuster(object);
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

/** A process releases its Lease when it stops. */
async function leaderElsewhere(
  { kube, clock }: { readonly kube: KubeApi; readonly clock: Clock },
  namespace: string,
): Promise<string | undefined> {
  const found = await kube.get({ ...resourceOf({ kind: "Lease" }), namespace, name: "muster" });
  if (!found.ok) return undefined;
  const spec = (found.value["spec"] ?? {}) as NonNullable<Lease["spec"]>;
  const { holderIdentity = "", renewTime = "", leaseDurationSeconds = 0 } = spec;
  const isFresh = clock.nowMs() - Date.parse(renewTime) < leaseDurationSeconds * 1000;
  return holderIdentity !== "" && isFresh ? holderIdentity : undefined;
}

const released: readonly { readonly ref: Resource; readonly kind: string; readonly finalizer: string }[] = [
  ...(["PodCliqueSet", "PodCliqueScalingGroup", "PodClique"] as const).map((kind) => ({
    ref: gangResources[kind],
    kind,
    finalizer: gangFinalizers[kind],
  })),
  { ref: bindRequestRef, kind: "BindRequest", finalizer: bindRequestFinalizer },
];

/** Removes Muster's finalizers, as no process would do it any more. Pods of gangs run on until their set is deleted. */
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
      else failed.push(`${kind} ${namespace}/${name} still has its finalizer: ${outcome.message}`);
    }
  }
}
