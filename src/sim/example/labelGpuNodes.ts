import { assumeCacheOf } from "../../control/runtime/assumeCacheOf.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { InFlightWrites } from "../../control/runtime/inFlightWrites.ts";
import { reconcileResultOf } from "../../control/runtime/loop.ts";
import { forObject, kindSource } from "../../control/runtime/sources.ts";
import { expectedOf, type Intent, resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";

const nodes = builtin.Node;

/** Labels every node with its number of GPUs. */
export function labelGpuNodes(controllers: Controllers): void {
  const cache = controllers.cache(nodes);
  const assumeCache = assumeCacheOf([cache]);
  const inFlight = new InFlightWrites(controllers, assumeCache);
  controllers.add({
    name: "label-gpu-nodes",
    sources: [kindSource(cache, forObject())],
    reconcile: async (key, { cancel }) => {
      const intent = decide(assumeCache.snapshot().kind(resourceKey(nodes)).objects.get(key));
      if (intent === undefined) return undefined;
      const outcome = await inFlight.commitOne({ intent }, { cancel });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

/** Pure: the same node gives the same intent. */
function decide(node: KubeObject | undefined): Intent | undefined {
  const gpus = (node?.["status"] as { capacity?: Record<string, string> } | undefined)?.capacity?.["nvidia.com/gpu"];
  if (node === undefined || gpus === undefined || node.metadata.labels?.["muster.dev/gpus"] === gpus) return undefined;
  const target = { ...nodes, namespace: "", name: node.metadata.name };
  const patch = { metadata: { labels: { "muster.dev/gpus": gpus } } };
  return { type: "patch", target, expected: expectedOf(node), patch, why: `the node has ${gpus} GPUs` };
}
