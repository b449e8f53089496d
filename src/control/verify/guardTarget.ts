/**
 * May verify write to this cluster? A proof creates nodes and pods and deletes them again; on a production cluster that
 * would be an accident. Two things must be true: the target was named, and it has simulated nodes.
 */

import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

export interface Target {
  /** The cluster that `muster up` or `muster apiserver` runs on our data folder. */
  readonly isEmbedded: boolean;
  /** The context that was asked for by name; undefined when none was. */
  readonly context: string | undefined;
  readonly allowedContexts: readonly string[];
}

const nodes = builtin.Node;

/** An index by label may lag behind the nodes that have just been made. */
const tries = 10;
const pauseMs = 500;

/** Undefined when we may; else why we refuse. */
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
      return `refusing to run: simulated nodes cannot be looked for: ${found.message}`;
    }
    if (attempt === tries) {
      const why = found.ok ? "no node has the label type=kwok" : found.message;
      return `refusing to run: this is no simulated cluster (${why})`;
    }
    await new Promise<void>((resolve) => void ports.clock.after(pauseMs, resolve));
  }
}
