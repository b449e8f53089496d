import { isShareOf, unhealthyDevices, whyUnhealthy } from "../../decide/schedule/explain/unhealthyDevices.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isReservationPod } from "../../model/scheduling/keys.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";

/** A device plugin that restarts has its devices unhealthy until it has registered again. */
const graceMs = 15_000;

interface Known {
  readonly uid: string;
  readonly sinceMs: number;
  /** The devices that were reported; empty before the first report. */
  reported: string;
}

/**
 * Reports on a pod that one of its devices has failed: the pod stays Running and Ready, and is not evicted. Reported
 * once for each set of devices, and once more by a new leader.
 */
export class DeviceHealthReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly known = new Map<string, Known>();

  constructor(controllers: Controllers, caches: SchedulerCaches, recorder: EventRecorder) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
  }

  isConcerned(key: string, object: KubeObject): boolean {
    return this.known.has(key) || unhealthyDevices(object as Pod).length > 0;
  }

  reconcile(key: string): ReconcileResult {
    const pod = this.caches.pods.get(key);
    const devices = pod === undefined ? [] : unhealthyDevices(pod);
    if (pod === undefined || devices.length === 0) {
      this.known.delete(key);
      return undefined;
    }
    const { uid } = pod.metadata;
    const nowMs = this.controllers.ports.clock.nowMs();
    let known = this.known.get(key);
    if (known?.uid !== uid) {
      known = { uid, sinceMs: nowMs, reported: "" };
      this.known.set(key, known);
    }
    const earlyMs = known.sinceMs + graceMs - nowMs;
    if (earlyMs > 0) return { requeueAfterMs: Math.min(earlyMs, graceMs) };
    const text = devices.join(", ");
    if (known.reported === text) return undefined;
    known.reported = text;
    for (const holder of this.holdersOf(pod)) {
      const cause = whyUnhealthy(holder, [pod]);
      if (cause === undefined) continue;
      const { reason, message, cure } = cause;
      this.recorder.record(holder, { type: "Warning", reason, action: "DeviceHealth", note: `${message}; ${cure}` });
    }
    return undefined;
  }

  /** The pods that use the devices: those that share the GPU of a reservation pod, else the pod itself. */
  private *holdersOf(pod: Pod): Iterable<Pod> {
    if (!isReservationPod(pod)) {
      yield pod;
      return;
    }
    for (const other of this.caches.pods.view().objects.values()) if (isShareOf(pod, other)) yield other;
  }
}
