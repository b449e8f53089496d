import type { CertificateSigningRequest } from "../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, invalid, notSupported, required } from "../../model/objects/fieldError.ts";
import { repeats } from "./checks/repeats.ts";
import { strategyOfKind } from "./kindStrategy.ts";

const expirationSecondsMin = 600;
const usages = [
  "any",
  "cert sign",
  "client auth",
  "code signing",
  "content commitment",
  "crl sign",
  "data encipherment",
  "decipher only",
  "digital signature",
  "email protection",
  "encipher only",
  "ipsec end system",
  "ipsec tunnel",
  "ipsec user",
  "key agreement",
  "key encipherment",
  "microsoft sgc",
  "netscape sgc",
  "ocsp signing",
  "s/mime",
  "server auth",
  "signing",
  "timestamping",
];

/** What the first block of a PEM text, here in base64, says that it is. */
function pemType(base64: string): string | undefined {
  return /-----BEGIN ([A-Z ]+)-----/.exec(Buffer.from(base64, "base64").toString("latin1"))?.[1];
}

export const certificateSigningRequestStrategy = strategyOfKind<CertificateSigningRequest>({
  name: "pathSegment",
  generation: "none",
  prepareForCreate(request, { user }) {
    // The server sets the requesting user, never the client.
    const { spec } = request;
    if (spec === undefined) return;
    spec.username = user.username;
    spec.groups = [...user.groups];
    if (user.uid === undefined) delete spec.uid;
    else spec.uid = user.uid;
    if (user.extra === undefined) delete spec.extra;
    else spec.extra = Object.fromEntries(Object.entries(user.extra).map(([key, values]) => [key, [...values]]));
  },
  validate(request) {
    const errors: FieldError[] = [];
    const { spec } = request;
    if (!spec?.request) errors.push(required("spec.request"));
    else if (pemType(spec.request) !== "CERTIFICATE REQUEST") {
      errors.push(invalid("spec.request", spec.request, "PEM block type must be CERTIFICATE REQUEST"));
    }
    if (!spec?.signerName) errors.push(required("spec.signerName"));
    else if (!/^[^/]+\/[^/]+/.test(spec.signerName)) {
      errors.push(
        invalid(
          "spec.signerName",
          spec.signerName,
          "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
      );
    }
    if ((spec?.usages ?? []).length === 0) errors.push(required("spec.usages"));
    const isRepeated = repeats();
    for (const [i, usage] of (spec?.usages ?? []).entries()) {
      if (!usages.includes(usage)) errors.push(notSupported(`spec.usages[${i}]`, usage, usages));
      if (isRepeated(usage)) errors.push(duplicate(`spec.usages[${i}]`, usage));
    }
    const seconds = spec?.expirationSeconds;
    if (seconds !== undefined && seconds < expirationSecondsMin) {
      errors.push(
        invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"),
      );
    }
    return errors;
  },
  prepareForUpdate(next, old) {
    // A request is decided as it was made: another spec is not refused, it is put back.
    if (old.spec !== undefined) next.spec = old.spec;
  },
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    for (const [i, { type, status }] of (next.status?.conditions ?? []).entries()) {
      if (!type) errors.push(required(`status.conditions[${i}].type`));
      if (!status) errors.push(required(`status.conditions[${i}].status`));
      else if (!["False", "True", "Unknown"].includes(status)) {
        errors.push(notSupported(`status.conditions[${i}].status`, status, ["False", "True", "Unknown"]));
      }
    }
    const certificate = next.status?.certificate;
    if (certificate && pemType(certificate) !== "CERTIFICATE") {
      const detail = "must contain at least one CERTIFICATE PEM block";
      errors.push(invalid("status.certificate", "<certificate data>", detail));
    }
    return errors;
  },
  selectFields: (request) => [request.spec?.signerName ?? ""],
});
