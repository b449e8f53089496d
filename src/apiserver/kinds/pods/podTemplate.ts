/** Pod templates, which are defaulted and validated as pods. */

import type { LabelSelector, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, notSupported } from "../../../model/objects/fieldError.ts";
import { matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { checkLabels } from "../checks/labelChecks.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { setPodSpecDefaults } from "./podDefaults.ts";
import { checkPodSpec } from "./validation/podSpecValidation.ts";

export function setPodTemplateDefaults(template: PodTemplateSpec | undefined): void {
  if (template?.spec !== undefined) setPodSpecDefaults(template.spec);
}

export function checkPodTemplate(template: PodTemplateSpec, path: string, errors: FieldError[]): void {
  checkLabels(template.metadata?.labels, `${path}.labels`, errors);
  for (const key of Object.keys(template.metadata?.annotations ?? {})) {
    // As upstream: the prefix of an annotation may have capital letters, that of a label may not.
    checkQualifiedName(key.toLowerCase(), `${path}.annotations`, errors);
  }
  checkPodSpec(template.spec ?? { containers: [] }, `${path}.spec`, errors);
  if ((template.spec?.ephemeralContainers ?? []).length > 0) {
    errors.push(forbidden(`${path}.spec.ephemeralContainers`, "ephemeral containers not allowed in pod template"));
  }
}

export function checkTemplateMatchesSelector(
  template: PodTemplateSpec,
  selector: LabelSelector,
  path: string,
  errors: FieldError[],
): void {
  const labels = template.metadata?.labels;
  if (matchesLabels(selectorRequirements(selector), labels)) return;
  errors.push(invalid(`${path}.metadata.labels`, labels ?? null, "`selector` does not match template `labels`"));
}

/** Controllers that keep pods running require restartPolicy Always. */
export function checkTemplateRunsForever(
  template: PodTemplateSpec,
  kind: string,
  path: string,
  errors: FieldError[],
): void {
  const policy = template.spec?.restartPolicy;
  if (policy !== "Always") errors.push(notSupported(`${path}.spec.restartPolicy`, policy ?? "", ["Always"]));
  if (template.spec?.activeDeadlineSeconds !== undefined) {
    const detail = `activeDeadlineSeconds in ${kind} is not Supported`;
    errors.push(forbidden(`${path}.spec.activeDeadlineSeconds`, detail));
  }
}
