import { beta1Claim, beta1ClaimTemplate, beta1Class, beta1Slice, sameFields } from "../model/deviceConversion.ts";
import type { Conversion } from "./builtinResource.ts";
import { eventConversion } from "./kinds/event.ts";
import { autoscalerConversion } from "./kinds/workloads/horizontalPodAutoscaler.ts";

/** Versions that are served but not stored, by `group/version/plural`. */
export const conversions: Readonly<Record<string, Conversion>> = {
  "autoscaling/v1/horizontalpodautoscalers": autoscalerConversion,
  "events.k8s.io/v1/events": eventConversion,
  "resource.k8s.io/v1beta1/deviceclasses": beta1Class,
  "resource.k8s.io/v1beta1/resourceclaims": beta1Claim,
  "resource.k8s.io/v1beta1/resourceclaimtemplates": beta1ClaimTemplate,
  "resource.k8s.io/v1beta1/resourceslices": beta1Slice,
  "resource.k8s.io/v1beta2/deviceclasses": sameFields,
  "resource.k8s.io/v1beta2/devicetaintrules": sameFields,
  "resource.k8s.io/v1beta2/resourceclaims": sameFields,
  "resource.k8s.io/v1beta2/resourceclaimtemplates": sameFields,
  "resource.k8s.io/v1beta2/resourceslices": sameFields,
};
