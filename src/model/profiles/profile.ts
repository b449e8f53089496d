import type { Taint } from "../kubernetes.generated.ts";
import type { TopologySpec } from "./topology.ts";

/** A node profile: the hardware of a simulated node and its labels. */
export interface Profile {
  readonly name: string;
  readonly arch: "amd64" | "arm64";
  readonly osImage: string;
  readonly cpu: string;
  readonly memory: string;
  readonly storage: string;
  readonly maxPods: number;
  readonly instanceType?: string;
  readonly kubeletVersion?: string;
  readonly region?: string;
  readonly zones?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly taints?: readonly Taint[];
  readonly gpu?: GpuSpec;
  readonly topology?: TopologySpec;
  /** How recipes find a profile: by cloud service, role and accelerator. */
  readonly match?: ProfileMatch;
}

export interface ProfileMatch {
  readonly service: string;
  readonly nodeType: "system" | "accelerated";
  readonly accelerator?: string;
}

export interface GpuSpec {
  /** The value of the product label: `NVIDIA-H100-80GB-HBM3`. */
  readonly product: string;
  readonly count: number;
  readonly memoryMiB: number;
  /** Driver version, `570.86.16`. */
  readonly driver: string;
  readonly family?: string;
  readonly computeCapability?: string;
  /** CUDA version the driver brings, `12.8`. */
  readonly cuda?: string;
  /** Whether the GPU supports MIG, and its current partitions. */
  readonly migCapable?: boolean;
  readonly mig?: MigSpec;
  /** Time slicing: how many pods may share one device; 1 disables it. */
  readonly replicas?: number;
  /** Whether NVLink reaches beyond the node, so that a rack forms a clique. */
  readonly clique?: boolean;
  readonly numaNodes?: number;
}

/** Partitions of every GPU of the node. */
export interface MigSpec {
  readonly strategy: "none" | "single" | "mixed";
  /** Partition profile to how many of it per GPU: `{ "1g.10gb": 7 }`. */
  readonly partitions: Readonly<Record<string, number>>;
}
