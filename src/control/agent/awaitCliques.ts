/**
 * The program of the init container that holds a pod of a gang back until the cliques that it starts after are ready,
 * all at the same moment. A clique that becomes unready later has no effect on a pod that has started.
 */
import { mayStart, type Waited } from "../../decide/gang/cliques/startOrder.ts";
import { labels } from "../../model/gang/keys.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isReady } from "../../model/objects/podFacts.ts";
import type { Refusal } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { type Backoff, exponentialMs } from "../../ports/backoff.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import { pause } from "./pause.ts";

export interface AwaitCliquesOptions {
  readonly namespace: string;
  readonly gang: string;
  readonly waits: readonly Waited[];
}

export interface AwaitCliquesPorts {
  readonly kube: KubeReads;
  readonly clock: Clock;
  readonly log: Log;
  /** Resolves when the program has to end. */
  readonly stopped: Promise<true>;
}

export type WaitEnd = { readonly type: "stopped" } | { readonly type: "done" };

const again: Backoff = { baseMs: 500, maxMs: 10_000 };

export async function awaitCliques(ports: AwaitCliquesPorts, options: AwaitCliquesOptions): Promise<WaitEnd> {
  const { clock, log, stopped } = ports;
  for (let failures = 0; ; ) {
    const end = await watchOnce(ports, options);
    if (end === "ready") return { type: "done" };
    if (end === "stopped") return { type: "stopped" };
    // A watch that ended cleanly or is too old is opened again at once.
    failures = end === undefined || end.reason === "Expired" ? 0 : failures + 1;
    if (end !== undefined && failures > 0) {
      log.warn({ reason: end.reason, why: end.message, failures }, "the pods of the gang cannot be watched yet");
    }
    if (await pause(clock, failures === 0 ? 0 : exponentialMs(again, failures), stopped)) return { type: "stopped" };
  }
}

/** One list and the watch behind it: how it ended. Undefined is a clean end. */
async function watchOnce(
  { kube, log, stopped }: AwaitCliquesPorts,
  { namespace, gang, waits }: AwaitCliquesOptions,
): Promise<"ready" | "stopped" | Refusal | undefined> {
  const selected = { namespace, labelSelector: `${labels.podGang}=${gang}` };
  const listed = await kube.list<Pod>(builtin.Pod, selected);
  if (!listed.ok) return listed;
  const pods = new Map(listed.value.items.map((pod) => [pod.metadata.uid, pod]));
  let said = "";
  const isOver = (): boolean => {
    const now = waits.map(({ clique, minimum }) => `${clique} ${readyIn(pods, clique)}/${minimum}`).join(", ");
    if (now !== said) log.info({ gang, cliques: now }, "ready pods of the preceding cliques");
    said = now;
    return mayStart(waits, [...pods.values()]);
  };
  if (isOver()) return "ready";
  return new Promise((resolve) => {
    const from = { ...selected, resourceVersion: listed.value.revision, allowBookmarks: true };
    const watch = kube.watch<Pod>(builtin.Pod, from, {
      event: (event) => {
        if (event.type === "BOOKMARK") return;
        if (event.type === "DELETED") pods.delete(event.object.metadata.uid);
        else pods.set(event.object.metadata.uid, event.object);
        if (!isOver()) return;
        watch.stop();
        resolve("ready");
      },
      ended: (why) => resolve(why === undefined || why.ok ? undefined : why),
    });
    void stopped.then(() => {
      watch.stop();
      resolve("stopped");
    });
  });
}

function readyIn(pods: ReadonlyMap<string, Pod>, clique: string): number {
  return [...pods.values()].filter((pod) => pod.metadata.labels?.[labels.clique] === clique && isReady(pod)).length;
}
