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

/** Log lines and metrics of what happens to devices, whichever component decides. */
export class DeviceReport {
  private readonly log: Log;
  private readonly metrics: Metrics;

  constructor({ log, metrics }: { readonly log: Log; readonly metrics: Metrics }) {
    this.log = log;
    this.metrics = metrics;
  }

  /** `revision` is the tracker's: the order in which this process has counted. */
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

  refused(scheduler: string, reason: RefusalReason, times = 1): void {
    this.metrics.count("muster_devices_refusals_total", { scheduler, reason }, times);
  }

  /**
   * What a component found when it began to give devices away. `inFlight`: decisions of a predecessor that still count.
   * `voided`: claims that a late write of a predecessor can no longer reach.
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
