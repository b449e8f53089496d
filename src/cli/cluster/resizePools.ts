import { isSimulated } from "../../kubelet/node/simNode.ts";
import { marks } from "../../model/profiles/marks.ts";
import type { Pool } from "../../model/profiles/profiles.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed } from "./mustSucceed.ts";

/** On the namespace kube-system, value `none`: the last `--pool` was `none`. */
const poolsAnnotation = "muster.dev/pools";

export interface ResizedPools {
  /** Pools whose missing nodes are created. */
  readonly pools: readonly Pool[];
  /** Nodes that were deleted, because the pools do not include them. */
  readonly removed: readonly string[];
}

/**
 * Fits the nodes of an existing data folder to `--pool`: nodes of pools that the flag does not include are deleted, and
 * the node lifecycle controller removes their pods. Without the flag the folder keeps the pools that it has; a folder
 * without nodes gets the default, unless `--pool none` was its last one. Nodes that the user created are never touched.
 */
export async function resizePools(kube: KubeApi, pools: readonly Pool[], isGiven: boolean): Promise<ResizedPools> {
  const { items } = mustSucceed(await kube.list(builtin.Node), "nodes could not be listed");
  const ofPools = items.filter((node) => isSimulated(node) && marks.pool in (node.metadata.annotations ?? {}));
  const home = { ...builtin.Namespace, namespace: "", name: "kube-system" };
  const { metadata } = mustSucceed(await kube.get(home), "the namespace kube-system could not be read");
  const wasNone = metadata.annotations?.[poolsAnnotation] === "none";
  if (!isGiven) return { pools: items.length === 0 && !wasNone ? pools : [], removed: [] };
  const isNone = pools.length === 0;
  if (isNone !== wasNone) {
    const annotations = { [poolsAnnotation]: isNone ? "none" : null };
    const body = { metadata: { annotations } };
    mustSucceed(await kube.patch(home, { type: "merge", body }), "the namespace kube-system could not be annotated");
  }
  const wanted = new Set(pools.flatMap(({ name, count }) => Array.from({ length: count }, (_, at) => `${name}-${at}`)));
  const removed: string[] = [];
  for (const { metadata } of ofPools) {
    if (wanted.has(metadata.name)) continue;
    const outcome = await kube.delete({ ...builtin.Node, namespace: "", name: metadata.name });
    if (!outcome.ok && outcome.reason !== "NotFound")
      mustSucceed(outcome, `node ${metadata.name} could not be deleted`);
    removed.push(metadata.name);
  }
  return { pools, removed };
}
