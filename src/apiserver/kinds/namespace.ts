import type { Namespace } from "../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { checkQualifiedName } from "./checks/nameChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

const nameLabel = "kubernetes.io/metadata.name";
const contentFinalizer = "kubernetes";
const undeletable = new Set(["default", "kube-system", "kube-public"]);
const standardFinalizers = new Set([contentFinalizer, "orphan", "foregroundDeletion"]);

export const namespaceStrategy = strategyOfKind<Namespace>({
  name: "dnsLabel",
  generation: "none",
  returnsDeleted: true,
  setDefaults(namespace) {
    const { metadata } = namespace;
    // A generated name is set at create, and its label with it.
    if (metadata.name) metadata.labels = { ...metadata.labels, [nameLabel]: metadata.name };
    namespace.status ??= {};
    namespace.status.phase ||= "Active";
  },
  prepareForCreate(namespace) {
    const { metadata } = namespace;
    metadata.labels = { ...metadata.labels, [nameLabel]: metadata.name };
    namespace.status = { phase: "Active" };
    namespace.spec ??= {};
    const finalizers = namespace.spec.finalizers ?? [];
    namespace.spec.finalizers = finalizers.includes(contentFinalizer) ? finalizers : [...finalizers, contentFinalizer];
  },
  prepareForUpdate(next, old) {
    // spec.finalizers are written through /finalize only.
    next.spec ??= {};
    if (old.spec?.finalizers === undefined) delete next.spec.finalizers;
    else next.spec.finalizers = old.spec.finalizers;
  },
  validate: (namespace) => finalizerErrors(namespace),
  validateUpdate: (next) => finalizerErrors(next),
  validateStatusUpdate(next) {
    const isTerminating = next.metadata.deletionTimestamp !== undefined;
    const phase = next.status?.phase ?? "";
    if (isTerminating && phase !== "Terminating") {
      return [invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")];
    }
    if (!isTerminating && phase !== "Active") {
      return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")];
    }
    return [];
  },
  beginDeletion(namespace) {
    namespace.status = { ...namespace.status, phase: "Terminating" };
    delete namespace.metadata.deletionGracePeriodSeconds;
  },
  holdsDeletion: (namespace) => (namespace.spec?.finalizers ?? []).length > 0,
  refusesDeletion: (namespace) =>
    undeletable.has(namespace.metadata.name) ? "this namespace may not be deleted" : undefined,
  selectFields: (namespace) => [namespace.status?.phase ?? ""],
});

/** For /finalize: only the finalizers may differ; the caller has restored the rest. */
export function finalizerErrors(namespace: Namespace): FieldError[] {
  const errors: FieldError[] = [];
  for (const name of namespace.spec?.finalizers ?? []) {
    checkQualifiedName(name, "spec.finalizers", errors);
    if (!name.includes("/") && !standardFinalizers.has(name)) {
      const detail = "name is neither a standard finalizer name nor is it fully qualified";
      errors.push(invalid("spec.finalizers", name, detail));
    }
  }
  return errors;
}
