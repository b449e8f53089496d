import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorPorts } from "./actor.ts";
import { delegateKube } from "./delegateKube.ts";

/** A classic mistake, put around the product's code, not into it: seeds must find it. */
export interface Mistake {
  readonly name: string;
  /** The invariant that it breaks. */
  readonly invariant: string;
  /** What a process does to the API instead of what it means to do. */
  readonly kube?: (ports: ActorPorts) => Partial<KubeApi>;
}

/** The outside of a process that makes the mistake. */
export function mistaken(ports: ActorPorts, mistake: Mistake | undefined): ActorPorts {
  if (mistake?.kube === undefined) return ports;
  return { ...ports, kube: { ...delegateKube(ports.kube), ...mistake.kube(ports) } };
}
