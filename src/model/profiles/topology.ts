/**
 * The position of a node in the network: rack, leaf, spine, core and NVLink domain, and its labels in the scheme of a
 * tool. A position is a slot in a regular data centre; empty slots are chosen by seed.
 */

import { seededFraction, seededUuid } from "../values/seeded.ts";
import { labelValue } from "./marks.ts";

export const topologySchemes = ["none", "topograph", "topograph-v1", "knavigator"] as const;
export type TopologyScheme = (typeof topologySchemes)[number];

export interface TopologySpec {
  readonly scheme: TopologyScheme;
  /** Nodes in one rack, which is one NVLink domain; 18 in an NVL72. */
  readonly traysPerRack?: number;
  /** Nodes below one leaf switch, leaves below one spine, spines below one core. */
  readonly nodesPerLeaf?: number;
  readonly leavesPerSpine?: number;
  readonly spinesPerCore?: number;
  /** Share of slots that are empty, 0 to below 1. */
  readonly holes?: number;
}

export interface Position {
  readonly slot: number;
  readonly rack: number;
  readonly leaf: number;
  readonly spine: number;
  readonly core: number;
}

export const topologyDefaults = { traysPerRack: 18, nodesPerLeaf: 16, leavesPerSpine: 8, spinesPerCore: 8, holes: 0 };

/** The place of the `index`-th node of a pool: the index-th slot that is not a hole. */
export function positionOf(spec: TopologySpec, place: { clusterSeed: string; pool: string; index: number }): Position {
  const { traysPerRack, nodesPerLeaf, leavesPerSpine, spinesPerCore, holes } = { ...topologyDefaults, ...spec };
  let slot = place.index;
  if (holes > 0) {
    slot = -1;
    for (let seen = -1; seen < place.index; ) {
      slot++;
      if (seededFraction(place.clusterSeed, "hole", place.pool, slot) >= holes) seen++;
    }
  }
  const leaf = Math.floor(slot / nodesPerLeaf);
  const spine = Math.floor(leaf / leavesPerSpine);
  return { slot, rack: Math.floor(slot / traysPerRack), leaf, spine, core: Math.floor(spine / spinesPerCore) };
}

export interface Fabric {
  readonly clusterSeed: string;
  readonly pool: string;
  /** Whether NVLink of this GPU spans nodes; without it nodes get no clique and no accelerator domain. */
  readonly clique: boolean;
  /** A fault may move a node to another NVLink partition; 0 is that of the rack. */
  readonly partition?: number;
}

/** Value of `nvidia.com/gpu.clique`: the fabric's UUID, which all trays of a rack share, and the clique within it. */
export function cliqueOf(position: Position, fabric: Fabric): string {
  return `${seededUuid(fabric.clusterSeed, "fabric", fabric.pool, position.rack)}.${fabric.partition ?? 0}`;
}

export function topologyLabels(spec: TopologySpec, position: Position, fabric: Fabric): Record<string, string> {
  const name = (tier: string, number: number) => labelValue(`${fabric.pool}-${tier}-${number}`);
  const labels: Record<string, string> = {};
  const domain = `${fabric.pool}-nvl-${position.rack}`;
  if (fabric.clique) labels["nvidia.com/gpu.clique"] = cliqueOf(position, fabric);
  switch (spec.scheme) {
    case "none":
      break;
    case "topograph":
      // Topograph leaves `accelerator` unset where the GPU operator's clique label says the same.
      labels["network.topology.nvidia.com/leaf"] = name("leaf", position.leaf);
      labels["network.topology.nvidia.com/spine"] = name("spine", position.spine);
      labels["network.topology.nvidia.com/core"] = name("core", position.core);
      break;
    case "topograph-v1":
      if (fabric.clique) {
        labels["accelerator.topograph.run/domain"] = labelValue(domain);
        labels["accelerator.topograph.run/sub-domain"] = labelValue(`${domain}-p${fabric.partition ?? 0}`);
      }
      labels["fabric.topograph.run/tier-0"] = name("leaf", position.leaf);
      labels["fabric.topograph.run/tier-1"] = name("spine", position.spine);
      labels["fabric.topograph.run/tier-2"] = name("core", position.core);
      break;
    case "knavigator":
      labels["network.topology.nvidia.com/block"] = name("block", position.leaf);
      labels["network.topology.nvidia.com/spine"] = name("spine", position.spine);
      labels["network.topology.nvidia.com/datacenter"] = name("datacenter", position.core);
      break;
  }
  return labels;
}
