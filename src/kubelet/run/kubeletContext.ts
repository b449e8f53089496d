import type { NewestOf } from "../../control/cache/newestOf.ts";
import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { ControlPorts } from "../../control/runtime/controllers.ts";
import type { EventRecorder } from "../../control/runtime/eventRecorder.ts";
import type { Lease, Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { EventTarget, NodeEvent } from "../node/nodeWrite.ts";
import type { Stage } from "../stages/stage.ts";
import type { FaultRegistry } from "./faultRegistry.ts";
import type { NodesOptions } from "./nodesOptions.ts";

/** What the reconciles of all nodes share. */
export interface KubeletContext {
  readonly ports: ControlPorts;
  readonly options: NodesOptions;
  readonly nodes: NewestOf<Node>;
  readonly leases: NewestOf<Lease>;
  readonly faults: FaultRegistry;
  readonly recorder: EventRecorder;
  /** Undefined where the server has no Dynamic Resource Allocation. */
  readonly dra: DraContext | undefined;
  /** Stages that users have created, by `apiVersion/kind`; a kind without any has the built-in behaviour. */
  readonly stages: ReadonlyMap<string, readonly Stage[]>;
  /** The nodes on which a claim is prepared, whatever the current state of the claim. */
  readonly preparedOn: Map<string, string[]>;
  readonly podCache: ObjectCache<Pod>;
  readonly startMs: number;
}

export interface DraContext {
  readonly slices: NewestOf<ResourceSlice>;
  readonly claims: NewestOf<ResourceClaim>;
  slicesOf(node: string): readonly ResourceSlice[];
  claimsOf(node: string): readonly ResourceClaim[];
  claimByUid(uid: string): ResourceClaim | undefined;
}

export const kinds = {
  nodes: builtin.Node,
  pods: builtin.Pod,
  configMaps: builtin.ConfigMap,
  leases: builtin.Lease,
  slices: builtin.ResourceSlice,
  claims: builtin.ResourceClaim,
  stages: { group: "kwok.x-k8s.io", version: "v1alpha1", plural: "stages" },
} as const;

export function recordEvent({ recorder }: KubeletContext, { regarding, type, reason, message }: NodeEvent): void {
  recorder.record(objectOf(regarding), { type, reason, action: reason, note: message });
}

function objectOf({ apiVersion, kind, namespace, name, uid }: EventTarget): KubeObject {
  const place = namespace === "" ? { name } : { name, namespace };
  return { apiVersion, kind, metadata: { ...place, uid } } as KubeObject;
}

/** The retry delay after failures in a row. It is short, because a node must renew its lease. */
export function retryDelayMs(failures: number): number {
  return Math.min(5_000, 20 * 2 ** Math.min(failures, 10));
}

export function placeOf(ref: ObjectRef): string {
  return ref.namespace === "" ? ref.name : `${ref.namespace}/${ref.name}`;
}
