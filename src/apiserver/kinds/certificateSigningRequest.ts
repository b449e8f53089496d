import type {
  CertificateSigningRequest,
  CertificateSigningRequestCondition,
  CertificateSigningRequestStatus,
} from "../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../model/objects/fieldError.ts";
import { formatTime } from "../../model/values/time.ts";
import { parseSigningRequest } from "../certificates/signingRequest.ts";
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

/** The type of the first block of a PEM text, which is base64-encoded here. */
function pemType(base64: string): string | undefined {
  return /-----BEGIN ([A-Z ]+)-----/.exec(Buffer.from(base64, "base64").toString("latin1"))?.[1];
}

const approvalTypes = ["Approved", "Denied"];
const finalTypes = [...approvalTypes, "Failed"];
const conditionStatuses = ["False", "True", "Unknown"];

function checkRequest(base64: string, errors: FieldError[]): void {
  try {
    parseSigningRequest(Buffer.from(base64, "base64").toString("latin1"));
  } catch (error) {
    errors.push(invalid("spec.request", base64, error instanceof Error ? error.message : String(error)));
  }
}

/** The status after a write of /approval, which changes only conditions. */
export function approvalStatus(
  next: CertificateSigningRequest,
  old: CertificateSigningRequest,
): CertificateSigningRequestStatus {
  const { conditions: _, ...rest } = old.status ?? {};
  return withConditions(rest, next.status?.conditions ?? []);
}

function withConditions(
  status: CertificateSigningRequestStatus,
  conditions: readonly CertificateSigningRequestCondition[],
): CertificateSigningRequestStatus {
  return conditions.length === 0 ? status : { ...status, conditions: [...conditions] };
}

/** Sets missing times of conditions. Changes the object. */
export function withConditionTimes(
  next: CertificateSigningRequest,
  old: CertificateSigningRequest,
  nowMs: number,
): CertificateSigningRequest {
  const now = formatTime(nowMs);
  for (const condition of next.status?.conditions ?? []) {
    const before = old.status?.conditions?.find(
      ({ type, status }) => type === condition.type && status === condition.status,
    );
    condition.lastUpdateTime ??= now;
    condition.lastTransitionTime ??= before?.lastTransitionTime ?? now;
  }
  return next;
}

/** Validates the conditions of a request; a final condition is True and stays. */
export function conditionErrors(next: CertificateSigningRequest, old: CertificateSigningRequest): FieldError[] {
  const errors: FieldError[] = [];
  const conditions = next.status?.conditions ?? [];
  const isRepeated = repeats();
  for (const [i, { type, status }] of conditions.entries()) {
    const path = `status.conditions[${i}]`;
    const statuses = finalTypes.includes(type) ? ["True"] : conditionStatuses;
    if (!type) errors.push(required(`${path}.type`));
    if (!status) errors.push(required(`${path}.status`));
    else if (!statuses.includes(status)) errors.push(notSupported(`${path}.status`, status, statuses));
    if (isRepeated(type)) errors.push(duplicate(`${path}.type`, type));
  }
  const types = conditions.map(({ type }) => type);
  if (types.includes("Approved") && types.includes("Denied")) {
    const last = conditions.findLast(({ type }) => approvalTypes.includes(type))?.type;
    errors.push(invalid("status.conditions", last, "Approved and Denied conditions are mutually exclusive"));
  }
  for (const type of finalTypes) {
    if (!types.includes(type) && old.status?.conditions?.some((condition) => condition.type === type) === true) {
      errors.push(forbidden("status.conditions", `updates may not remove a condition of type ${JSON.stringify(type)}`));
    }
  }
  return errors;
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
    else checkRequest(spec.request, errors);
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
    // The spec is immutable: a changed spec is not rejected but restored, as upstream.
    if (old.spec !== undefined) next.spec = old.spec;
  },
  validateStatusUpdate(next, old, { nowMs }) {
    // Approved and Denied are written through /approval only.
    const others = (next.status?.conditions ?? []).filter(({ type }) => !approvalTypes.includes(type));
    const decided = (old.status?.conditions ?? []).filter(({ type }) => approvalTypes.includes(type));
    const { conditions: _, ...rest } = next.status ?? {};
    next.status = withConditions(rest, [...decided, ...others]);
    withConditionTimes(next, old, nowMs);
    const errors = conditionErrors(next, old);
    const certificate = next.status?.certificate;
    if (certificate && pemType(certificate) !== "CERTIFICATE") {
      const detail = "must contain at least one CERTIFICATE PEM block";
      errors.push(invalid("status.certificate", "<certificate data>", detail));
    }
    return errors;
  },
  selectFields: (request) => [request.spec?.signerName ?? ""],
});
