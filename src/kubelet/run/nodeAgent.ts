import type { Revision } from "../../model/revision.ts";
import type { NodeState } from "../node/nodeState.ts";
import { earliest } from "../node/nodeWrite.ts";
import type { SimNode } from "../node/simNode.ts";
import type { PreparedClaim } from "../pods/claimLife.ts";
import type { OrphanedPod } from "../pods/podInput.ts";
import type { StageJob } from "../stages/stageEngine.ts";
import type { PodRecord } from "./podRecord.ts";

/** What the process keeps about one node that it simulates. It can be lost in a restart: the objects have the rest. */
export class NodeAgent {
  readonly name: string;
  readonly uid: string;
  readonly sim: SimNode;
  /** Its pods by key; shared with the watch handlers. */
  readonly pods: ReadonlyMap<string, PodRecord>;
  /** Undefined until the first reconcile. */
  state: NodeState | undefined;
  /** Whether this process holds the node's lease. */
  isHeld = false;
  job: StageJob | undefined;
  isBusy = false;
  nodeIsDirty = true;
  slicesAreDirty = true;
  claimsAreDirty = true;
  nodeWakeMs: number | undefined;
  leaseWakeMs: number | undefined;
  slicesWakeMs: number | undefined;
  claimsWakeMs: number | undefined;
  /** Refused writes of the node object in a row, and until when the node backs off because of them. */
  failures = 0;
  stillUntilMs = 0;
  readonly prepared = new Map<string, PreparedClaim>();
  hasRemembered = false;
  orphans: OrphanedPod[] = [];
  /** The revision of the write that acquired the node's lease; undefined without leases. See touchPending. */
  tookOverAt: Revision | undefined;
  /** Whether every pod that existed at `tookOverAt` is known. */
  hasListedPods = false;
  /** The invalid faults that were reported. */
  reportedProblems = "";

  constructor(name: string, uid: string, sim: SimNode, pods: ReadonlyMap<string, PodRecord>) {
    this.name = name;
    this.uid = uid;
    this.sim = sim;
    this.pods = pods;
  }

  /** The next time at which something is due; now when something has to be reconciled. */
  nextMs(nowMs: number): number | undefined {
    const next = this.dueMs(nowMs);
    return next === undefined ? undefined : Math.max(next, this.stillUntilMs);
  }

  private dueMs(nowMs: number): number | undefined {
    let next = earliest(this.leaseWakeMs, this.nodeWakeMs);
    if (this.nodeIsDirty) return nowMs;
    if (!this.isHeld) return next;
    if (this.slicesAreDirty || this.claimsAreDirty) return nowMs;
    next = earliest(next, this.slicesWakeMs, this.claimsWakeMs);
    for (const { untilMs } of this.orphans) if (next === undefined || untilMs < next) next = untilMs;
    for (const { isDirty, wakeAtMs } of this.pods.values()) {
      if (isDirty) return nowMs;
      if (wakeAtMs !== undefined && (next === undefined || wakeAtMs < next)) next = wakeAtMs;
    }
    return next;
  }

  /** Everything on the node is reconciled again. */
  stirAll(): void {
    this.slicesAreDirty = true;
    this.claimsAreDirty = true;
    for (const record of this.pods.values()) record.isDirty = true;
  }

  /** This process holds the node's lease from this write on. */
  taken(tookOverAt: Revision | undefined, { isFromOther }: { isFromOther: boolean }): void {
    this.tookOverAt = tookOverAt;
    this.hasListedPods = false;
    this.isHeld = true;
    this.nodeIsDirty = true;
    this.stirAll();
    // What was remembered before may have been changed by another process.
    if (!isFromOther) return;
    this.prepared.clear();
    this.hasRemembered = false;
    this.orphans = [];
  }

  /** The pods, including decisions that are not observed yet. */
  *podsNow() {
    for (const record of this.pods.values()) yield record.podForOthers;
  }
}
