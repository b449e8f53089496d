import type { Pod, PodSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid } from "../../../model/objects/fieldError.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { applyLimitRangeDefaults, enforceLimitRangesOnPod } from "../policy/limitRangeAdmission.ts";
import { expandLabelKeys } from "./labelKeyExpansion.ts";
import { admitPod, admitPodUpdate } from "./podAdmission.ts";
import { setPodDefaults } from "./podDefaults.ts";
import { podQosOf } from "./podQos.ts";
import { checkPodStatusUpdate, keepUnsentStatus } from "./podStatusUpdate.ts";
import { checkPodSpecUpdate } from "./podUpdate.ts";
import { warnAboutPodSpec } from "./podWarnings.ts";
import { checkPodSpec } from "./validation/podSpecValidation.ts";

const noSpec: PodSpec = { containers: [] };

export const podStrategy = strategyOfKind<Pod>({
  generation: "spec",
  returnsDeleted: true,
  statusKeeps: "ownerReferences",

  setDefaults: setPodDefaults,

  prepareForCreate(pod, context) {
    const spec = pod.spec;
    if (spec === undefined) return;
    warnAboutPodSpec(spec, "spec", context.warn);
    applyLimitRangeDefaults(pod, context);
    admitPod(pod, context);
    expandLabelKeys(pod);
    pod.status = { phase: "Pending", qosClass: podQosOf(spec) };
    if ((spec.schedulingGates ?? []).length > 0) {
      pod.status.conditions = [
        {
          type: "PodScheduled",
          status: "False",
          reason: "SchedulingGated",
          message: "Scheduling is blocked due to non-empty scheduling gates",
        },
      ];
    }
  },

  validate(pod, context) {
    enforceLimitRangesOnPod(pod, context);
    const errors: FieldError[] = [];
    const spec = pod.spec ?? noSpec;
    checkPodSpec(spec, "spec", errors, pod.metadata.name);
    checkImagePadding(spec, errors);
    if ((spec.ephemeralContainers ?? []).length > 0) {
      errors.push(forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if (spec.nodeName && (spec.schedulingGates ?? []).length > 0) {
      const detail = "cannot be set until all schedulingGates have been cleared";
      errors.push(forbidden("spec.nodeName", detail));
    }
    return errors;
  },

  prepareForUpdate(next, old) {
    // The spec may be shared between attempts of one request.
    if (next.spec !== undefined) next.spec = { ...next.spec };
    admitPodUpdate(next, old);
  },

  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    const spec = next.spec ?? noSpec;
    checkPodSpec(spec, "spec", errors, next.metadata.name);
    checkImagePadding(spec, errors);
    checkPodSpecUpdate(spec, old.spec ?? noSpec, errors);
    return errors;
  },

  validateStatusUpdate(next, old) {
    const errors: FieldError[] = [];
    next.status ??= {};
    keepUnsentStatus(next.status, old.status ?? {});
    checkPodStatusUpdate(next, old, errors);
    return errors;
  },

  /** A pod without a node, or a finished one, has no kubelet to wait for. */
  graceSeconds(pod, requested) {
    if (!pod.spec?.nodeName) return 0;
    if (pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded") return 0;
    const seconds = requested ?? pod.spec.terminationGracePeriodSeconds ?? 0;
    return seconds < 0 ? 1 : seconds;
  },

  selectFields(pod) {
    const { spec, status } = pod;
    return [
      spec?.nodeName ?? "",
      spec?.restartPolicy ?? "",
      spec?.schedulerName ?? "",
      spec?.serviceAccountName ?? "",
      spec?.hostNetwork === true ? "true" : "false",
      status?.phase ?? "",
      status?.podIP ?? "",
      status?.podIPs === undefined ? "" : status.podIPs.map(({ ip }) => ip).join(","),
      status?.nominatedNodeName ?? "",
    ];
  },
});

/** Only pods are rejected for it: stored templates may have such images. */
function checkImagePadding(spec: PodSpec, errors: FieldError[]): void {
  for (const field of ["containers", "initContainers"] as const) {
    const containers = spec[field];
    if (containers === undefined) continue;
    for (let i = 0; i < containers.length; i++) {
      const image = containers[i]?.image;
      if (image !== undefined && image.trim().length !== image.length) {
        const detail = "must not have leading or trailing whitespace";
        errors.push(invalid(`spec.${field}[${i}].image`, image, detail));
      }
    }
  }
}
