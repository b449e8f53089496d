/**
 * Admission of pods that request a GPU share: validation, and the fields that are added to them. The container reads
 * its devices from ConfigMaps that the binder writes later, and the kubelet waits for those. Adding the fields twice
 * changes nothing.
 */

import type { Container, EnvVar, Pod } from "../../model/kubernetes.generated.ts";
import type { AdmissionHook, AdmissionRequest, AdmissionVerdict } from "../../model/objects/admissionHook.ts";
import { describeFieldError, type FieldError, forbidden, invalid } from "../../model/objects/fieldError.ts";
import { decimalNumber } from "../../model/scheduling/gpuRequest.ts";
import { annotationKeys, kaiSchedulerName } from "../../model/scheduling/keys.ts";
import { quantityError } from "../../model/values/quantity.ts";
import { sha256Hex } from "../../model/values/sha256.ts";
import { podsRef } from "./reservation.ts";
import { type FractionContainer, fractionContainer, variables } from "./sharedGpuConfig.ts";

export interface FractionRules {
  /** Whether GPU sharing is enabled. */
  readonly gpuSharing: boolean;
  /** The runtime class of pods that share, unless they name one. */
  readonly runtimeClassName: string | undefined;
  /** The schedulers whose pods are admitted by these rules. */
  readonly schedulerNames: readonly string[];
}

export const fractionRules: FractionRules = {
  gpuSharing: true,
  runtimeClassName: undefined,
  schedulerNames: [kaiSchedulerName],
};

/** The refusal where GPU sharing is disabled. `muster why` finds it again in Events. */
export const sharingOff = "GPU sharing is disabled; request whole GPUs";

/** Smaller shares are refused: a GPU has a hundred sharers at most, about as many as a node has pods. */
export const fractionMin = 0.01;
/** Less than the context of a CUDA program takes. */
export const gpuMemoryMinMiB = 100;

const wholeGpu = "nvidia.com/gpu";
const wholeNumber = /^[0-9]+$/;

export function fractionHooks(rules: FractionRules = fractionRules): AdmissionHook<Pod>[] {
  const concerns = ({ object: pod }: AdmissionRequest<Pod>): Pod | undefined =>
    pod !== undefined && rules.schedulerNames.includes(pod.spec?.schedulerName ?? "") ? pod : undefined;
  const isOurs = `object.spec.schedulerName in ${JSON.stringify(rules.schedulerNames)}`;
  return [
    {
      name: "shares.mutate.bind.muster.dev",
      type: "mutating",
      resource: podsRef,
      operations: ["CREATE"],
      prefilter: { expression: isOurs },
      review(request) {
        const pod = concerns(request);
        if (pod === undefined || fractionErrors(pod, rules).length > 0) return { allowed: true };
        const changed = sharedPod(pod, rules, request.uid);
        return changed === undefined ? { allowed: true } : { allowed: true, object: changed };
      },
    },
    {
      name: "shares.validate.bind.muster.dev",
      type: "validating",
      resource: podsRef,
      operations: ["CREATE", "UPDATE"],
      // Other updates of existing pods, such as finalizers and labels, do not call the webhook: they must be possible
      // while the binder is down.
      prefilter: { expression: `${isOurs} && (oldObject == null || ${shareChanges})` },
      review(request) {
        const pod = concerns(request);
        if (pod === undefined || !asksAnew(request)) return { allowed: true };
        return verdictOf(fractionErrors(pod, rules));
      },
    },
  ];
}

/** The annotations by which a pod requests a GPU share. Its limits and the names of its containers are immutable. */
const shareKeys = [
  annotationKeys.gpuFraction,
  annotationKeys.gpuMemory,
  annotationKeys.gpuFractionDevices,
  annotationKeys.gpuFractionContainer,
  annotationKeys.mps,
];

/** The same as `asksAnew`, for the API server. */
const shareChanges = `${JSON.stringify(shareKeys)}.exists(k, object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k])`;

function asksAnew({ object, oldObject }: AdmissionRequest): boolean {
  if (oldObject === undefined) return true;
  const [now, before] = [object?.metadata.annotations ?? {}, oldObject.metadata.annotations ?? {}];
  return shareKeys.some((key) => now[key] !== before[key]);
}

/** The first error in how the pod requests GPUs. Only one is returned, because fixing it may change the others. */
export function fractionErrors(pod: Pod, rules: FractionRules): FieldError[] {
  const annotations = pod.metadata.annotations ?? {};
  const at = (key: string): string => `metadata.annotations[${key}]`;
  const { gpuFraction, gpuMemory, gpuFractionDevices, gpuFractionContainer, mps } = annotationKeys;
  const fraction = annotations[gpuFraction];
  const memory = annotations[gpuMemory];
  const devices = annotations[gpuFractionDevices];
  const isShared = fraction !== undefined || memory !== undefined;
  if (isShared && !rules.gpuSharing) {
    const key = fraction === undefined ? gpuMemory : gpuFraction;
    return [forbidden(at(key), sharingOff)];
  }
  if (annotations[mps] === "true" && !isShared)
    return [forbidden(at(mps), `may be set only beside ${gpuFraction} or ${gpuMemory}`)];
  if (fraction !== undefined && hasWholeGpu(pod)) {
    return [forbidden(at(gpuFraction), `may not be set beside a limit of ${wholeGpu}`)];
  }
  if (memory !== undefined && (fraction !== undefined || hasWholeGpu(pod))) {
    return [
      forbidden(
        at(gpuMemory),
        `may not be set beside ${fraction === undefined ? `a limit of ${wholeGpu}` : gpuFraction}`,
      ),
    ];
  }
  if (devices !== undefined && !isShared) {
    return [forbidden(at(gpuFractionDevices), `may be set only beside ${gpuFraction} or ${gpuMemory}`)];
  }
  if (memory !== undefined && !isPositiveWhole(memory)) {
    return [invalid(at(gpuMemory), memory, "must be a whole number of MiB above 0")];
  }
  if (memory !== undefined && Number(memory) < gpuMemoryMinMiB) {
    return [invalid(at(gpuMemory), memory, `must be at least ${gpuMemoryMinMiB} MiB`)];
  }
  if (fraction !== undefined) {
    const share = decimalNumber.test(fraction) ? Number(fraction) : Number.NaN;
    if (!(share > 0 && share < 1)) {
      return [
        invalid(
          at(gpuFraction),
          fraction,
          "must be a decimal number above 0 and below 1.0; for a whole GPU set a limit",
        ),
      ];
    }
    if (quantityError(fraction) !== undefined) {
      return [invalid(at(gpuFraction), fraction, "must be written as a decimal number, or in scientific notation")];
    }
    if (share < fractionMin) return [invalid(at(gpuFraction), fraction, `must be at least ${fractionMin}`)];
  }
  if (devices !== undefined && !isPositiveWhole(devices)) {
    return [invalid(at(gpuFractionDevices), devices, "must be a whole number above 0")];
  }
  const container = annotations[gpuFractionContainer];
  if (isShared && container !== undefined && fractionContainer(pod) === undefined) {
    return [invalid(at(gpuFractionContainer), container, "must be the name of a container of the pod")];
  }
  return [];
}

/** The pod with everything that a share needs; undefined when there is nothing to add. */
export function sharedPod(pod: Pod, rules: FractionRules, requestUid: string): Pod | undefined {
  const annotations = pod.metadata.annotations ?? {};
  const isShared = annotationKeys.gpuFraction in annotations || annotationKeys.gpuMemory in annotations;
  const found = fractionContainer(pod);
  if (!isShared || found === undefined || pod.spec === undefined) return undefined;
  const prefix = annotations[annotationKeys.sharedGpuConfigMap] ?? configMapPrefix(pod, found.place, requestUid);
  const capabilities = `${prefix}-${found.place}`;
  const container = withConfig(found.container, capabilities);
  const volume = { name: volumeName(capabilities), configMap: { name: capabilities } };
  const volumes = pod.spec.volumes ?? [];
  const { runtimeClassName } = rules;
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations: { ...annotations, [annotationKeys.sharedGpuConfigMap]: prefix } },
    spec: {
      ...pod.spec,
      ...replaced(pod.spec, found, container),
      volumes: volumes.some(({ name }) => name === volume.name) ? volumes : [...volumes, volume],
      ...(runtimeClassName === undefined || pod.spec.runtimeClassName !== undefined ? {} : { runtimeClassName }),
    },
  };
}

function replaced(
  spec: NonNullable<Pod["spec"]>,
  { container, place }: FractionContainer,
  changed: Container,
): Pick<NonNullable<Pod["spec"]>, "containers" | "initContainers"> {
  const swap = (each: Container): Container => (each === container ? changed : each);
  if (!place.startsWith("i")) return { containers: spec.containers.map(swap) };
  return { containers: spec.containers, initContainers: (spec.initContainers ?? []).map(swap) };
}

function withConfig(container: Container, capabilities: string): Container {
  const names = [variables.devices, variables.gpus, variables.portion];
  const added: EnvVar[] = names.map((name) => ({
    name,
    valueFrom: { configMapKeyRef: { name: capabilities, key: name } },
  }));
  const env = [...(container.env ?? []).filter(({ name }) => !(names as string[]).includes(name)), ...added];
  const environment = `${capabilities}-evar`;
  const envFrom = container.envFrom ?? [];
  const isThere = envFrom.some(({ configMapRef }) => configMapRef?.name === environment);
  const source = { configMapRef: { name: environment, optional: false } };
  return { ...container, env, envFrom: isThere ? envFrom : [...envFrom, source] };
}

/**
 * `<base>-<7 characters>-shared-gpu`. Pods of one controller cannot be distinguished when they are created: they have
 * no name and no UID yet. The request that creates each of them has a UID.
 */
function configMapPrefix(pod: Pod, place: string, requestUid: string): string {
  const { ownerReferences = [], name = "", generateName = "", namespace = "" } = pod.metadata;
  const base = ownerReferences[0]?.name ?? (name || generateName);
  const digits = place.replace(/^i/, "").length;
  const cut = base.slice(0, 63 - 13 - 10 - digits - 1 - 5).replace(/[.-]+$/, "");
  const hash = Number.parseInt(sha256Hex(`${namespace}/${name}/${requestUid}`, 6), 16);
  return `${cut}-${hash.toString(36).padStart(7, "0").slice(-7)}-shared-gpu`;
}

/** Names of volumes must not contain dots. */
function volumeName(configMap: string): string {
  return `${configMap}-vol`
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, "-")
    .replace(/^-+|-+$/g, "");
}

function hasWholeGpu({ spec }: Pod): boolean {
  const all = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
  return all.some(({ resources }) => resources?.limits?.[wholeGpu] !== undefined);
}

function isPositiveWhole(text: string): boolean {
  return wholeNumber.test(text) && Number(text) > 0 && Number.isSafeInteger(Number(text));
}

function verdictOf(errors: readonly FieldError[]): AdmissionVerdict {
  if (errors.length === 0) return { allowed: true };
  return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
}
