import type { AdmissionHook, AdmissionVerdict } from "../objects/admissionHook.ts";
import { describeFieldError, type FieldError } from "../objects/fieldError.ts";
import { type PodGroup, podGroupRef, validatePodGroup, wrongPodGroupValues } from "./podGroup.ts";
import {
  type Queue,
  queueCycleErrors,
  queueDeletionProblem,
  queueRef,
  validateQueue,
  wrongQueueValues,
} from "./queue.ts";
import { checkQuotas } from "./queueQuotas.ts";
import { type Topology, topologyRef, validateTopology } from "./topology.ts";

/** KAI's webhooks as functions: validation of queues, pod groups and topologies that a CRD schema cannot express. */

function queueHook(checksQuotas: boolean): AdmissionHook<Queue> {
  return {
    name: "queues.validate.scheduling.muster.dev",
    type: "validating",
    resource: queueRef,
    operations: ["CREATE", "UPDATE", "DELETE"],
    reads: [queueRef],
    review({ operation, name, object, oldObject }, lookup) {
      const others = lookup.list(queueRef, "");
      if (operation === "DELETE") {
        const why = oldObject === undefined ? undefined : queueDeletionProblem(oldObject, others);
        return why === undefined ? { allowed: true } : { allowed: false, message: why };
      }
      const queue = object as Queue;
      const wrong = newOnly(oldObject, queue, ({ spec }) => [
        ...wrongQueueValues(spec),
        ...queueCycleErrors(name, spec, others),
      ]);
      const errors = [...validateQueue(queue), ...wrong.errors];
      if (errors.length > 0 || !checksQuotas) return verdictOf(errors, wrong.warnings);
      const found = checkQuotas(name, queue.spec, others);
      return verdictOf(found.errors, [...wrong.warnings, ...found.warnings]);
    },
  };
}

const podGroupHook: AdmissionHook<PodGroup> = {
  name: "podgroups.validate.scheduling.muster.dev",
  type: "validating",
  resource: podGroupRef,
  operations: ["CREATE", "UPDATE"],
  review({ operation, object, oldObject }) {
    const group = object as PodGroup;
    const { errors, warnings } = validatePodGroup(group.spec, operation === "CREATE" ? "CREATE" : "UPDATE");
    const wrong = newOnly(oldObject, group, ({ spec }) => wrongPodGroupValues(spec));
    return verdictOf([...errors, ...wrong.errors], [...warnings, ...wrong.warnings]);
  },
};

const topologyHook: AdmissionHook<Topology> = {
  name: "topologies.validate.scheduling.muster.dev",
  type: "validating",
  resource: topologyRef,
  operations: ["CREATE", "UPDATE"],
  review: ({ object }) => verdictOf(validateTopology(object?.spec?.levels ?? [])),
};

/** Whether a queue's quotas are compared with those of its parent and its children is a setting of the installation. */
export function schedulingHooks({ checksQuotas = false } = {}): readonly AdmissionHook[] {
  return [queueHook(checksQuotas), podGroupHook, topologyHook];
}

/** Fields that were invalid before the update are only warned about, not refused. */
function newOnly<T>(
  old: T | undefined,
  now: T,
  check: (object: T) => readonly FieldError[],
): { errors: readonly FieldError[]; warnings: readonly string[] } {
  const errors = check(now);
  if (errors.length === 0 || old === undefined) return { errors, warnings: [] };
  const before = new Set(check(old).map(describeFieldError));
  const isOld = (error: FieldError): boolean => before.has(describeFieldError(error));
  return { errors: errors.filter((each) => !isOld(each)), warnings: errors.filter(isOld).map(describeFieldError) };
}

function verdictOf(errors: readonly FieldError[], warnings: readonly string[] = []): AdmissionVerdict<never> {
  if (errors.length === 0) return { allowed: true, warnings };
  return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
}
