/**
 * The faults that hold now: those that a node's own annotation asks for, and those of the whole cluster, which `muster
 * fault` writes into one ConfigMap. Both are objects of the API, so a fault outlives the process and works on any
 * cluster.
 */

import type { Node } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { marks } from "../../model/profiles/marks.ts";
import { UserError } from "../../model/userError.ts";
import { timeToMs } from "../../model/values/time.ts";
import { annotatedFaults, type Fault, readFault } from "../node/faults.ts";

/** Where the faults of a cluster stand: one entry a fault, its id the key and JSON the value. */
export const faultMap = { namespace: "kube-system", name: "muster-faults" } as const;

export interface ReadFaults {
  readonly faults: readonly Fault[];
  /** What could not be read, as sentences. */
  readonly problems: readonly string[];
}

const none: ReadFaults = { faults: [], problems: [] };

/** The faults of a cluster, in order of their ids. An unreadable fault is reported and ignored. */
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
      else if (error instanceof SyntaxError) problems.push(`${id}: it is not JSON`);
      else throw error;
    }
  }
  return { faults, problems };
}

/** Answers from memory while neither the annotation nor the cluster's faults have changed. */
export class FaultBook {
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

  /** What a node and its pods may feel. */
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
