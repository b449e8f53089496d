import type { Pod } from "../../model/kubernetes.generated.ts";
import { compareRevisions } from "../../model/revision.ts";
import type { NodeWrite } from "../node/nodeWrite.ts";
import type { PodMemory } from "../pods/podStatus.ts";
import type { StageJob } from "../stages/stageEngine.ts";
import type { ApiWrite } from "./sendWrite.ts";

/** What a node keeps about one of its pods. */
export class PodRecord {
  readonly key: string;
  /** As the watch shows it. */
  seen: Pod;
  /** What we have written or are writing; counts until the watch has passed it. */
  private own: { readonly pod: Pod; readonly isAnswered: boolean; readonly before?: Pod } | undefined;
  memory: PodMemory = {};
  job: StageJob | undefined;
  /** To be reconciled now. */
  isDirty = true;
  wakeAtMs: number | undefined;
  /** A write of unknown outcome. It is sent again as it is: another one could give its devices away. */
  unknown: { readonly write: ApiWrite; readonly refusals: number } | undefined;
  failures = 0;

  constructor(key: string, seen: Pod) {
    this.key = key;
    this.seen = seen;
  }

  /** The newest state that we know of, with what we have decided and not yet observed. */
  get pod(): Pod {
    return this.own?.pod ?? this.seen;
  }

  /**
   * As other pods must see it: devices that it is about to get are taken, but devices that it is about to release are
   * not free before the API has acknowledged that.
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
      // A decision names the state that it was taken on; any later one has made it true or void.
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
    // Our own write came back by the watch before the answer: no news.
    if (this.seen.metadata.resourceVersion === pod.metadata.resourceVersion) this.isDirty = false;
  }

  /** A consistent read has shown this state. */
  read(pod: Pod): void {
    const newest = compareRevisions(this.pod.metadata.resourceVersion, pod.metadata.resourceVersion);
    if (newest < 0) this.own = { pod, isAnswered: true };
  }

  /** The decision will not happen. */
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
