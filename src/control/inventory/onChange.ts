/** Starts a run shortly after nodes or pods have changed. Changes within the debounce time start one run. */

import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, Watch } from "../../ports/kubeApi.ts";

const kinds: readonly Resource[] = [builtin.Node, builtin.Pod];
/** The delay before a watch that ended is restarted. */
const restartMs = 1_000;

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
  const afterDelay = (ms: number, run: () => void): void => {
    const stop = clock.after(ms, () => {
      timers.delete(stop);
      if (!isOver) run();
    });
    timers.add(stop);
  };
  const changed = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    afterDelay(debounceMs, () => {
      isWaiting = false;
      wake();
    });
  };
  const follow = (kind: Resource): void => {
    // Watches from now on: existing objects are read by the first run. A watch that ended may have missed events, so a
    // run starts.
    const sink = {
      event: ({ type }: { readonly type: string }) => {
        if (type !== "BOOKMARK") changed();
      },
      ended: () =>
        afterDelay(restartMs, () => {
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
