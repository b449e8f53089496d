/**
 * The current faults: those of a node's annotation, and those of the cluster, which `muster fault` writes into one
 * ConfigMap. Both are in the API, so a fault survives the process and works on any cluster.
 */

import type { Node } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { marks } from "../../model/profiles/marks.ts";
import { UserError } from "../../model/userError.ts";
import { timeToMs } from "../../model/values/time.ts";
import { annotatedFaults, type Fault, readFault } from "../node/faults.ts";

/**
 * The ConfigMap with the faults of a cluster: one entry for each fault, with its id as the key and JSON as the value.
 */
export const faultMap = { namespace: "kube-system", name: "muster-faults" } as const;

export interface ReadFaults {
  readonly faults: readonly Fault[];
  /** Messages about invalid faults. */
  readonly problems: readonly string[];
}

const none: ReadFaults = { faults: [], problems: [] };

/** The faults of a cluster, in order of their ids. An invalid fault is reported and ignored. */
export function clusterFaults(map: KubeObject | undefined): ReadFaults {
  const data = (map?.["data"] ?? {}) as Record<string, string>;
  const ids = Object.keys(data).sort();
  if (ids.length === 0) return none;
  const nowMs = timeToMs(map?.metadata.creationTimestamp) ?? 0;
  const faults: Fault[] = [];
  const problems: string[] = [];
  for (const id of ids) {
    try {
      faults.push(readFault(JSON.parse(data[id] ?? ""), { nowMs, id }));
    } catch (error) {
      if (error instanceof UserError) problems.push(`${id}: ${error.message}`);
      else if (error instanceof SyntaxError) problems.push(`${id}: is not JSON`);
      else throw error;
    }
  }
  return { faults, problems };
}

/** Caches the parsed faults while neither the annotation nor the cluster's faults have changed. */
export class FaultRegistry {
  private cluster: ReadFaults = none;
  private edition = 0;
  private readonly byNode = new Map<string, { edition: number; text: string; read: ReadFaults }>();

  setCluster(map: KubeObject | undefined): void {
    this.cluster = clusterFaults(map);
    this.edition++;
  }

  get ofCluster(): ReadFaults {
    return this.cluster;
  }

  /** The faults of a node and its pods. */
  of({ metadata }: Node): ReadFaults {
    const text = metadata.annotations?.[marks.faults] ?? "";
    if (text === "" && this.cluster.faults.length === 0) return none;
    const { name } = metadata;
    const known = this.byNode.get(name);
    if (known?.edition === this.edition && known.text === text) return known.read;
    const own = annotatedFaults(metadata);
    const shared = this.cluster.faults.filter(({ node }) => node === undefined || node === name);
    const read = { faults: [...own.faults, ...shared], problems: own.problems };
    this.byNode.set(name, { edition: this.edition, text, read });
    return read;
  }

  forget(node: string): void {
    this.byNode.delete(node);
  }
}
