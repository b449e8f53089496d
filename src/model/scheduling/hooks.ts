import type { AdmissionHook, AdmissionRequest, AdmissionVerdict } from "../admissionHook.ts";
import { describeFieldError, type FieldError } from "../fieldError.ts";
import type { KubeObject } from "../object.ts";
import { type PodGroup, podGroupRef, validatePodGroup } from "./podGroup.ts";
import { type Queue, queueRef, validateQueue, whyQueueMustStay } from "./queue.ts";
import { checkQuotas } from "./queueQuotas.ts";
import { type Topology, topologyRef, validateTopology } from "./topology.ts";

/** What the definitions of queues, groups and topologies cannot say: KAI's webhooks, as functions. */

function queueHook(checksQuotas: boolean): AdmissionHook {
  return {
    name: "queues.validate.scheduling.muster.dev",
    type: "validating",
    resource: queueRef,
    operations: ["CREATE", "UPDATE", "DELETE"],
    ...(checksQuotas && { reads: [queueRef] }),
    review({ operation, name, object, oldObject }, lookup) {
      if (operation === "DELETE") {
        const why = oldObject === undefined ? undefined : whyQueueMustStay(as<Queue>(oldObject));
        return why === undefined ? { allowed: true } : { allowed: false, message: why };
      }
      const errors = validateQueue(object as KubeObject);
      if (errors.length > 0 || !checksQuotas) return verdictOf(errors);
      const found = checkQuotas(name, as<Queue>(object as KubeObject).spec, lookup.list(queueRef, "").map(as<Queue>));
      return verdictOf(found.errors, found.warnings);
    },
  };
}

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

/** Whether a queue's quotas are held against those of its parent and its children is for who installs to say. */
export function schedulingHooks({ checksQuotas = false } = {}): readonly AdmissionHook[] {
  return [queueHook(checksQuotas), podGroupHook, topologyHook];
}

function verdictOf(errors: readonly FieldError[], warnings: readonly string[] = []): AdmissionVerdict {
  if (errors.length === 0) return { allowed: true, warnings };
  return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
}

function as<T>(object: KubeObject): T {
  return object as unknown as T;
}
