import type { Pod } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { prepareEphemeralContainers, validateEphemeralContainers } from "../kinds/pods/ephemeralContainers.ts";
import { preparePodResize, validatePodResize } from "../kinds/pods/podResize.ts";
import type { Target } from "./core.ts";
import type { Change } from "./update.ts";

/** A subresource that reads and writes the whole object, and lets only some of it through. */
export type SubresourceStrategy = Pick<Change, "restrict" | "validate">;

/** The door of a target; none for the object itself and for `status`, which the verbs know. */
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
    restrict: (next, current) => {
      const sent = isObject(next["status"]) ? next["status"]["conditions"] : undefined;
      const status = { ...(isObject(current["status"]) ? current["status"] : {}) };
      if (sent !== undefined) status["conditions"] = sent;
      return { ...current, metadata: next.metadata, status };
    },
    validate: () => [],
  },
};

function restrictPod(next: KubeObject, current: KubeObject, prepare: (next: Pod, current: Pod) => void): KubeObject {
  if (current["status"] !== undefined) next["status"] = current["status"];
  prepare(asPod(next), asPod(current));
  return next;
}

function asPod(object: Pod): Pod {
  return object;
}
