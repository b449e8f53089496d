import type { PriorityClass } from "../../model/kubernetes.generated.ts";
import { type FieldError, forbidden } from "../../model/objects/fieldError.ts";
import { checkImmutable, checkOneOf } from "./checks/fieldChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

/** Higher values are reserved for system classes. */
const userPriorityMax = 1_000_000_000;
const systemClasses = new Map([
  ["system-cluster-critical", 2_000_000_000],
  ["system-node-critical", 2_000_001_000],
]);

export const priorityClassStrategy = strategyOfKind<PriorityClass>({
  generation: "content",
  setDefaults(priorityClass) {
    priorityClass.preemptionPolicy ??= "PreemptLowerPriority";
  },
  validate(priorityClass) {
    const errors: FieldError[] = [];
    const { name } = priorityClass.metadata;
    const value = priorityClass.value ?? 0;
    if (name.startsWith("system-")) {
      if (systemClasses.get(name) !== value) {
        const detail =
          "priority class names with 'system-' prefix are reserved for system use only. error: unknown or altered system class";
        errors.push(forbidden("metadata.name", detail));
      }
    } else if (value > userPriorityMax) {
      errors.push(forbidden("value", `maximum allowed value of a user defined priority is ${userPriorityMax}`));
    }
    const policies = ["Never", "PreemptLowerPriority"];
    checkOneOf(priorityClass.preemptionPolicy, policies, "preemptionPolicy", errors, true);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    if ((next.value ?? 0) !== (old.value ?? 0)) {
      errors.push(forbidden("value", "may not be changed in an update."));
    }
    checkImmutable(next.preemptionPolicy, old.preemptionPolicy, "preemptionPolicy", errors);
    return errors;
  },
});
