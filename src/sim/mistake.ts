import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorPorts } from "./actor.ts";
import { delegateKube } from "./delegateKube.ts";

/** A classic bug that is injected around the product's code, not into it. Seeds must find it. */
export interface Mistake {
  readonly name: string;
  /** The invariant that it breaks. */
  readonly invariant: string;
  /** The API with the bug. */
  readonly kube?: (ports: ActorPorts) => Partial<KubeApi>;
}

/** The ports of a process with the bug. */
export function mistaken(ports: ActorPorts, mistake: Mistake | undefined): ActorPorts {
  if (mistake?.kube === undefined) return ports;
  return { ...ports, kube: { ...delegateKube(ports.kube), ...mistake.kube(ports) } };
}
