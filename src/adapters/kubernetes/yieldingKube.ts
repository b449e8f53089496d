import type { KubeApi } from "../../ports/kubeApi.ts";

/** Timers and sockets wait about this long at most for busy controllers. */
const stretchMsMax = 5;

/**
 * Makes an API that answers without I/O yield: after a few milliseconds of calls in one turn of the event loop the next
 * call waits for the next turn.
 *
 *   controllers   call, answer, call, answer, call, ...        each answer is there before anything else may run
 *   timers                                               ...   leases renewed, requests read when all is done
 *
 * A store on a disk yields at every write; a store in memory does not. With fifty thousand pods to reconcile, nodes
 * would miss their heartbeats and be marked NotReady by the same process that simulates them.
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
    // All waiting calls resume together; those beyond the time slice wait again.
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
