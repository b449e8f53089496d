import type { ClaimTracker } from "../../decide/devices/claimTracker.ts";
import type { DeviceChange, DeviceChangeType } from "../../decide/devices/deviceChange.ts";
import type { RefusalReason } from "../../decide/devices/refusalReason.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";

const messages: Readonly<Record<DeviceChangeType, string>> = {
  "in-flight": "device in flight",
  "not-in-flight": "device removed from in flight",
  allocated: "device allocated",
  released: "device released",
  doubled: "one device is allocated to two claims",
};

/** Log lines and metrics about allocations and releases of devices, whichever component decides. */
export class DeviceReport {
  private readonly log: Log;
  private readonly metrics: Metrics;

  constructor({ log, metrics }: { readonly log: Log; readonly metrics: Metrics }) {
    this.log = log;
    this.metrics = metrics;
  }

  /** `revision` is the tracker's counter of changes in this process. */
  changed({ type, shareId, other, ...change }: DeviceChange, { revision }: ClaimTracker): void {
    const { source } = change;
    const fields = {
      ...change,
      ...(shareId !== undefined && { shareId }),
      ...(other !== undefined && { other }),
      revision,
    };
    if (type === "doubled") this.log.warn(fields, messages[type]);
    else this.log.debug(fields, messages[type]);
    if (type === "allocated") this.metrics.count("muster_devices_allocations_total", { source });
    if (type === "released") this.metrics.count("muster_devices_releases_total", { source });
  }

  counted({ counts }: ClaimTracker): void {
    this.metrics.gauge("muster_devices_claims_in_flight", {}, counts.inFlight);
    this.metrics.gauge("muster_devices_claims_assumed", {}, counts.assumed);
    this.metrics.gauge("muster_devices_claims_allocated", {}, counts.allocated);
  }

  searched(scheduler: string, tookMs: number): void {
    this.metrics.observe("muster_devices_search_seconds", { scheduler }, tookMs / 1000);
  }

  /** A pod or group begins to wait for devices, or waits for another reason than before. */
  refused(scheduler: string, reason: RefusalReason): void {
    this.metrics.count("muster_devices_refusals_total", { scheduler, reason });
  }

  /**
   * The state at the take-over, before the first allocation. `inFlight`: decisions of the earlier leader that still
   * count. `voided`: claims that are fenced against late writes of the earlier leader.
   */
  tookOver(component: string, tracker: ClaimTracker, more: { readonly voided?: number } = {}): void {
    let claims = 0;
    for (const _ of tracker.list()) claims++;
    const { allocated, inFlight } = tracker.counts;
    const devices = tracker.listAllAllocatedDevices().length;
    const { revision } = tracker;
    this.log.info({ component, claims, allocated, inFlight, devices, ...more, revision }, "took over devices");
  }
}
