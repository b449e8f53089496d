import { type Pool, type Profiles, profilesWith } from "../../model/profiles/profiles.ts";
import { type DraOptions, draDefaults } from "../devices/draDevices.ts";
import { nodeLifeDefaults } from "../node/nodeLife.ts";
import { claimLifeDefaults } from "../pods/claimLife.ts";
import { type Delays, livelyDelays } from "../pods/podPlan.ts";
import { type ReservationOptions, reservationDefaults } from "../pods/reservationAgent.ts";

export interface NodesOptions {
  /** Nodes to create when they are missing. Nodes of other tools are simulated too, if they have KWOK's annotation. */
  readonly pools: readonly Pool[];
  readonly profiles: Profiles;
  readonly seed: string;
  /**
   * The holder identity in the leases of nodes. With the same identity a restarted process resumes at once; two
   * processes must not share one.
   */
  readonly holder: string;
  /** Adds KWOK's taint to nodes that are created. */
  readonly kwokTaint: boolean;
  /** Adds that taint to all simulated nodes as soon as the cluster has a real one. */
  readonly taintBesideReal: boolean;
  readonly delays: Delays;
  readonly events: "all" | "warnings" | "none";
  /** Readiness gates wait for their controller, or are set by the node as KWOK does. */
  readonly gates: "wait" | "satisfy";
  readonly leases: boolean;
  readonly leaseSeconds: number;
  readonly heartbeatMs: number;
  /** Undefined: no slices and no claims, for servers that do not serve resource.k8s.io/v1. */
  readonly dra: DraOptions | undefined;
  readonly prepareMs: number;
  readonly unprepareMs: number;
  readonly reservation: ReservationOptions;
  /** Reads KWOK's Stage objects; their definition must exist. */
  readonly stages: boolean;
  /** The number of nodes that are reconciled at once, and of writes of a node in flight. */
  readonly concurrency: number;
  readonly writesPerNode: number;
}

export const nodesDefaults: NodesOptions = {
  pools: [],
  profiles: profilesWith(),
  seed: "muster",
  holder: "muster",
  kwokTaint: false,
  taintBesideReal: false,
  delays: livelyDelays,
  events: "all",
  gates: "wait",
  leases: nodeLifeDefaults.leases,
  leaseSeconds: nodeLifeDefaults.leaseSeconds,
  heartbeatMs: nodeLifeDefaults.heartbeatMs,
  dra: draDefaults,
  prepareMs: claimLifeDefaults.prepareMs,
  unprepareMs: claimLifeDefaults.unprepareMs,
  reservation: reservationDefaults,
  stages: true,
  concurrency: 64,
  writesPerNode: 16,
};
