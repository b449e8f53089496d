import type { Job, JobSpec, PodSpec, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required, tooLong } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { dnsLabelErrors } from "../../../model/objects/names.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { setPodTemplateDefaults } from "../pods/podTemplate.ts";
import { warnAboutTemplate } from "../pods/podWarnings.ts";
import { checkJobSpec } from "./jobSpec.ts";
import { checkJobStatusChange } from "./jobStatus.ts";

const int32Max = 2 ** 31 - 1;
const uidLabel = "batch.kubernetes.io/controller-uid";
const uidLabelOld = "controller-uid";
const nameLabel = "batch.kubernetes.io/job-name";
const nameLabelOld = "job-name";

export const jobStrategy = strategyOfKind<Job>({
  generation: "spec",
  orphansByDefault: true,
  orphanWarning:
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
  setDefaults(job) {
    if (job.spec === undefined) return;
    setJobSpecDefaults(job.spec);
    // A Job without labels gets those of its pod template.
    const labels = job.spec.template?.metadata?.labels;
    if (labels !== undefined && Object.keys(job.metadata.labels ?? {}).length === 0)
      job.metadata.labels = { ...labels };
  },
  prepareForCreate(job, context) {
    const spec = job.spec;
    if (spec === undefined) return;
    warnAboutTemplate(spec.template, "spec.template", context.warn);
    if (spec.manualSelector !== true) generateSelector(job, spec);
    // As in setDefaults, and here with the generated labels: `kubectl get jobs -l job-name=x` also finds a Job that was
    // sent without labels.
    const labels = spec.template?.metadata?.labels;
    if (labels !== undefined && Object.keys(job.metadata.labels ?? {}).length === 0)
      job.metadata.labels = { ...labels };
    const problems = dnsLabelErrors(job.metadata.name);
    if (problems.length > 0) {
      const text = `metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [${problems.join(" ")}]`;
      context.warn(text);
    }
  },
  validate(job) {
    const errors: FieldError[] = [];
    if (job.spec === undefined) return [required("spec.template")];
    checkGeneratedSelector(job, job.spec, errors);
    checkJobSpec(job.spec, "spec", errors);
    const { completions, completionMode } = job.spec;
    if (completionMode === "Indexed" && completions !== undefined && completions > 0) {
      const hostname = `${job.metadata.name}-${completions - 1}`;
      if (dnsLabelErrors(hostname).length > 0) {
        const detail = `will not able to create pod with invalid DNS label: ${hostname}`;
        errors.push(invalid("metadata.name", job.metadata.name, detail));
      }
    }
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    if (next.spec === undefined || old.spec === undefined) return [required("spec.template")];
    checkJobSpec(next.spec, "spec", errors);
    checkJobSpecChange(next.spec, old, errors);
    return errors;
  },
  validateStatusUpdate(next, old) {
    const errors: FieldError[] = [];
    checkJobStatusChange(next, old, errors);
    return errors;
  },
  selectFields: (job) => [String(job.status?.succeeded ?? 0)],
});

export function setJobSpecDefaults(spec: JobSpec): void {
  if (spec.completions === undefined && spec.parallelism === undefined) {
    spec.completions = 1;
    spec.parallelism = 1;
  }
  spec.parallelism ??= 1;
  // With backoffLimitPerIndex the default total would end the Job long before its indexes do.
  spec.backoffLimit ??= spec.backoffLimitPerIndex !== undefined ? int32Max : 6;
  spec.completionMode ??= "NonIndexed";
  spec.suspend ??= false;
  spec.podReplacementPolicy ??= spec.podFailurePolicy !== undefined ? "Failed" : "TerminatingOrFailed";
  spec.manualSelector ??= false;
  for (const rule of spec.podFailurePolicy?.rules ?? []) {
    for (const pattern of rule.onPodConditions ?? []) pattern.status ||= "True";
  }
  setPodTemplateDefaults(spec.template);
}

/** Labels that no pod of another Job can have, so that Jobs never adopt each other's pods. */
function generateSelector(job: Job, spec: JobSpec): void {
  spec.template ??= {};
  spec.template.metadata ??= {};
  const { uid, name } = job.metadata;
  const labels = { ...spec.template.metadata.labels };
  // Labels set by the user are kept; validation rejects them if they are wrong.
  labels[nameLabelOld] ??= name;
  labels[nameLabel] ??= name;
  labels[uidLabelOld] ??= uid;
  labels[uidLabel] ??= uid;
  spec.template.metadata.labels = labels;
  spec.selector ??= {};
  spec.selector.matchLabels = { ...spec.selector.matchLabels, [uidLabel]: uid };
}

function checkGeneratedSelector(job: Job, spec: JobSpec, errors: FieldError[]): void {
  if (spec.manualSelector === true || spec.selector === undefined) return;
  const { uid, name } = job.metadata;
  const expected: Record<string, string> = {
    [uidLabelOld]: uid,
    [nameLabelOld]: name,
    [uidLabel]: uid,
    [nameLabel]: name,
  };
  for (const [key, value] of Object.entries(expected)) {
    const actual = spec.template?.metadata?.labels?.[key];
    const path = `spec.template.metadata.labels[${key}]`;
    if (actual === undefined) errors.push(required(path, `must be '${value}'`));
    else if (actual !== value) {
      errors.push(invalid("spec.template.metadata.labels", spec.template?.metadata?.labels, `must be '${value}'`));
    }
  }
  const wrong = Object.entries(spec.selector.matchLabels ?? {}).some(([key, value]) => expected[key] !== value);
  if (wrong) errors.push(invalid("spec.selector", spec.selector, "`selector` not auto-generated"));
}

function checkJobSpecChange(next: JobSpec, oldJob: Job, errors: FieldError[]): void {
  const old = oldJob.spec;
  if (old === undefined) return;
  if (next.completions !== old.completions) {
    const isElastic =
      next.completionMode === "Indexed" && next.completions !== undefined && old.completions !== undefined;
    if (!isElastic) checkImmutable(next.completions, old.completions, "spec.completions", errors);
    else if (next.completions !== next.parallelism) {
      const detail = "can only be modified in tandem with spec.parallelism";
      errors.push(invalid("spec.completions", next.completions, detail));
    }
  }
  checkImmutable(next.selector, old.selector, "spec.selector", errors);
  const isSuspended = old.suspend === true;
  const maySchedulingChange =
    isSuspended &&
    (oldJob.status?.active ?? 0) === 0 &&
    (oldJob.status?.startTime === undefined ||
      oldJob.status.conditions?.some(({ type, status }) => type === "Suspended" && status === "True") === true);
  const oldTemplate = maySchedulingChange ? withSchedulingOf(old.template, next.template) : old.template;
  checkImmutable(next.template, oldTemplate, "spec.template", errors);
  for (const field of [
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
  ] as const) {
    checkImmutable(next[field], old[field], `spec.${field}`, errors);
  }
  if (next.managedBy !== undefined && next.managedBy.length > 63) errors.push(tooLong("spec.managedBy", 63));
}

/**
 * The old template with the fields of the next one that may change while a suspended Job has no pods: metadata, node
 * selection, tolerations, scheduling gates and resources.
 */
function withSchedulingOf(old: PodTemplateSpec, next: PodTemplateSpec): PodTemplateSpec {
  const spec: PodSpec = { ...(old.spec ?? { containers: [] }) };
  for (const field of ["nodeSelector", "tolerations", "schedulingGates"] as const) {
    const value = next.spec?.[field];
    delete spec[field];
    if (value !== undefined) Object.assign(spec, { [field]: value });
  }
  const { nodeAffinity: _, ...oldOthers } = spec.affinity ?? {};
  const nodeAffinity = next.spec?.affinity?.nodeAffinity;
  const affinity = nodeAffinity === undefined ? oldOthers : { ...oldOthers, nodeAffinity };
  if (Object.keys(affinity).length > 0 || next.spec?.affinity !== undefined) spec.affinity = affinity;
  else delete spec.affinity;
  for (const field of ["containers", "initContainers"] as const) {
    const nextList = next.spec?.[field];
    if (nextList === undefined || spec[field]?.length !== nextList.length) continue;
    spec[field] = spec[field].map((container, i) => {
      const asked = nextList[i];
      if (asked?.name !== container.name || equalJson(asked.resources, container.resources)) return container;
      const { resources: _resources, ...rest } = container;
      return asked.resources === undefined ? rest : { ...rest, resources: asked.resources };
    });
  }
  const template: PodTemplateSpec = { ...old, spec };
  // All metadata may change: only its labels and annotations are copied to pods.
  if (next.metadata === undefined) delete template.metadata;
  else template.metadata = next.metadata;
  return template;
}
