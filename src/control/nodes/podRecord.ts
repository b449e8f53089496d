import type { NodeWrite } from "../../decide/nodes/nodeWrite.ts";
import type { PodMemory } from "../../decide/nodes/podStatus.ts";
import type { StageJob } from "../../decide/nodes/stages/stageEngine.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { compareRevisions } from "../../model/revision.ts";
import type { ApiWrite } from "./sendWrite.ts";

/** What a node keeps about one of its pods. */
export class PodRecord {
  readonly key: string;
  /** As the watch shows it. */
  seen: Pod;
  /** What we have written or are writing; counts until the watch has passed it. */
  private own: { readonly pod: Pod; readonly isAnswered: boolean } | undefined;
  memory: PodMemory = {};
  job: StageJob | undefined;
  /** Wants to be looked at now. */
  isDirty = true;
  wakeAtMs: number | undefined;
  /** A write of which nobody knows whether it happened. It is sent again as it is: another one could give its devices away. */
  unknown: { readonly write: ApiWrite; readonly refusals: number } | undefined;
  failures = 0;

  constructor(key: string, seen: Pod) {
    this.key = key;
    this.seen = seen;
  }

  /** The newest state that we know of, with what we have decided and not yet heard of. */
  get pod(): Pod {
    return this.own?.pod ?? this.seen;
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
    this.own = { pod, isAnswered: false };
  }

  answered(pod: Pod): void {
    const isSeen = compareRevisions(this.seen.metadata.resourceVersion, pod.metadata.resourceVersion) >= 0;
    this.own = isSeen ? undefined : { pod, isAnswered: true };
    // Our own write came back by the watch before the answer: no news.
    if (this.seen.metadata.resourceVersion === pod.metadata.resourceVersion) this.isDirty = false;
  }

  /** The decision will not happen. */
  undecide(): void {
    if (this.own?.isAnswered === false) this.own = undefined;
  }
}

function hasPassed(write: NodeWrite, pod: Pod): boolean {
  if (write.kind !== "update") return true;
  return compareRevisions(pod.metadata.resourceVersion, write.object.metadata.resourceVersion) > 0;
}
