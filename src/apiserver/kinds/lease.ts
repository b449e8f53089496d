import type { Lease } from "../../model/kubernetes.generated.ts";
import type { FieldError } from "../../model/objects/fieldError.ts";
import { checkNonNegative, checkPositive } from "./checks/fieldChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

export const leaseStrategy = strategyOfKind<Lease>({
  generation: "none",
  createOnUpdate: true,
  requiresRevision: true,
  prepareForCreate: dropElection,
  prepareForUpdate: dropElection,
  validate: (lease) => leaseErrors(lease),
  validateUpdate: (next) => leaseErrors(next),
});

/** Coordinated leader election is behind a feature gate that is off: its fields are dropped. */
function dropElection({ spec }: Lease): void {
  delete spec?.strategy;
  delete spec?.preferredHolder;
}

function leaseErrors(lease: Lease): FieldError[] {
  const errors: FieldError[] = [];
  const spec = lease.spec ?? {};
  checkPositive(spec.leaseDurationSeconds, "spec.leaseDurationSeconds", errors);
  checkNonNegative(spec.leaseTransitions, "spec.leaseTransitions", errors);
  return errors;
}
