import type { CertificateSigningRequest, Pod } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { approvalStatus, conditionErrors, withConditionTimes } from "../kinds/certificateSigningRequest.ts";
import { prepareEphemeralContainers, validateEphemeralContainers } from "../kinds/pods/ephemeralContainers.ts";
import { preparePodResize, validatePodResize } from "../kinds/pods/podResize.ts";
import type { Target } from "./core.ts";
import type { Change } from "./update.ts";

/** A subresource that reads the object and writes some of its fields. */
export type SubresourceStrategy = Pick<Change, "restrict" | "validate">;

/** The strategy of a subresource; undefined for the object itself and for `status`, which the verbs handle. */
export function subresourceStrategyOf({ resource, subresource }: Target): SubresourceStrategy | undefined {
  return subresource === "" ? undefined : subresourceStrategies[`${resource.type.storageKey}/${subresource}`];
}

const subresourceStrategies: Readonly<Record<string, SubresourceStrategy>> = {
  "/pods/ephemeralcontainers": {
    restrict: (next, current) => restrictPod(next, current, prepareEphemeralContainers),
    validate: (next, current) => validateEphemeralContainers(asPod(next), asPod(current)),
  },
  "/pods/resize": {
    restrict: (next, current) => restrictPod(next, current, preparePodResize),
    validate: (next, current) => validatePodResize(asPod(next), asPod(current)),
  },
  "/namespaces/finalize": {
    restrict: (next, current) => {
      const sent = isObject(next["spec"]) ? next["spec"]["finalizers"] : undefined;
      const spec = { ...(isObject(current["spec"]) ? current["spec"] : {}) };
      if (Array.isArray(sent) && sent.length > 0) spec["finalizers"] = sent;
      else delete spec["finalizers"];
      return { ...current, metadata: { ...current.metadata }, spec };
    },
    validate: () => [],
  },
  "certificates.k8s.io/certificatesigningrequests/approval": {
    restrict: (next, current, nowMs) =>
      withConditionTimes(
        { ...asRequest(current), metadata: next.metadata, status: approvalStatus(asRequest(next), asRequest(current)) },
        asRequest(current),
        nowMs,
      ),
    validate: (next, current) => conditionErrors(asRequest(next), asRequest(current)),
  },
};

function asRequest(object: KubeObject): CertificateSigningRequest {
  return object as CertificateSigningRequest;
}

function restrictPod(next: KubeObject, current: KubeObject, prepare: (next: Pod, current: Pod) => void): KubeObject {
  if (current["status"] !== undefined) next["status"] = current["status"];
  prepare(asPod(next), asPod(current));
  return next;
}

function asPod(object: Pod): Pod {
  return object;
}
