/** Binding: the write that assigns a pod to a node. */

import type { Binding, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { dnsSubdomainErrors } from "../../../model/objects/names.ts";
import { conflict, invalidObject, type StatusError } from "../../../model/objects/status.ts";
import { withPodCondition } from "./podConditions.ts";
import { topologyLabelsOf } from "./topologyLabels.ts";

export interface BindPodInput {
  /** The stored pod, which is not changed. */
  readonly pod: Pod;
  readonly binding: Binding;
  /** The node, if it exists: a pod may be bound to a node that has not registered yet. */
  readonly node: Node | undefined;
  readonly nowMs: number;
}

/** The bound pod, or the error. The caller checks that URL and body name the same pod. */
export function bindPod({ pod, binding, node, nowMs }: BindPodInput): Pod | StatusError {
  const { name } = pod.metadata;
  const errors = checkBinding(binding);
  if (errors.length > 0) return invalidObject({ group: "", kind: "Binding" }, binding.metadata.name ?? name, errors);
  const refuse = (why: string): StatusError => conflict({ group: "", resource: "pods/binding" }, name, why);
  const { uid, resourceVersion } = binding.metadata;
  if (uid && uid !== pod.metadata.uid) {
    const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${pod.metadata.uid}`;
    return conflict({ group: "", resource: "pods" }, name, why);
  }
  if (resourceVersion && resourceVersion !== pod.metadata.resourceVersion) {
    const why = `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${pod.metadata.resourceVersion}`;
    return conflict({ group: "", resource: "pods" }, name, why);
  }
  if (pod.metadata.deletionTimestamp !== undefined) {
    return refuse(`pod ${name} is being deleted, cannot be assigned to a host`);
  }
  if (pod.spec?.nodeName) {
    return refuse(`pod ${name} is already assigned to node ${JSON.stringify(pod.spec.nodeName)}`);
  }
  if ((pod.spec?.schedulingGates ?? []).length > 0) return refuse(`pod ${name} has non-empty .spec.schedulingGates`);

  const labels = { ...pod.metadata.labels, ...binding.metadata.labels, ...topologyLabelsOf(node) };
  const annotations = { ...pod.metadata.annotations, ...binding.metadata.annotations };
  const { nominatedNodeName: _, ...status } = pod.status ?? {};
  const bound: Pod = {
    ...pod,
    metadata: { ...pod.metadata },
    spec: { ...(pod.spec ?? { containers: [] }), nodeName: binding.target.name ?? "" },
    status: {
      ...status,
      conditions: withPodCondition(status.conditions, { type: "PodScheduled", status: "True" }, nowMs),
    },
  };
  if (Object.keys(labels).length > 0) bound.metadata.labels = labels;
  if (Object.keys(annotations).length > 0) bound.metadata.annotations = annotations;
  return bound;
}

function checkBinding(binding: Binding): FieldError[] {
  const errors: FieldError[] = [];
  const { kind, name } = binding.target ?? {};
  if (kind && kind !== "Node") errors.push(notSupported("target.kind", kind, ["Node", "<empty>"]));
  if (!name) errors.push(required("target.name"));
  else if (!kind || kind === "Node") {
    for (const problem of dnsSubdomainErrors(name)) errors.push(invalid("target.name", name, problem));
  }
  return errors;
}
