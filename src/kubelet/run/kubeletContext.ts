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
import type { FaultBook } from "./faultBook.ts";
import type { NodesOptions } from "./nodesOptions.ts";

/** What the reconciles of all nodes share. */
export interface KubeletContext {
  readonly ports: ControlPorts;
  readonly options: NodesOptions;
  readonly nodes: NewestOf<Node>;
  readonly leases: NewestOf<Lease>;
  readonly faults: FaultBook;
  readonly recorder: EventRecorder;
  /** Undefined where the server has no Dynamic Resource Allocation. */
  readonly dra: DraContext | undefined;
  /** Stages that users have made, by `apiVersion/kind`; a kind without any lives the built-in life. */
  readonly stages: ReadonlyMap<string, readonly Stage[]>;
  /** The nodes on which a claim is prepared, whatever the claim itself says by now. */
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

export function tell({ recorder }: KubeletContext, { regarding, type, reason, message }: NodeEvent): void {
  recorder.record(objectOf(regarding), { type, reason, action: reason, note: message });
}

function objectOf({ apiVersion, kind, namespace, name, uid }: EventTarget): KubeObject {
  const place = namespace === "" ? { name } : { name, namespace };
  return { apiVersion, kind, metadata: { ...place, uid } } as KubeObject;
}

/** How long to wait after so many failures in a row: a node must not sleep through its lease. */
export function patienceMs(failures: number): number {
  return Math.min(5_000, 20 * 2 ** Math.min(failures, 10));
}

export function placeOf(ref: ObjectRef): string {
  return ref.namespace === "" ? ref.name : `${ref.namespace}/${ref.name}`;
}
