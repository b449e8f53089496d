import { splitApiVersion } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";

/** A kind that an installation has objects of. */
export interface InstallKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  /** Of an operator that a cluster may lack. */
  readonly isOptional?: boolean;
}

/**
 * In the order in which an uninstallation deletes them: webhooks first, then the processes, then the objects that the
 * processes use.
 */
export const installKinds: readonly InstallKind[] = [
  kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
  kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
  kind("apps/v1", "Deployment"),
  { ...kind("monitoring.coreos.com/v1", "ServiceMonitor"), isOptional: true },
  { ...kind("cert-manager.io/v1", "Certificate"), isOptional: true },
  { ...kind("cert-manager.io/v1", "Issuer"), isOptional: true },
  kind("policy/v1", "PodDisruptionBudget"),
  { ...kind("networking.k8s.io/v1", "NetworkPolicy"), plural: "networkpolicies" },
  kind("v1", "Service"),
  kind("v1", "Secret"),
  kind("coordination.k8s.io/v1", "Lease"),
  kind("rbac.authorization.k8s.io/v1", "RoleBinding"),
  kind("rbac.authorization.k8s.io/v1", "Role"),
  kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
  kind("rbac.authorization.k8s.io/v1", "ClusterRole"),
  kind("v1", "ServiceAccount"),
  { ...kind("scheduling.k8s.io/v1", "PriorityClass"), plural: "priorityclasses" },
  kind("v1", "Namespace"),
  kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

function kind(apiVersion: string, name: string): InstallKind {
  return { apiVersion, kind: name, plural: `${name.toLowerCase()}s` };
}

export function resourceOf(wanted: { readonly kind: string }): Resource {
  const found = installKinds.find((each) => each.kind === wanted.kind);
  if (found === undefined) throw new Error(`an installation has no objects of kind ${wanted.kind}`);
  return { ...splitApiVersion(found.apiVersion), plural: found.plural };
}

export function refOf(object: {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string | undefined };
}): ObjectRef {
  return { ...resourceOf(object), namespace: object.metadata.namespace ?? "", name: object.metadata.name };
}

/** `Role muster-system/muster-lease`. */
export function nameOf({ kind: name, metadata }: Parameters<typeof refOf>[0]): string {
  return `${name} ${metadata.namespace === undefined ? "" : `${metadata.namespace}/`}${metadata.name}`;
}
