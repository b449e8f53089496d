import type { KubeApi } from "../../ports/kubeApi.ts";

/** Whoever waits for a timer or a socket waits no longer than about this for controllers that have much to do. */
const stretchMsMax = 5;

/**
 * An API that answers without waiting for anything outside, made considerate: after a few milliseconds of calls in one
 * breath the next call waits until the event loop has been around.
 *
 *   controllers   call, answer, call, answer, call, ...        each answer is there before anything else may run
 *   timers                                               ...   leases are renewed and requests are read when all is done
 *
 * A store on a disk makes everybody wait for the disk; a store in memory does not. With fifty thousand pods to see to, nodes
 * would miss their heartbeats and be given up for dead by the very process that keeps them alive.
 */
export function yieldingKube(kube: KubeApi): KubeApi {
  let beganMs: number | undefined;
  let pause: Promise<void> | undefined;
  const around = (): void => {
    beganMs = undefined;
    pause = undefined;
  };
  const inTurn = <T>(call: () => Promise<T>): Promise<T> => {
    const nowMs = performance.now();
    if (beganMs === undefined) {
      beganMs = nowMs;
      setImmediate(around);
    }
    if (nowMs - beganMs < stretchMsMax) return call();
    pause ??= new Promise((resolve) => setImmediate(resolve));
    // All who wait go on together, and those for whom there is no time wait again.
    return pause.then(() => inTurn(call));
  };
  return {
    get: (...given) => inTurn(() => kube.get(...given)),
    list: (...given) => inTurn(() => kube.list(...given)),
    watch: (...given) => kube.watch(...given),
    create: (...given) => inTurn(() => kube.create(...given)),
    update: (...given) => inTurn(() => kube.update(...given)),
    patch: (...given) => inTurn(() => kube.patch(...given)),
    delete: (...given) => inTurn(() => kube.delete(...given)),
    bind: (...given) => inTurn(() => kube.bind(...given)),
    evict: (...given) => inTurn(() => kube.evict(...given)),
  };
}
