import type { PersistentVolume, Pod } from "../../model/kubernetes.generated.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import type { Core } from "../verbs/core.ts";
import { type Controller, changeMetadata, unlessRefused } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const claimsKey = "/persistentvolumeclaims";
const volumesKey = "/persistentvolumes";
const podsKey = "/pods";
const finalizers: Readonly<Record<string, string>> = {
  [claimsKey]: "kubernetes.io/pvc-protection",
  [volumesKey]: "kubernetes.io/pv-protection",
};
const manager = "volume-protection-controller";

/** Keeps deleted claims and volumes while a pod or a claim uses them. */
export class VolumeProtection implements Controller {
  private readonly core: Core;
  /** `resource namespace/name`. */
  private readonly queue: WorkQueue<string>;
  /** Terminating claims that are in use, so that pod events cost nothing as long as there are none. */
  private readonly goingClaims = new Set<string>();

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<string>({
      work: (key) => this.work(key),
      failed: (key, error) => failed(`protection of ${key}`, error),
    });
  }

  start(): void {
    for (const resource of Object.keys(finalizers)) {
      for (const version of this.core.store.collection(resource).all()) this.look(version);
    }
  }

  observe({ current }: StoreEvent): void {
    if (finalizers[current.resource] !== undefined) {
      if (current.deleted) this.goingClaims.delete(keyOfVolume(current));
      else this.look(current);
      return;
    }
    if (this.goingClaims.size === 0 || current.resource !== podsKey) return;
    const pod = current.object();
    if (!current.deleted && holdsClaims(pod)) return;
    for (const claim of claimsOf(pod)) {
      const key = `${claimsKey} ${current.namespace}/${claim}`;
      if (this.goingClaims.has(key)) this.queue.add(key);
    }
  }

  private look(version: Version): void {
    const { metadata } = version.object();
    const finalizer = finalizers[version.resource] ?? "";
    if (metadata.deletionTimestamp === undefined || !(metadata.finalizers ?? []).includes(finalizer)) return;
    const key = keyOfVolume(version);
    if (version.resource === claimsKey) this.goingClaims.add(key);
    this.queue.add(key);
  }

  private work(key: string): Promise<void> | undefined {
    const [resource = "", path = ""] = key.split(" ");
    const [namespace = "", name = ""] = path.split("/");
    const version = this.core.store.get(resource, namespace, name);
    if (version === undefined || version.object().metadata.deletionTimestamp === undefined) return undefined;
    if (resource === claimsKey ? this.isUsed(namespace, name) : isBound(version.object())) return undefined;
    const finalizer = finalizers[resource] ?? "";
    const place = { resource, namespace, name, uid: version.side.uid };
    const change = changeMetadata(this.core, place, manager, (metadata) => ({
      ...metadata,
      finalizers: (metadata.finalizers ?? []).filter((other) => other !== finalizer),
    }));
    return unlessRefused(change, "NotFound");
  }

  private isUsed(namespace: string, claim: string): boolean {
    const { store } = this.core;
    for (const version of store.collection(podsKey).at(store.revision, namespace)) {
      const pod = version.object();
      if (holdsClaims(pod) && claimsOf(pod).includes(claim)) return true;
    }
    return false;
  }
}

function keyOfVolume({ resource, namespace, name }: Version): string {
  return `${resource} ${namespace}/${name}`;
}

function isBound(object: PersistentVolume): boolean {
  return object.status?.phase === "Bound";
}

/** A pod without a node cannot start once its claim is terminating, and a finished pod does not use it. */
function holdsClaims(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return (pod.spec?.nodeName ?? "") !== "" && phase !== "Succeeded" && phase !== "Failed";
}

function claimsOf(pod: Pod): string[] {
  const claims: string[] = [];
  for (const volume of pod.spec?.volumes ?? []) {
    if (volume.persistentVolumeClaim !== undefined) claims.push(volume.persistentVolumeClaim.claimName);
    // The claim of an ephemeral volume is named after pod and volume.
    if (volume.ephemeral !== undefined) claims.push(`${pod.metadata.name}-${volume.name}`);
  }
  return claims;
}
