/**
 * Ends a wait for pods when a pod has changed and not when an interval is over. It only signals that a snapshot is
 * worth while: the verdict comes from the snapshot that follows.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, Watch } from "../../ports/kubeApi.ts";

const pods = builtin.Pod;

/** Between a change and the look that it causes, so that a burst of changes costs one look. */
const burstMs = 250;
/** When the wait is not about these pods any change may matter and few do. */
const anythingMs = 1_000;

export interface WakerOptions {
  /** Watch from here: nothing that happened since is missed. */
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
  private readonly isAboutPods: boolean;
  private readonly watch: Watch;
  private cancelTimer: (() => void) | undefined;

  constructor(ports: { readonly kube: KubeApi; readonly clock: Clock }, options: WakerOptions) {
    this.clock = ports.clock;
    this.options = options;
    this.waiting = new Set(options.unscheduled);
    this.isAboutPods = this.waiting.size > 0;
    this.watch = ports.kube.watch(
      pods,
      { resourceVersion: options.revision },
      {
        event: (event) => {
          if (event.type !== "BOOKMARK") this.see(event.type, event.object);
        },
        // Without a watch the interval is all there is, and it is enough.
        ended: () => {},
      },
    );
  }

  stop(): void {
    this.watch.stop();
    this.cancelTimer?.();
  }

  private see(type: "ADDED" | "MODIFIED" | "DELETED", pod: Pod): void {
    if (!this.options.isInScope(pod)) return;
    const { uid } = pod.metadata;
    const isUnscheduled =
      type !== "DELETED" && (pod.spec?.nodeName ?? "") === "" && (pod.status?.phase ?? "Pending") === "Pending";
    if (isUnscheduled) this.waiting.add(uid);
    else this.waiting.delete(uid);
    if (pod.status?.phase === "Failed") this.soon(burstMs);
    else if (!this.isAboutPods) this.soon(anythingMs);
    else if (this.waiting.size === 0) this.soon(burstMs);
  }

  private soon(ms: number): void {
    this.cancelTimer ??= this.clock.after(ms, () => this.options.wake());
  }
}
