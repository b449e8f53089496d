import type { Intent } from "../../model/intent.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Revision } from "../../model/revision.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { NodeWrite } from "./nodeWrite.ts";

const nowhere: Omit<ObjectRef, "objectType"> = { group: "", version: "", plural: "", namespace: "", name: "" };

/**
 * A node's write as an intent, for drivers with a ledger. Undefined for events and for the patches of stages, which
 * KWOK sends without a precondition; those are sent directly.
 */
export function intentOfWrite<T extends KubeObject>(
  write: NodeWrite<T>,
  { absentAtRevision, why }: { absentAtRevision: Revision; why: string },
): Intent<T> | undefined {
  const { subresource, ...target } = write.kind === "event" ? nowhere : write.ref;
  switch (write.kind) {
    case "event":
      return undefined;
    case "create":
      return { type: "create", target, why, absentAtRevision, object: write.object };
    case "update": {
      const { uid, resourceVersion } = write.object.metadata;
      const type = subresource === "status" ? "status" : "update";
      return { type, target, why, expected: { uid, resourceVersion }, object: write.object };
    }
    case "patch": {
      const { expected, patch } = write;
      if (expected === undefined || patch.type !== "merge" || !isObject(patch.body)) return undefined;
      return {
        type: "patch",
        target,
        why,
        expected,
        patch: patch.body,
        ...(subresource === undefined ? {} : { subresource }),
      };
    }
    case "delete": {
      const { uid, resourceVersion } = write.expected;
      if (resourceVersion === undefined) return undefined;
      return {
        type: "delete",
        target,
        why,
        expected: { uid, resourceVersion },
        gracePeriodSeconds: write.graceSeconds,
      };
    }
    case "evict":
      return { type: "evict", target, why, expected: write.expected };
  }
}
