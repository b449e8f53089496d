import type { RuntimeClass } from "../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { isNegativeAmount } from "./checks/amounts.ts";
import { checkImmutable } from "./checks/fieldChecks.ts";
import { checkLabels } from "./checks/labelChecks.ts";
import { checkDnsLabel } from "./checks/nameChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";
import { checkTolerations } from "./pods/validation/tolerationValidation.ts";

export const runtimeClassStrategy = strategyOfKind<RuntimeClass>({
  generation: "none",
  createOnUpdate: true,
  requiresRevision: true,
  validate: (runtimeClass) => runtimeClassErrors(runtimeClass),
  validateUpdate(next, old) {
    const errors = runtimeClassErrors(next);
    checkImmutable(next.handler, old.handler, "handler", errors);
    return errors;
  },
});

function runtimeClassErrors(runtimeClass: RuntimeClass): FieldError[] {
  const errors: FieldError[] = [];
  checkDnsLabel(runtimeClass.handler ?? "", "handler", errors);
  for (const [name, amount] of Object.entries(runtimeClass.overhead?.podFixed ?? {})) {
    if (isNegativeAmount(amount)) {
      errors.push(invalid(`overhead.podFixed[${name}]`, amount, "must be greater than or equal to 0"));
    }
  }
  checkLabels(runtimeClass.scheduling?.nodeSelector, "scheduling.nodeSelector", errors);
  checkTolerations(runtimeClass.scheduling?.tolerations ?? [], "scheduling.tolerations", errors);
  return errors;
}
