import type { BindTarget, DeleteOptions, ObjectRef } from "../../ports/kubeApi.ts";

/** Bodies of calls for which the port has no object: delete options, Binding and Eviction. */
export function deleteBody(options: DeleteOptions): Record<string, unknown> {
  return { apiVersion: "v1", kind: "DeleteOptions", ...deleteFields(options) };
}

export function bindingBody({ namespace, name }: ObjectRef, to: BindTarget): Record<string, unknown> {
  const { uid, resourceVersion, labels, annotations } = to;
  return {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { namespace, name, uid, resourceVersion, labels, annotations },
    target: { apiVersion: "v1", kind: "Node", name: to.node },
  };
}

export function evictionBody({ namespace, name }: ObjectRef, options: DeleteOptions): Record<string, unknown> {
  const metadata = { namespace, name };
  return { apiVersion: "policy/v1", kind: "Eviction", metadata, deleteOptions: deleteFields(options) };
}

function deleteFields(options: DeleteOptions): Record<string, unknown> {
  const { gracePeriodSeconds, propagationPolicy, preconditions, dryRun } = options;
  return { gracePeriodSeconds, propagationPolicy, preconditions, dryRun: dryRun === true ? ["All"] : undefined };
}
