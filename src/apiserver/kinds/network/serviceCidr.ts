import type { IPAddress, ServiceCIDR } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { cidrErrors, ipErrors, parseCidr } from "../../../model/values/ipAddress.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";

/** Ranges from which Services get their addresses. */
export const serviceCidrStrategy = strategyOfKind<ServiceCIDR>({
  generation: "spec",
  validate: ({ spec }) => rangeErrors(spec?.cidrs ?? []),
  validateUpdate(next, old) {
    const [before, after] = [old.spec?.cidrs ?? [], next.spec?.cidrs ?? []];
    // A range of the other family may be added.
    const isGrown = before.length === 1 && after.length === 2 && after[0] === before[0];
    if (equalJson(before, after)) return [];
    return isGrown ? rangeErrors(after) : [invalid("spec.cidrs", after, "field is immutable")];
  },
});

function rangeErrors(ranges: readonly string[]): FieldError[] {
  const path = "spec.cidrs";
  if (ranges.length === 0) return [required(path, "at least one CIDR required")];
  if (ranges.length > 2) {
    return [invalid(path, ranges, "may only hold up to 2 values")];
  }
  const errors = ranges.flatMap((text, at) =>
    cidrErrors(text).map((problem) => invalid(`${path}[${at}]`, text, problem)),
  );
  const families = ranges.map((text) => parseCidr(text)?.address.family);
  if (errors.length === 0 && ranges.length === 2 && families[0] === families[1]) {
    errors.push(
      invalid(path, ranges, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"),
    );
  }
  return errors;
}

/** An address that an object has, as its name. */
export const ipAddressStrategy = strategyOfKind<IPAddress>({
  name: "pathSegment",
  generation: "none",
  validate: (address) => addressErrors(address),
  validateUpdate(next, old) {
    const errors = addressErrors(next);
    checkImmutable(next.spec?.parentRef, old.spec?.parentRef, "spec.parentRef", errors);
    return errors;
  },
});

function addressErrors({ metadata, spec }: Partial<IPAddress>): FieldError[] {
  const name = metadata?.name ?? "";
  const errors = ipErrors(name).map((problem) => invalid("metadata.name", name, problem));
  const parent = spec?.parentRef;
  if (parent === undefined) return [...errors, required("spec.parentRef")];
  if (parent.group) checkDnsSubdomain(parent.group, "spec.parentRef.group", errors);
  if (!parent.resource) errors.push(required("spec.parentRef.resource"));
  if (!parent.name) errors.push(required("spec.parentRef.name"));
  if (parent.name?.includes("/")) errors.push(forbidden("spec.parentRef.name", "may not contain '/'"));
  return errors;
}
