import type { Pod } from "../../model/kubernetes.generated.ts";
import { compareRevisions } from "../../model/revision.ts";
import type { NodeWrite } from "../node/nodeWrite.ts";
import type { PodMemory } from "../pods/podStatus.ts";
import type { StageJob } from "../stages/stageEngine.ts";
import type { ApiWrite } from "./sendWrite.ts";

/** What a node keeps about one of its pods. */
export class PodRecord {
  readonly key: string;
  /** When the watch first delivered the pod. */
  readonly sinceMs: number;
  /** The pod as the watch delivered it. */
  seen: Pod;
  /** The pod after the writes of this process; counts until the watch has passed it. */
  private own: { readonly pod: Pod; readonly isAnswered: boolean; readonly before?: Pod } | undefined;
  memory: PodMemory = {};
  job: StageJob | undefined;
  /** Whether the pod has to be reconciled now. */
  isDirty = true;
  wakeAtMs: number | undefined;
  /**
   * A write of unknown outcome. It is sent again unchanged: another decision could allocate its devices to another pod.
   */
  unknown: { readonly write: ApiWrite; readonly refusals: number } | undefined;
  failures = 0;

  constructor(key: string, seen: Pod, sinceMs: number) {
    this.key = key;
    this.sinceMs = sinceMs;
    this.seen = seen;
  }

  /** The newest known state, including decisions that are not observed yet. */
  get pod(): Pod {
    return this.own?.pod ?? this.seen;
  }

  /**
   * The pod as other decisions must see it: devices that it is about to get count as allocated, and devices that it is
   * about to release are not free before the API has acknowledged that.
   */
  get podForOthers(): Pod {
    const { own } = this;
    if (own?.before === undefined || own.isAnswered) return this.pod;
    const { phase } = own.pod.status ?? {};
    return phase === "Succeeded" || phase === "Failed" ? own.before : own.pod;
  }

  observe(pod: Pod): void {
    this.seen = pod;
    const { own } = this;
    if (own !== undefined) {
      const order = compareRevisions(pod.metadata.resourceVersion, own.pod.metadata.resourceVersion);
      // A decision carries the version that it was taken on; any later version has confirmed or invalidated it.
      if (own.isAnswered ? order >= 0 : order > 0) this.own = undefined;
    }
    if (this.unknown !== undefined && hasPassed(this.unknown.write, pod)) this.unknown = undefined;
    this.isDirty = true;
  }

  decided(pod: Pod): void {
    const before = this.own?.isAnswered === false ? (this.own.before ?? this.seen) : this.pod;
    this.own = { pod, isAnswered: false, before };
  }

  answered(pod: Pod): void {
    const isSeen = compareRevisions(this.seen.metadata.resourceVersion, pod.metadata.resourceVersion) >= 0;
    this.own = isSeen ? undefined : { pod, isAnswered: true };
    // The watch delivered an own write before its answer: no change.
    if (this.seen.metadata.resourceVersion === pod.metadata.resourceVersion) this.isDirty = false;
  }

  /** Sets the state of a consistent read. */
  read(pod: Pod): void {
    const newest = compareRevisions(this.pod.metadata.resourceVersion, pod.metadata.resourceVersion);
    if (newest < 0) this.own = { pod, isAnswered: true };
  }

  /** Drops the decision. */
  undecide(): void {
    const { own } = this;
    if (own === undefined || own.isAnswered) return;
    const { before } = own;
    const isNews =
      before !== undefined && compareRevisions(before.metadata.resourceVersion, this.seen.metadata.resourceVersion) > 0;
    this.own = isNews ? { pod: before, isAnswered: true } : undefined;
  }
}

function hasPassed(write: NodeWrite, pod: Pod): boolean {
  if (write.kind !== "update") return true;
  return compareRevisions(pod.metadata.resourceVersion, write.object.metadata.resourceVersion) > 0;
}
