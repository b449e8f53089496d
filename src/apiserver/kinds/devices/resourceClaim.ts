import { beta1Claim, beta1ClaimTemplate } from "../../../model/deviceConversion.ts";
import type { ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import type { FieldError } from "../../../model/objects/fieldError.ts";
import { forbidden } from "../../../model/objects/fieldError.ts";
import { validateLabels } from "../../../model/objects/labelSelector.ts";
import { append } from "../../../model/values/append.ts";
import type { WriteContext } from "../../strategy.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { inStoredShape } from "../storedShape.ts";
import { adminAccessPaths, checkClaimSpec, setClaimSpecDefaults } from "./claimSpec.ts";
import { checkClaimStatusChange, dropStaleDeviceStatus } from "./claimStatus.ts";
import { refuseAdminAccess } from "./deviceParts.ts";

export const adminAccessLabel = "resource.kubernetes.io/admin-access";

export function permitsAdminAccess(namespace: string | undefined, context: WriteContext): boolean {
  return context.get("/namespaces", "", namespace ?? "")?.metadata.labels?.[adminAccessLabel] === "true";
}

const claimStrategy = strategyOfKind<ResourceClaim>({
  generation: "none",
  statusKeeps: "metadata",
  returnsDeleted: true,
  setDefaults: (claim) => setClaimSpecDefaults(claim.spec),
  validate(claim, context) {
    const errors: FieldError[] = [];
    checkClaimSpec(claim.spec, "spec", errors);
    checkAdminAccess(adminAccessPaths(claim.spec, "spec"), claim.metadata.namespace, context, errors);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkImmutable(next.spec, old.spec, "spec", errors);
    return errors;
  },
  validateStatusUpdate(next, old, context) {
    const errors: FieldError[] = [];
    dropStaleDeviceStatus(next, old);
    checkClaimStatusChange(next, old, errors);
    const results = next.status?.allocation?.devices?.results ?? [];
    const isNew = old.status?.allocation === undefined;
    if (isNew) {
      const paths = results.flatMap((result, i) =>
        result.adminAccess === true ? [`status.allocation.devices.results[${i}].adminAccess`] : [],
      );
      checkAdminAccess(paths, next.metadata.namespace, context, errors);
    }
    return errors;
  },
});

function checkAdminAccess(
  paths: readonly string[],
  namespace: string | undefined,
  context: WriteContext,
  errors: FieldError[],
): void {
  if (paths.length === 0 || permitsAdminAccess(namespace, context)) return;
  for (const path of paths) errors.push(refuseAdminAccess(path));
}

const templateStrategy = strategyOfKind<ResourceClaimTemplate>({
  generation: "none",
  returnsDeleted: true,
  setDefaults: (template) => setClaimSpecDefaults(template.spec?.spec),
  validate(template, context) {
    const errors: FieldError[] = [];
    for (const field of Object.keys(template.spec?.metadata ?? {})) {
      if (field === "labels" || field === "annotations") continue;
      errors.push(forbidden(`spec.metadata.${field}`, "cannot be set"));
    }
    const { labels, annotations } = template.spec?.metadata ?? {};
    if (labels !== undefined) append(errors, validateLabels(labels, "spec.metadata.labels"));
    for (const key of Object.keys(annotations ?? {})) {
      checkQualifiedName(key.toLowerCase(), "spec.metadata.annotations", errors);
    }
    checkClaimSpec(template.spec?.spec, "spec.spec", errors);
    const paths = adminAccessPaths(template.spec?.spec, "spec.spec");
    checkAdminAccess(paths, template.metadata.namespace, context, errors);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkImmutable(next.spec, old.spec, "spec", errors);
    return errors;
  },
});

export const resourceClaimStrategy = inStoredShape(claimStrategy, { "resource.k8s.io/v1beta1": beta1Claim });
export const resourceClaimTemplateStrategy = inStoredShape(templateStrategy, {
  "resource.k8s.io/v1beta1": beta1ClaimTemplate,
});
