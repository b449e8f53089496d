import type { RuntimeClass } from "../../model/kubernetes.generated.ts";
import type { FieldError } from "../../model/objects/fieldError.ts";
import { checkImmutable } from "./checks/fieldChecks.ts";
import { checkLabels } from "./checks/labelChecks.ts";
import { checkDnsLabel } from "./checks/nameChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";
import { checkContainerResources } from "./pods/validation/resourceValidation.ts";
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
  const fixed = runtimeClass.overhead?.podFixed;
  if (fixed !== undefined) checkContainerResources({ limits: fixed }, "overhead", errors);
  checkLabels(runtimeClass.scheduling?.nodeSelector, "scheduling.nodeSelector", errors);
  checkTolerations(runtimeClass.scheduling?.tolerations ?? [], "scheduling.tolerations", errors);
  return errors;
}
