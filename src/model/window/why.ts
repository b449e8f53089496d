/** Why a job is pending, as data: what was tried on the snapshot, and the obstacles. */

export interface WhyPlaces {
  /** Pods that have to be placed at once. */
  readonly needed: number;
  /** Nodes that were found, one for each pod that fits. */
  readonly found: readonly string[];
}

/** Nodes that do not fit for one reason. Every node that does not fit is in exactly one class. */
export interface WhyClass {
  readonly class:
    | "amounts"
    | "unhealthy"
    | "taint"
    | "selector"
    | "volumes"
    | "pods"
    | "nominated"
    | "domain"
    | "other";
  readonly text: string;
  readonly nodes: readonly string[];
}

/** A change that would let the job run, as tried on the snapshot. */
export interface WhyCure {
  readonly id: string;
  readonly text: string;
  readonly verdict: "starts" | "waits" | "untried";
  readonly effect: string;
  /** Nodes that it would use besides those that were found. */
  readonly nodes: readonly string[];
}

/** A workload on nodes that the job accepts. */
export interface WhyHolder {
  readonly of: string;
  readonly queue: string;
  readonly gpus: number;
  readonly since: string;
  readonly evictable: boolean;
  readonly why: string;
}

export interface WhyFindings {
  readonly of: string;
  readonly places: WhyPlaces;
  readonly total: number;
  readonly evidence: readonly WhyClass[];
  readonly cures: readonly WhyCure[];
  readonly holders: readonly WhyHolder[];
}
