/** `/ephemeralcontainers`: debug containers are added to a running pod and cannot be removed. */

import type { Pod } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { describeDifference } from "./podUpdate.ts";
import { checkPodSpec } from "./validation/podSpecValidation.ts";

const mirrorAnnotation = "kubernetes.io/config.mirror";

/** Keeps only the changed list of ephemeral containers. */
export function prepareEphemeralContainers(next: Pod, old: Pod): void {
  const asked = next.spec?.ephemeralContainers;
  if (old.spec === undefined) return;
  next.spec = { ...old.spec };
  if (asked === undefined) delete next.spec.ephemeralContainers;
  else next.spec.ephemeralContainers = asked;
  if (old.status === undefined) delete next.status;
  else next.status = old.status;
  next.metadata = { ...old.metadata, resourceVersion: next.metadata.resourceVersion };
}

export function validateEphemeralContainers(next: Pod, old: Pod): FieldError[] {
  const errors: FieldError[] = [];
  if (old.metadata.annotations?.[mirrorAnnotation] !== undefined) {
    return [forbidden("", "static pods do not support ephemeral containers")];
  }
  if (next.spec !== undefined) checkPodSpec(next.spec, "spec", errors, next.metadata.name);
  for (const before of old.spec?.ephemeralContainers ?? []) {
    const name = JSON.stringify(before.name);
    const after = next.spec?.ephemeralContainers?.find((container) => container.name === before.name);
    if (after === undefined) {
      errors.push(forbidden("spec.ephemeralContainers", `existing ephemeral containers ${name} may not be removed\n`));
    } else if (!equalJson(after, before)) {
      const detail = `existing ephemeral containers ${name} may not be changed\n${describeDifference(after, before)}`;
      errors.push(forbidden("spec.ephemeralContainers", detail));
    }
  }
  return errors;
}
