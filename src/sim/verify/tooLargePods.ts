/** Pods that fit on no node: the scheduler reports each of them as unschedulable, by a condition or an Event. */
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { at, kinds, person, pod } from "../sceneKit.ts";

const events = builtin.CoreEvent;
const refusalLabel = "refused-by";
const message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.";

/** How the scheduler reports an unschedulable pod: by condition and Event as Kubernetes does, or by an Event alone. */
type Refusal = "condition" | "event";

/** Creates such pods at random times and deletes each some time later. */
export function tooLargePods(count: number): ActorSpec {
  return person("tester", async (ports) => {
    const doubtful: string[] = [];
    for (let index = 0; index < count; index++) {
      await ports.sleep(40 + (ports.random.uint32() % 400));
      const refusal: Refusal = ports.random.uint32() % 2 === 0 ? "condition" : "event";
      const name = `large${index}`;
      let tries = 0;
      await until(ports, async () => {
        tries++;
        const made = await ports.kube.create(kinds.pods, pod(name, { labels: { [refusalLabel]: refusal } }));
        return made.ok || made.reason === "AlreadyExists";
      });
      if (tries > 1) doubtful.push(name);
      await ports.sleep(60 + (ports.random.uint32() % 500));
      await removePod(ports, name);
    }
    // A create without a response may take effect after its pod was deleted.
    if (doubtful.length > 0) await ports.sleep(lateMs);
    for (const name of doubtful) await removePod(ports, name);
  });
}

/** Longer than a write without a response may take to take effect. */
const lateMs = 9_000;

function removePod(ports: ActorPorts, name: string): Promise<void> {
  return until(ports, async () => {
    const gone = await ports.kube.delete(at(kinds.pods, name), { gracePeriodSeconds: 0 });
    return !gone.ok && gone.reason === "NotFound";
  });
}

/** Reports a pod that fits on no node as unschedulable. False for other pods. */
export async function refuseTooLarge({ kube }: Pick<ActorPorts, "kube">, found: KubeObject): Promise<boolean> {
  const refusal = found.metadata.labels?.[refusalLabel];
  if (refusal === undefined) return false;
  const { name, uid, namespace = "" } = found.metadata;
  if (refusal === "event") {
    const involvedObject = { apiVersion: "v1", kind: "Pod", namespace, name, uid };
    const metadata = { name: `${name}.refused`, namespace };
    await kube.create(events, {
      apiVersion: "v1",
      kind: "Event",
      metadata,
      involvedObject,
      reason: "FailedScheduling",
      message,
      type: "Warning",
      count: 1,
    });
    return true;
  }
  const conditions = [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }];
  const status = { ...(found["status"] as object), conditions };
  await kube.update({ ...at(kinds.pods, name), subresource: "status" }, { ...found, status });
  return true;
}

async function until(ports: ActorPorts, isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone())) await ports.sleep(20);
}
