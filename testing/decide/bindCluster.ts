/** Small builders for the tests of this folder: everything has a default. */

import type { GroupView } from "../../src/decide/bind/judgeGroup.ts";
import { devicesAnnotation, holdersAnnotation } from "../../src/decide/bind/reservation.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import type { BindRequest } from "../../src/model/scheduling/bindRequest.ts";
import {
  annotationKeys,
  labelKeys,
  reservationAppLabel,
  reservationNamespace,
} from "../../src/model/scheduling/keys.ts";

export interface PodOptions {
  readonly name?: string;
  readonly uid?: string;
  readonly node?: string | undefined;
  readonly phase?: string;
  readonly groups?: readonly string[];
  readonly device?: string;
  readonly isGoing?: boolean;
  readonly annotations?: Record<string, string>;
  readonly spec?: object;
}

/** A pod that shares GPUs, Running on n1 by default. */
export function userPod(given: PodOptions = {}): Pod {
  const { name = "f", uid = `uid-${name}`, phase = "Running", groups = ["X"], device, annotations = {} } = given;
  const node = "node" in given ? given.node : "n1";
  const labels: Record<string, string> = {};
  if (groups.length === 1) labels[labelKeys.gpuGroup] = groups[0] ?? "";
  else for (const group of groups) labels[`${labelKeys.gpuGroupPrefix}${group}`] = group;
  const devices = device === undefined ? {} : { [devicesAnnotation]: JSON.stringify({ [groups[0] ?? ""]: device }) };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "team",
      uid,
      resourceVersion: "5",
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels,
      annotations: { ...devices, ...annotations },
      ...(given.isGoing === true ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    spec: {
      containers: [{ name: "main", image: "i" }],
      ...(node === undefined ? {} : { nodeName: node }),
      ...given.spec,
    },
    status: { phase },
  };
}

/** A reservation of group X on n1, or for it, by default with device GPU-1 and without holders. */
export function reserved(
  given: PodOptions & { readonly holders?: Record<string, string>; readonly group?: string } = {},
): Pod {
  const { name = "r", holders = {}, group = "X", device = "GPU-1", ...rest } = given;
  const pod = userPod({ name, groups: [group], ...rest });
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      namespace: reservationNamespace,
      labels: { ...pod.metadata.labels, [labelKeys.app]: reservationAppLabel },
      annotations: {
        [holdersAnnotation]: JSON.stringify(holders),
        ...(pod.spec?.nodeName === undefined ? { [annotationKeys.reservesOn]: "n1" } : {}),
        ...(device === "" ? {} : { [annotationKeys.reservedGpu]: device }),
      },
    },
  };
}

export function request(
  given: {
    readonly name?: string;
    readonly podUid?: string;
    readonly phase?: string;
    readonly groups?: readonly string[];
    readonly attempts?: number;
    readonly limit?: number;
    readonly type?: string;
    readonly node?: string;
    readonly spec?: object;
    readonly annotations?: Record<string, string>;
  } = {},
): BindRequest {
  const {
    name = "f",
    podUid = `uid-${name}`,
    phase,
    groups = ["X"],
    attempts,
    limit,
    type = "Fraction",
    node = "n1",
  } = given;
  return {
    apiVersion: "scheduling.run.ai/v1alpha2",
    kind: "BindRequest",
    metadata: {
      name,
      namespace: "team",
      uid: `br-${name}`,
      resourceVersion: "7",
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations: given.annotations ?? {},
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid: podUid }],
    },
    spec: {
      podName: name,
      selectedNode: node,
      receivedResourceType: type,
      selectedGPUGroups: [...groups],
      receivedGPU: { count: groups.length, portion: "0.50" },
      ...(limit === undefined ? {} : { backoffLimit: limit }),
      ...given.spec,
    },
    ...(phase === undefined
      ? {}
      : { status: { phase, ...(attempts === undefined ? {} : { failedAttempts: attempts }) } }),
  } as BindRequest;
}

export function node(name = "n1"): Node {
  return { apiVersion: "v1", kind: "Node", metadata: { name, uid: `uid-${name}` }, status: {} } as Node;
}

export function group(given: Partial<GroupView> = {}): GroupView {
  return { group: "X", node: "n1", reservations: [], users: [], requests: [], holders: [], canPin: false, ...given };
}
