import type { CertificateSigningRequest } from "../../model/kubernetes.generated.ts";
import type { SigningRequest } from "./signingRequest.ts";

/** The signers of Kubernetes' own controllers. Other signers belong to other controllers. */
export const clientSigner = "kubernetes.io/kube-apiserver-client";
export const kubeletClientSigner = "kubernetes.io/kube-apiserver-client-kubelet";
export const kubeletServingSigner = "kubernetes.io/kubelet-serving";
const legacySigner = "kubernetes.io/legacy-unknown";

const nodesOrganization = "system:nodes";
const nodePrefix = "system:node:";

type Rule = (request: SigningRequest, usages: readonly string[]) => string | undefined;

const rules: Readonly<Record<string, Rule>> = {
  [clientSigner]: (_, usages) => clientUsageProblem(usages),
  [kubeletClientSigner]: kubeletClientProblem,
  [kubeletServingSigner]: kubeletServingProblem,
  [legacySigner]: () => undefined,
};

export function isBuiltinSigner(signerName: string): boolean {
  return Object.hasOwn(rules, signerName);
}

/** Why a built-in signer does not sign the request; undefined when it does. */
export function signerProblem(
  signerName: string,
  request: SigningRequest,
  usages: readonly string[],
): string | undefined {
  return rules[signerName]?.(request, usages);
}

/** The subresource of CertificateSigningRequests whose `create` right approves the request automatically. */
export type ApprovalRight = "selfnodeclient" | "nodeclient";

/** The rights that approve a request of this user, in the order of upstream; none for other requests than kubelets'. */
export function approvalRights(
  { signerName, username, usages }: CertificateSigningRequest["spec"],
  request: SigningRequest,
): readonly ApprovalRight[] {
  if (signerName !== kubeletClientSigner || kubeletClientProblem(request, usages ?? []) !== undefined) return [];
  return request.commonName === username ? ["selfnodeclient", "nodeclient"] : ["nodeclient"];
}

function clientUsageProblem(usages: readonly string[]): string | undefined {
  const other = usages.find((usage) => !["digital signature", "key encipherment", "client auth"].includes(usage));
  if (other !== undefined) return `invalid usage for client certificate: ${other}`;
  return usages.includes("client auth") ? undefined : "missing required usage for client certificate: client auth";
}

function kubeletClientProblem(request: SigningRequest, usages: readonly string[]): string | undefined {
  const { names } = request;
  if (!isOfNodes(request)) return "subject organization is not system:nodes";
  if (names.dns.length > 0) return "DNS subjectAltNames are not allowed";
  if (names.email.length > 0) return "Email subjectAltNames are not allowed";
  if (names.ip.length > 0) return "IP subjectAltNames are not allowed";
  if (names.uri.length > 0) return "URI subjectAltNames are not allowed";
  if (!request.commonName.startsWith(nodePrefix)) return "subject common name does not begin with system:node: ";
  return usageProblem(usages, "client auth");
}

function kubeletServingProblem(request: SigningRequest, usages: readonly string[]): string | undefined {
  const { names } = request;
  if (!isOfNodes(request)) return "subject organization is not system:nodes";
  if (names.dns.length + names.ip.length === 0) return "DNS or IP subjectAltName is required";
  if (names.email.length > 0) return "Email subjectAltNames are not allowed";
  if (names.uri.length > 0) return "URI subjectAltNames are not allowed";
  if (!request.commonName.startsWith(nodePrefix)) return "subject common name does not begin with system:node: ";
  return usageProblem(usages, "server auth");
}

function isOfNodes({ organizations }: SigningRequest): boolean {
  return organizations.length === 1 && organizations[0] === nodesOrganization;
}

/** Kubelets need the usage and a digital signature; key encipherment is for RSA keys. */
function usageProblem(usages: readonly string[], needed: "client auth" | "server auth"): string | undefined {
  const given = usages.filter((usage) => usage !== "key encipherment").sort();
  const isExact = given.length === 2 && given.includes("digital signature") && given.includes(needed);
  return isExact ? undefined : `usages did not match [digital signature ${needed}], with or without key encipherment`;
}
