import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { annotationKeys, schedulingGroup } from "./keys.ts";

/** The scheduler's durable intent: this pod on that node, with these devices. The binder carries it out. */
export type BindRequest = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: BindRequestSpec;
  status?: BindRequestStatus;
};

export type BindRequestSpec = {
  /** The name of a pod of the same namespace; the owner reference has its UID. */
  podName?: string;
  selectedNode?: string;
  receivedResourceType?: ReceivedResourceType;
  receivedGPU?: { count?: number; portion?: string };
  /** One id for each physical GPU that is shared. */
  selectedGPUGroups?: string[];
  resourceClaimAllocations?: { name?: string; allocation?: unknown }[];
  extendedResourceClaimAllocation?: unknown;
  predictedNUMAZones?: { zone?: string; amount?: Record<string, string> }[];
  /** How many retries follow a first attempt that failed; null is none. */
  backoffLimit?: number | null;
};

export type ReceivedResourceType = "Regular" | "Fraction" | "MigInstance" | "";

export type BindRequestStatus = {
  /** Empty is pending. */
  phase?: "Pending" | "Succeeded" | "Failed" | "";
  reason?: string;
  /** All attempts that failed, the first one included. */
  failedAttempts?: number;
};

export const bindRequestRef = resource<BindRequest>(schedulingGroup, "v1alpha2", "bindrequests");
export const bindRequestApiVersion = "scheduling.run.ai/v1alpha2";

/** Failed, and all retries are used up. */
export function isFinallyFailed({ spec, status }: BindRequest): boolean {
  if (status?.phase !== "Failed") return false;
  const limit = spec?.backoffLimit;
  return limit === undefined || limit === null || (status.failedAttempts ?? 0) > limit;
}

/** The UID of the pod that it is for; a recreated pod of the same name does not count. */
export function podUidOf({ metadata }: BindRequest): string | undefined {
  return metadata.ownerReferences?.find(({ kind, apiVersion }) => kind === "Pod" && apiVersion === "v1")?.uid;
}

/** The id of the BindRequests of a gang that were decided together; undefined for a single request. */
export function commitOf({ metadata }: { readonly metadata: ObjectMeta }): string | undefined {
  const id = metadata.annotations?.[annotationKeys.commit];
  return id === undefined ? undefined : `${metadata.namespace}/${id}`;
}

/** The number of requests in its set. */
export function commitSizeOf({ metadata }: { readonly metadata: ObjectMeta }): number {
  return Number(metadata.annotations?.[annotationKeys.commitSize] ?? "0");
}

/**
 * On a BindRequest for a GPU share: it is deleted when the binder has released it. Otherwise a binder that observes the
 * deletion late would still reserve a GPU that is allocated to another pod by then.
 */
export const bindRequestFinalizer = "muster.dev/binder";

/** The PersistentVolume that the scheduler chose for each claim of the pod, by names; undefined if it chose none. */
export function chosenVolumesOf({ metadata }: BindRequest): Readonly<Record<string, string>> | undefined {
  const text = metadata.annotations?.[annotationKeys.volumes];
  if (text === undefined) return undefined;
  const chosen: Record<string, string> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== "object" || parsed === null) return undefined;
    for (const [claim, volume] of Object.entries(parsed)) if (typeof volume === "string") chosen[claim] = volume;
  } catch {
    // The binder finds that no volume was chosen, and the scheduler decides again.
    return undefined;
  }
  return Object.keys(chosen).length === 0 ? undefined : chosen;
}
