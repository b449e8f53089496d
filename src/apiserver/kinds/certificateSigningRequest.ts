import type { CertificateSigningRequest } from "../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../../model/objects/fieldError.ts";
import { checkImmutable } from "./checks/fieldChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

const expirationSecondsMin = 600;

export const certificateSigningRequestStrategy = strategyOfKind<CertificateSigningRequest>({
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
    const seconds = spec?.expirationSeconds;
    if (seconds !== undefined && seconds < expirationSecondsMin) {
      errors.push(
        invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"),
      );
    }
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkImmutable(next.spec, old.spec, "spec", errors);
    return errors;
  },
  selectFields: (request) => [request.spec?.signerName ?? ""],
});
