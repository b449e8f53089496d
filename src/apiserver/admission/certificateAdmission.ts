import { Buffer } from "node:buffer";
import type { CertificateSigningRequest } from "../../model/kubernetes.generated.ts";
import { equalJson } from "../../model/objects/json.ts";
import { forbiddenError } from "../../model/objects/status.ts";
import { type Authorizer, mastersGroup, resourceAccess } from "../auth/access.ts";
import { clientSigner } from "../certificates/signers.ts";
import { parseSigningRequest } from "../certificates/signingRequest.ts";
import type { AdmissionAttributes } from "./admission.ts";

/**
 * Upstream's admission of CertificateSigningRequests: approving requires the verb `approve` on the signer, writing a
 * certificate or a failure the verb `sign`, and no request of the client signer may be for `system:masters`. Throws a
 * StatusError.
 */
export function admitCertificate(authorizer: Authorizer, attributes: AdmissionAttributes): void {
  const { type, subresource, operation, user } = attributes;
  if (type.storageKey !== "certificates.k8s.io/certificatesigningrequests") return;
  const next = attributes.object as CertificateSigningRequest | undefined;
  if (next === undefined) return;
  const { signerName = "" } = next.spec ?? {};
  const refuse = (why: string): never => {
    throw forbiddenError({ group: type.group, resource: type.plural }, attributes.name, why);
  };
  if (operation === "CREATE" && subresource === "") {
    if (signerName === clientSigner && organizationsOf(next).includes(mastersGroup)) {
      refuse(`use of ${signerName} signer with ${mastersGroup} group is not allowed`);
    }
    return;
  }
  if (operation !== "UPDATE") return;
  const old = attributes.oldObject as CertificateSigningRequest | undefined;
  const may = (verb: string): boolean =>
    [signerName, `${signerName.split("/")[0]}/*`].some(
      (name) =>
        authorizer.authorize(user, resourceAccess({ verb, group: type.group, resource: "signers", name })).allowed,
    );
  if (subresource === "approval" && !may("approve")) {
    refuse(`user not permitted to approve requests with signerName ${JSON.stringify(signerName)}`);
  }
  if (subresource === "status" && isSigning(next, old) && !may("sign")) {
    refuse(`user not permitted to sign requests with signerName ${JSON.stringify(signerName)}`);
  }
}

function isSigning(next: CertificateSigningRequest, old: CertificateSigningRequest | undefined): boolean {
  return (
    next.status?.certificate !== old?.status?.certificate ||
    !equalJson(next.status?.conditions ?? [], old?.status?.conditions ?? [])
  );
}

/** A request that cannot be parsed has no organizations; validation rejects it. */
function organizationsOf({ spec }: CertificateSigningRequest): readonly string[] {
  try {
    return parseSigningRequest(Buffer.from(spec.request, "base64").toString("latin1")).organizations;
  } catch {
    return [];
  }
}
