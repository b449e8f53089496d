/**
 * The Events about the writes of a reconcile to the children of its object, and the errors in the object's status while
 * a write fails. Reasons and codes are Grove's; the same write to several children at once is one Event.
 */
import type { GangKind } from "../../model/gang/keys.ts";
import type { LastError } from "../../model/gang/types.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { RefusalReason } from "../../model/outcome.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Announcement } from "./gangDraft.ts";

/** The reconciler: of a set as a whole, one replica of it, a group, a clique. */
export type ReconcilerKind = "set" | "replica" | "group" | "clique";
export type WriteVerb = "create" | "patch" | "delete";

/** A completed write: refused, or done. */
export interface Done {
  readonly kind: GangKind;
  readonly verb: WriteVerb;
  readonly name: string;
  readonly refusal?: { readonly reason: RefusalReason; readonly message: string };
}

/** An error in the status, until the write succeeds. */
export interface ReconcileFailure {
  readonly code: string;
  readonly description: string;
}

interface Words {
  readonly done?: string;
  readonly failed?: string;
  readonly code: string;
}

const cliqueSync: Words = {
  done: "PodCliqueCreateOrUpdateSuccessful",
  failed: "PodCliqueCreateOrUpdateFailed",
  code: "ERR_CREATE_OR_UPDATE_PODCLIQUE",
};
const gangSync: Words = {
  done: "PodGangCreateOrUpdateSuccessful",
  failed: "PodGangCreateOrUpdateFailed",
  code: "ERR_CREATE_OR_PATCH_PODGANG",
};
const gangRemoval: Words = {
  done: "PodGangDeleteSuccessful",
  failed: "PodGangDeleteFailed",
  code: "ERR_DELETE_EXCESS_PODGANG",
};
const groupFailed = "PodCliqueScalingGroupCreateOrUpdateFailed";

const words: Readonly<Record<ReconcilerKind, Readonly<Record<string, Words>>>> = {
  set: {
    "PodClique delete": {
      done: "PodCliqueDeleteSuccessful",
      failed: "PodCliqueDeleteFailed",
      code: "ERR_DELETE_PODCLIQUE",
    },
    "PodCliqueScalingGroup delete": {
      done: "PodCliqueScalingGroupDeleteSuccessful",
      failed: "PodCliqueScalingGroupDeleteFailed",
      code: "ERR_DELETE_PODCLIQUESCALINGGROUP",
    },
    "PodGang delete": gangRemoval,
    "ServiceAccount create": { code: "ERR_SYNC_SERVICEACCOUNT" },
    "Role create": { code: "ERR_SYNC_ROLE" },
    "RoleBinding create": { code: "ERR_SYNC_ROLEBINDING" },
    "Secret create": { code: "ERR_CREATE_SECRET" },
    "ResourceClaim create": { code: "ERR_SYNC_PCS_RESOURCE_CLAIM" },
    "ResourceClaim delete": { code: "ERR_DELETE_PCS_RESOURCE_CLAIM" },
    "Service delete": { code: "ERR_DELETE_PODCLIQUESET_SERVICE" },
    "HorizontalPodAutoscaler delete": { code: "ERR_DELETE_HPA" },
  },
  replica: {
    "PodClique create": cliqueSync,
    "PodClique patch": cliqueSync,
    // Completion is reported when the last clique is gone.
    "PodClique delete": { failed: "PodCliqueSetReplicaDeleteFailed", code: "ERR_DELETE_PCS_REPLICA" },
    "PodCliqueScalingGroup create": {
      done: "PodCliqueScalingGroupCreateSuccessful",
      failed: groupFailed,
      code: "ERR_CREATE_PODCLIQUESCALINGGROUP",
    },
    "PodCliqueScalingGroup patch": { failed: groupFailed, code: "ERR_SYNC_PODCLIQUESCALINGGROUP" },
    "PodGang create": { ...gangSync, code: "ERR_CREATE_PODGANG" },
    "PodGang patch": gangSync,
    "PodGang delete": gangRemoval,
    "Service create": { code: "ERR_SYNC_PODCLIQUESET_SERVICE" },
    "Service patch": { code: "ERR_SYNC_PODCLIQUESET_SERVICE" },
    "HorizontalPodAutoscaler create": { code: "ERR_SYNC_HPA" },
    "HorizontalPodAutoscaler patch": { code: "ERR_SYNC_HPA" },
  },
  group: {
    "PodClique create": {
      done: "PodCliqueCreateSuccessful",
      failed: "PodCliqueCreateFailed",
      code: "ERR_CREATE_PODCLIQUE",
    },
    "PodClique patch": cliqueSync,
    "PodClique delete": { failed: "PodCliqueScalingGroupReplicaDeleteFailed", code: "ERR_DELETE_PODCLIQUE" },
    "ResourceClaim create": { code: "ERR_SYNC_PCSG_RESOURCE_CLAIM" },
    "ResourceClaim delete": { code: "ERR_SYNC_PCSG_RESOURCE_CLAIM" },
  },
  clique: {
    "Pod create": { done: "PodCreateSuccessful", failed: "PodCreateFailed", code: "ERR_CREATE_POD" },
    "Pod patch": { code: "ERR_REMOVE_POD_SCHEDULING_GATE" },
    "Pod delete": { done: "PodDeleteSuccessful", failed: "PodDeleteFailed", code: "ERR_DELETE_POD" },
    "ResourceClaim create": { code: "ERR_SYNC_PCLQ_RESOURCE_CLAIM" },
    "ResourceClaim delete": { code: "ERR_DELETE_PCLQ_RESOURCE_CLAIM" },
  },
};

/** Refusals that a retry does not change. The others (a conflict, a busy server) get no Event. */
const lasting: ReadonlySet<RefusalReason> = new Set(["Forbidden", "Invalid", "Unauthorized"]);

/** NotFound is a failure of a create only: a namespace or owner is missing. */
const isLasting = ({ verb, refusal }: Done): boolean =>
  refusal !== undefined && (lasting.has(refusal.reason) || (verb === "create" && refusal.reason === "NotFound"));

const past: Readonly<Record<WriteVerb, string>> = { create: "Created", patch: "Updated", delete: "Deleted" };

export function reconcileEvents(of: ReconcilerKind, regarding: KubeObject, all: readonly Done[]): Announcement[] {
  const told: Announcement[] = [];
  for (const [text, group] of grouped(all.filter(({ refusal }) => refusal === undefined))) {
    const reason = words[of][text]?.done;
    const [first] = group;
    if (reason === undefined || first === undefined) continue;
    const note = `${past[first.verb]} ${first.kind} ${group.map(({ name }) => name).join(", ")}`;
    told.push({ regarding, type: "Normal", reason, action: past[first.verb], note });
  }
  for (const { kind, verb, name, refusal } of all.filter(isLasting)) {
    const reason = words[of][`${kind} ${verb}`]?.failed;
    if (reason === undefined) continue;
    const note = `Could not ${verb} ${kind} ${name}: ${refusal?.message}`;
    told.push({ regarding, type: "Warning", reason, action: past[verb], note });
  }
  return told;
}

/** The errors in the status: one for each code, the first of its kind, so that the same problem gives the same text. */
export function reconcileFailures(of: ReconcilerKind, all: readonly Done[]): ReconcileFailure[] {
  const failures = new Map<string, ReconcileFailure>();
  for (const { kind, verb, name, refusal } of all.filter(isLasting)) {
    const code = words[of][`${kind} ${verb}`]?.code;
    if (code === undefined || failures.has(code)) continue;
    failures.set(code, { code, description: `${verb} ${kind} ${name}: ${refusal?.message}` });
  }
  return [...failures.values()];
}

/** An unchanged error keeps its time, otherwise the status would change with every reconcile. */
export function datedError(error: ReconcileFailure, known: readonly LastError[] | undefined, nowMs: number): LastError {
  const same = known?.find(({ code, description }) => code === error.code && description === error.description);
  return { ...error, observedAt: same?.observedAt ?? formatTime(nowMs) };
}

function grouped(all: readonly Done[]): Map<string, Done[]> {
  const groups = new Map<string, Done[]>();
  for (const each of all) {
    const text = `${each.kind} ${each.verb}`;
    groups.set(text, [...(groups.get(text) ?? []), each]);
  }
  return groups;
}
