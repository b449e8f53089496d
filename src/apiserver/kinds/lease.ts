import type { Lease } from "../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, required } from "../../model/objects/fieldError.ts";
import { checkNonNegative, checkOneOf, checkPositive } from "./checks/fieldChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

export const leaseStrategy = strategyOfKind<Lease>({
  generation: "none",
  createOnUpdate: true,
  requiresRevision: true,
  validate: (lease) => leaseErrors(lease),
  validateUpdate: (next) => leaseErrors(next),
});

function leaseErrors(lease: Lease): FieldError[] {
  const errors: FieldError[] = [];
  const spec = lease.spec ?? {};
  checkPositive(spec.leaseDurationSeconds, "spec.leaseDurationSeconds", errors);
  checkNonNegative(spec.leaseTransitions, "spec.leaseTransitions", errors);
  checkOneOf(spec.strategy, ["OldestEmulationVersion"], "spec.strategy", errors);
  if (spec.preferredHolder && !spec.strategy) {
    errors.push(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"));
  }
  if (spec.strategy === "") errors.push(required("spec.strategy"));
  return errors;
}
