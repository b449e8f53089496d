/**
 * Watches pods and ends the wait between two attempts early when a pod that matters has changed. The verdict comes from
 * the snapshot that follows.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, Watch } from "../../ports/kubeApi.ts";

const pods = builtin.Pod;

/** The delay from a change to the next snapshot, so that a burst of changes causes one snapshot. */
const burstMs = 250;
/** The delay when the wait is not for unscheduled pods: any change may matter, and few do. */
const anythingMs = 1_000;

export interface WakerOptions {
  /** The revision of the last snapshot: the watch starts there and misses no event. */
  readonly revision: string;
  readonly isInScope: (pod: Pod) => boolean;
  /** UIDs of the pods without a node. */
  readonly unscheduled: readonly string[];
  readonly wake: () => void;
}

export class PodWaker {
  private readonly clock: Clock;
  private readonly options: WakerOptions;
  private readonly waiting: Set<string>;
  private readonly waitsForPods: boolean;
  private readonly watch: Watch;
  private cancelTimer: (() => void) | undefined;

  constructor(ports: { readonly kube: KubeApi; readonly clock: Clock }, options: WakerOptions) {
    this.clock = ports.clock;
    this.options = options;
    this.waiting = new Set(options.unscheduled);
    this.waitsForPods = this.waiting.size > 0;
    this.watch = ports.kube.watch(
      pods,
      { resourceVersion: options.revision },
      {
        event: (event) => {
          if (event.type !== "BOOKMARK") this.observe(event.type, event.object);
        },
        // Without a watch the next snapshot is taken after the interval.
        ended: () => {},
      },
    );
  }

  stop(): void {
    this.watch.stop();
    this.cancelTimer?.();
  }

  private observe(type: "ADDED" | "MODIFIED" | "DELETED", pod: Pod): void {
    if (!this.options.isInScope(pod)) return;
    const { uid } = pod.metadata;
    const isUnscheduled =
      type !== "DELETED" && (pod.spec?.nodeName ?? "") === "" && (pod.status?.phase ?? "Pending") === "Pending";
    if (isUnscheduled) this.waiting.add(uid);
    else this.waiting.delete(uid);
    if (pod.status?.phase === "Failed") this.soon(burstMs);
    else if (!this.waitsForPods) this.soon(anythingMs);
    else if (this.waiting.size === 0) this.soon(burstMs);
  }

  private soon(ms: number): void {
    this.cancelTimer ??= this.clock.after(ms, () => this.options.wake());
  }
}
