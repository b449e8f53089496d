/**
 * Wakes a run soon after something changed in the cluster: the first change starts a short wait, the others join it.
 */

import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, Watch } from "../../ports/kubeApi.ts";

const kinds: readonly Resource[] = [builtin.Node, builtin.Pod];
/** A watch that ends is begun again, but not in a tight circle. */
const againMs = 1_000;

export function wakeOnChange(
  ports: { readonly kube: KubeApi; readonly clock: Clock },
  debounceMs: number,
  wake: () => void,
): () => void {
  const { kube, clock } = ports;
  const watches = new Map<string, Watch>();
  const timers = new Set<() => void>();
  let isOver = false;
  let isWaiting = false;
  const later = (ms: number, run: () => void): void => {
    const stop = clock.after(ms, () => {
      timers.delete(stop);
      if (!isOver) run();
    });
    timers.add(stop);
  };
  const changed = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    later(debounceMs, () => {
      isWaiting = false;
      wake();
    });
  };
  const follow = (kind: Resource): void => {
    // From now on: existing objects are read by the first run. A stream that broke may have lost something.
    const sink = {
      event: ({ type }: { readonly type: string }) => {
        if (type !== "BOOKMARK") changed();
      },
      ended: () =>
        later(againMs, () => {
          changed();
          follow(kind);
        }),
    };
    watches.set(kind.plural, kube.watch(kind, { allowBookmarks: true }, sink));
  };
  for (const kind of kinds) follow(kind);
  return () => {
    isOver = true;
    for (const watch of watches.values()) watch.stop();
    for (const stop of timers) stop();
  };
}
