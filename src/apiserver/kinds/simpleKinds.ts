/** Kinds with few rules of their own. */

import type { ControllerRevision, PodTemplate, ServiceAccount } from "../../model/kubernetes.generated.ts";
import type { FieldError } from "../../model/objects/fieldError.ts";
import { required } from "../../model/objects/fieldError.ts";
import { isObject, type Json } from "../../model/objects/json.ts";
import { checkImmutable, checkNonNegative } from "./checks/fieldChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";
import { checkPodTemplate, setPodTemplateDefaults } from "./pods/podTemplate.ts";

export const serviceAccountStrategy = strategyOfKind<ServiceAccount>({ generation: "none", returnsDeleted: true });

export const podTemplateStrategy = strategyOfKind<PodTemplate>({
  generation: "content",
  returnsDeleted: true,
  setDefaults: (object) => setPodTemplateDefaults(object.template),
  validate: (object) => podTemplateErrors(object),
  validateUpdate: (next) => podTemplateErrors(next),
});

function podTemplateErrors(object: PodTemplate): FieldError[] {
  const errors: FieldError[] = [];
  checkPodTemplate(object.template ?? {}, "template", errors);
  return errors;
}

export const controllerRevisionStrategy = strategyOfKind<ControllerRevision>({
  generation: "none",
  validate: (object) => revisionErrors(object),
  validateUpdate(next, old) {
    const errors = revisionErrors(next);
    checkImmutable(next.data, old.data, "data", errors);
    return errors;
  },
});

function revisionErrors(object: ControllerRevision): FieldError[] {
  const errors: FieldError[] = [];
  checkNonNegative(object.revision, "revision", errors);
  if (object.data === undefined || object.data === null) errors.push(required("data", "data is mandatory"));
  else if (!isObject(object.data as Json)) errors.push(required("data", "data must be a valid JSON object"));
  return errors;
}
