import type { KubeApi } from "../ports/kubeApi.ts";
import type { ActorPorts } from "./actor.ts";

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
  const { kube } = ports;
  if (mistake?.kube === undefined) return ports;
  const right: KubeApi = {
    get: (...args) => kube.get(...args),
    list: (...args) => kube.list(...args),
    watch: (...args) => kube.watch(...args),
    create: (...args) => kube.create(...args),
    update: (...args) => kube.update(...args),
    patch: (...args) => kube.patch(...args),
    delete: (...args) => kube.delete(...args),
    bind: (...args) => kube.bind(...args),
    evict: (...args) => kube.evict(...args),
  };
  return { ...ports, kube: { ...right, ...mistake.kube(ports) } };
}
