import type {
  CustomResourceDefinition,
  CustomResourceDefinitionCondition,
  CustomResourceDefinitionNames,
  CustomResourceDefinitionStatus,
} from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import { builtinResources } from "../builtinResources.ts";

/**
 * The status of a CRD: which of its names are accepted, and whether it is established. Names are unique in a group,
 * first come first served; a definition keeps its accepted names.
 */
export function crdStatus(
  crd: CustomResourceDefinition,
  others: Iterable<CustomResourceDefinition>,
  nowMs: number,
): CustomResourceDefinitionStatus {
  const taken = namesTaken(crd, others);
  const before = crd.status ?? {};
  const { acceptedNames, conflict } = acceptNames(crd.spec.names, before.acceptedNames, taken);
  const conditions = [...(before.conditions ?? [])];
  const set = (type: string, status: boolean, reason: string, message: string) => {
    setCondition(conditions, { type, status: status ? "True" : "False", reason, message }, nowMs);
  };
  if (conflict === undefined) set("NamesAccepted", true, "NoConflicts", "no conflicts found");
  else set("NamesAccepted", false, conflict.reason, `${JSON.stringify(conflict.name)} is already in use`);
  // An established CRD stays established: its objects exist.
  if (!isEstablished(before)) {
    if (conflict === undefined)
      set("Established", true, "InitialNamesAccepted", "the initial names have been accepted");
    else set("Established", false, "NotAccepted", "not all names are accepted");
  }
  const approval = approvalOf(crd);
  if (approval !== undefined) set(approvalCondition, approval.status, approval.reason, approval.message);
  const storage = crd.spec.versions.find((version) => version.storage)?.name;
  const stored = [...(before.storedVersions ?? [])];
  if (storage !== undefined && !stored.includes(storage)) stored.push(storage);
  return { ...before, acceptedNames, conditions, storedVersions: stored };
}

const approvalCondition = "KubernetesAPIApprovalPolicyConformant";
export const approvalAnnotation = "api-approved.kubernetes.io";
export const cleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io";

export function isEstablished(status: CustomResourceDefinitionStatus | undefined): boolean {
  return hasCondition(status, "Established");
}

export function isTerminating(status: CustomResourceDefinitionStatus | undefined): boolean {
  return hasCondition(status, "Terminating");
}

function hasCondition(status: CustomResourceDefinitionStatus | undefined, type: string): boolean {
  return status?.conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
}

/** The Terminating condition of a CRD that is being deleted. */
export function terminatingCondition(
  status: CustomResourceDefinitionStatus,
  phase: { done: boolean; message: string },
  nowMs: number,
): CustomResourceDefinitionStatus {
  const conditions = [...(status.conditions ?? [])];
  const reason = phase.done ? "InstanceDeletionCompleted" : "InstanceDeletionInProgress";
  const condition = { type: "Terminating", status: phase.done ? "False" : "True", reason, message: phase.message };
  setCondition(conditions, condition, nowMs);
  return { ...status, conditions };
}

interface Taken {
  /** Plurals, singulars and short names share one namespace. */
  readonly resources: Set<string>;
  readonly kinds: Set<string>;
}

function namesTaken(crd: CustomResourceDefinition, others: Iterable<CustomResourceDefinition>): Taken {
  const resources = new Set<string>();
  const kinds = new Set<string>();
  for (const builtin of builtinResources()) {
    if (builtin.group !== crd.spec.group) continue;
    for (const name of [builtin.plural, builtin.singular, ...builtin.shortNames]) resources.add(name);
    kinds.add(builtin.kind);
    kinds.add(builtin.listKind);
  }
  for (const other of others) {
    if (other.spec.group !== crd.spec.group || other.metadata.name === crd.metadata.name) continue;
    const names = other.status?.acceptedNames;
    if (names === undefined) continue;
    for (const name of [names.plural, names.singular ?? "", ...(names.shortNames ?? [])]) resources.add(name);
    kinds.add(names.kind);
    kinds.add(names.listKind ?? "");
  }
  return { resources, kinds };
}

function acceptNames(
  wanted: CustomResourceDefinitionNames,
  before: CustomResourceDefinitionNames | undefined,
  taken: Taken,
): { acceptedNames: CustomResourceDefinitionNames; conflict: { reason: string; name: string } | undefined } {
  const accepted: CustomResourceDefinitionNames = { ...(before ?? { plural: "", kind: "" }) };
  // The last conflict is the one that is reported.
  let conflict: { reason: string; name: string } | undefined;
  const refuse = (reason: string, name: string) => {
    conflict = { reason, name };
  };
  if (taken.resources.has(wanted.plural)) refuse("PluralConflict", wanted.plural);
  else accepted.plural = wanted.plural;
  if (wanted.singular !== undefined) {
    if (taken.resources.has(wanted.singular)) refuse("SingularConflict", wanted.singular);
    else accepted.singular = wanted.singular;
  }
  const clash = wanted.shortNames?.find((name) => taken.resources.has(name));
  if (clash !== undefined) refuse("ShortNamesConflict", clash);
  else assignOrDrop(accepted, "shortNames", wanted.shortNames);
  if (taken.kinds.has(wanted.kind)) refuse("KindConflict", wanted.kind);
  else accepted.kind = wanted.kind;
  if (wanted.listKind !== undefined) {
    if (taken.kinds.has(wanted.listKind)) refuse("ListKindConflict", wanted.listKind);
    else accepted.listKind = wanted.listKind;
  }
  assignOrDrop(accepted, "categories", wanted.categories);
  return { acceptedNames: accepted, conflict };
}

function assignOrDrop(
  names: CustomResourceDefinitionNames,
  field: "shortNames" | "categories",
  value: string[] | undefined,
) {
  if (value === undefined) delete names[field];
  else names[field] = value;
}

export type Approval = { status: boolean; reason: string; message: string };

/** Groups of the Kubernetes project need an approval annotation; other groups have no such condition. */
export function approvalOf(crd: CustomResourceDefinition): Approval | undefined {
  if (!isProtectedGroup(crd.spec.group ?? "")) return undefined;
  const annotation = crd.metadata.annotations?.[approvalAnnotation];
  if (annotation === undefined || annotation === "") {
    const message = `protected groups must have approval annotation ${JSON.stringify(approvalAnnotation)}, see https://github.com/kubernetes/enhancements/pull/1111`;
    return { status: false, reason: "MissingAnnotation", message };
  }
  if (annotation.startsWith("unapproved")) {
    return { status: false, reason: "UnapprovedAnnotation", message: `not approved: ${JSON.stringify(annotation)}` };
  }
  if (/^[a-z][a-z0-9+.-]*:\/\/[^/?#]+/i.test(annotation)) {
    return { status: true, reason: "ApprovedAnnotation", message: `approved in ${annotation}` };
  }
  const message = `protected groups must have approval annotation ${JSON.stringify(approvalAnnotation)} with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111`;
  return { status: false, reason: "InvalidAnnotation", message };
}

function isProtectedGroup(group: string): boolean {
  return ["k8s.io", "kubernetes.io"].some((suffix) => group === suffix || group.endsWith(`.${suffix}`));
}

function setCondition(
  conditions: CustomResourceDefinitionCondition[],
  next: { type: string; status: string; reason: string; message: string },
  nowMs: number,
): void {
  const at = conditions.findIndex((condition) => condition.type === next.type);
  const before = conditions[at];
  const changed = before === undefined || before.status !== next.status;
  const lastTransitionTime = changed ? formatTime(nowMs) : before.lastTransitionTime;
  const condition = { ...next, ...(lastTransitionTime === undefined ? {} : { lastTransitionTime }) };
  if (at < 0) conditions.push(condition);
  else conditions[at] = condition;
}
