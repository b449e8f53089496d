/**
 * Whether verify may write to this cluster. A proof creates nodes and pods and deletes them again, which must not
 * happen on a production cluster. The target must be named explicitly and must have simulated nodes.
 */

import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

export interface Target {
  /** The cluster that `muster up` or `muster apiserver` runs from this data folder. */
  readonly isEmbedded: boolean;
  /** The context that `--context` names; undefined without it. */
  readonly context: string | undefined;
  readonly allowedContexts: readonly string[];
}

const nodes = builtin.Node;

/** A label index may lag behind nodes that have just been created. */
const tries = 10;
const pauseMs = 500;

/** Why writing is refused; undefined when it is allowed. */
export async function guardTarget(
  ports: { readonly kube: KubeApi; readonly clock: Clock },
  { isEmbedded, context, allowedContexts }: Target,
): Promise<string | undefined> {
  if (!isEmbedded && (context === undefined || !allowedContexts.includes(context))) {
    const named = context === undefined ? "no context was named" : `context ${context} is not allowed`;
    return `refusing to run: this writes to the cluster, and ${named}; pass --context and --allow-context with its name`;
  }
  for (let attempt = 1; ; attempt++) {
    const found = await ports.kube.list(nodes, { labelSelector: "type=kwok", limit: 1 });
    if (found.ok && found.value.items.length > 0) return undefined;
    if (!found.ok && (found.reason === "Unauthorized" || found.reason === "Forbidden")) {
      return `refusing to run: nodes cannot be listed: ${found.message}`;
    }
    if (attempt === tries) {
      const why = found.ok ? "no node has the label type=kwok" : found.message;
      return `refusing to run: the cluster has no simulated nodes (${why})`;
    }
    await new Promise<void>((resolve) => void ports.clock.after(pauseMs, resolve));
  }
}
