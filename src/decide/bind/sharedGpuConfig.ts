/**
 * The two ConfigMaps from which the container of a pod with GPU shares reads its devices. Admission writes their names
 * into an annotation of the pod; the kubelet waits for them.
 */
import type { NewObject } from "../../model/intent.ts";
import type { Container, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { attemptAnnotation } from "./attemptMark.ts";
import { mpsVariables } from "./mpsLimits.ts";

export const configMapsRef = builtin.ConfigMap;

export const variables = {
  devices: "NVIDIA_VISIBLE_DEVICES",
  portion: "GPU_PORTION",
  /** The older name of the portion. */
  gpus: "RUNAI_NUM_OF_GPUS",
  /** Updated only in a ConfigMap that another controller created. */
  legacyDevices: "RUNAI-VISIBLE-DEVICES",
} as const;

const cdiPrefix = "k8s.device-plugin.nvidia.com/gpu=";

export interface FractionContainer {
  readonly container: Container;
  /** `0`, or `i0` for an init container. */
  readonly place: string;
}

/** The container with the GPU share: the one that the annotation names, else the first. */
export function fractionContainer(pod: Pod): FractionContainer | undefined {
  const name = pod.metadata.annotations?.[annotationKeys.gpuFractionContainer];
  const { initContainers = [], containers = [] } = pod.spec ?? { containers: [] };
  if (name === undefined) {
    const [container] = containers;
    return container === undefined ? undefined : { container, place: "0" };
  }
  const init = initContainers.findIndex((each) => each.name === name);
  if (init >= 0) return { container: initContainers[init] as Container, place: `i${init}` };
  const at = containers.findIndex((each) => each.name === name);
  return at < 0 ? undefined : { container: containers[at] as Container, place: String(at) };
}

/** The names of both, or undefined for a pod that was not admitted by Muster. */
export function configMapNames(pod: Pod): { capabilities: string; environment: string } | undefined {
  const prefix = pod.metadata.annotations?.[annotationKeys.sharedGpuConfigMap];
  const found = fractionContainer(pod);
  if (prefix === undefined || found === undefined) return undefined;
  const capabilities = `${prefix}-${found.place}`;
  return { capabilities, environment: `${capabilities}-evar` };
}

/** Both ConfigMaps with their complete data, which does not depend on what other clients have written. */
export function sharedGpuConfig(
  pod: Pod,
  share: {
    readonly devices: readonly string[];
    readonly portion: string;
    readonly cdi: boolean;
    readonly attempt: string;
    /** Variables that enforce the share of the container. */
    readonly limits?: Readonly<Record<string, string>> | undefined;
  },
): NewObject[] {
  const names = configMapNames(pod);
  const found = fractionContainer(pod);
  if (names === undefined || found === undefined) return [];
  const devices = share.devices.map((device) => (share.cdi ? `${cdiPrefix}${device}` : device)).join(",");
  const fromMap = (found.container.env ?? []).some(
    ({ name, valueFrom }) => name === variables.devices && valueFrom?.configMapKeyRef !== undefined,
  );
  const visible = { [variables.devices]: devices };
  const portion = { [variables.gpus]: share.portion, [variables.portion]: share.portion };
  return [
    configMap(pod, names.capabilities, { ...(fromMap ? visible : {}), ...portion }, share.attempt),
    configMap(pod, names.environment, { ...(fromMap ? {} : visible), ...share.limits }, share.attempt),
  ];
}

/**
 * The update of an existing ConfigMap: of the same pod, its values are updated and other keys stay; of another owner,
 * it is replaced. Undefined when it is up to date and marked with this attempt.
 */
export function mergedConfigMap(existing: KubeObject, wanted: NewObject): KubeObject | undefined {
  const data = (existing["data"] ?? {}) as Record<string, string>;
  const values = wanted["data"] as Record<string, string>;
  const ownedBy = wanted.metadata["ownerReferences"] as KubeObject["metadata"]["ownerReferences"];
  const isSameOwner = existing.metadata.ownerReferences?.some(({ uid }) => uid === ownedBy?.[0]?.uid) === true;
  const mark = (wanted.metadata["annotations"] as Record<string, string>)[attemptAnnotation] ?? "";
  const annotations = { ...existing.metadata.annotations, [attemptAnnotation]: mark };
  if (!isSameOwner) {
    return {
      ...existing,
      metadata: { ...existing.metadata, annotations, ownerReferences: ownedBy ?? [] },
      data: values,
    };
  }
  const legacy = data[variables.legacyDevices];
  const devices = values[variables.devices];
  const merged: Record<string, string> = { ...data, ...values };
  // Removes limits of an earlier attempt on another node.
  for (const key of Object.values(mpsVariables)) if (!(key in values)) delete merged[key];
  if (legacy !== undefined && devices !== undefined) merged[variables.legacyDevices] = devices;
  const isMarked = existing.metadata.annotations?.[attemptAnnotation] === mark;
  const keys = new Set([...Object.keys(merged), ...Object.keys(data)]);
  const isRight = isMarked && [...keys].every((key) => merged[key] === data[key]);
  return isRight ? undefined : { ...existing, metadata: { ...existing.metadata, annotations }, data: merged };
}

function configMap(pod: Pod, name: string, data: Record<string, string>, attempt: string): NewObject {
  const { namespace = "", uid, name: podName } = pod.metadata;
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      name,
      namespace,
      annotations: { [attemptAnnotation]: attempt },
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: podName, uid }],
    },
    data,
  };
}
