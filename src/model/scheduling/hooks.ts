import type { AdmissionHook, AdmissionRequest, AdmissionVerdict } from "../admissionHook.ts";
import { describeFieldError, type FieldError } from "../fieldError.ts";
import type { KubeObject } from "../object.ts";
import { type PodGroup, podGroupRef, validatePodGroup } from "./podGroup.ts";
import { type Queue, queueRef, validateQueue, whyQueueMustStay } from "./queue.ts";
import { type Topology, topologyRef, validateTopology } from "./topology.ts";

/** What the definitions of queues, groups and topologies cannot say: KAI's webhooks, as functions. */

const queueHook: AdmissionHook = {
  name: "queues.validate.scheduling.muster.dev",
  type: "validating",
  resource: queueRef,
  operations: ["CREATE", "UPDATE", "DELETE"],
  review({ operation, object, oldObject }) {
    if (operation !== "DELETE") return verdictOf(validateQueue(object as KubeObject));
    const why = oldObject === undefined ? undefined : whyQueueMustStay(as<Queue>(oldObject));
    return why === undefined ? { allowed: true } : { allowed: false, message: why };
  },
};

const podGroupHook: AdmissionHook = {
  name: "podgroups.validate.scheduling.muster.dev",
  type: "validating",
  resource: podGroupRef,
  operations: ["CREATE", "UPDATE"],
  review({ operation, object }: AdmissionRequest) {
    const { errors, warnings } = validatePodGroup(
      as<PodGroup>(object as KubeObject).spec,
      operation === "CREATE" ? "CREATE" : "UPDATE",
    );
    return verdictOf(errors, warnings);
  },
};

const topologyHook: AdmissionHook = {
  name: "topologies.validate.scheduling.muster.dev",
  type: "validating",
  resource: topologyRef,
  operations: ["CREATE", "UPDATE"],
  review: ({ object }) => verdictOf(validateTopology(as<Topology>(object as KubeObject).spec?.levels ?? [])),
};

export const schedulingHooks: readonly AdmissionHook[] = [queueHook, podGroupHook, topologyHook];

function verdictOf(errors: readonly FieldError[], warnings: readonly string[] = []): AdmissionVerdict {
  if (errors.length === 0) return { allowed: true, warnings };
  return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
}

function as<T>(object: KubeObject): T {
  return object as unknown as T;
}
