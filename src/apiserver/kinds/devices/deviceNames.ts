/** Names of drivers, pools, attributes and devices in resource.k8s.io. */
import { type FieldError, invalid, required, tooLong } from "../../../model/objects/fieldError.ts";
import { cIdentifierErrors, dnsSubdomainErrors } from "../../../model/objects/names.ts";
import { checkDnsLabel, checkDnsSubdomain } from "../checks/nameChecks.ts";

const driverBytesMax = 63;
const poolBytesMax = 253;
const identifierBytesMax = 32;

export function checkDriverName(name: string | undefined, path: string, errors: FieldError[]): void {
  if (!name) {
    errors.push(required(path));
    return;
  }
  if (name.length > driverBytesMax) errors.push(tooLong(path, driverBytesMax));
  // Upper case was accepted by earlier versions and is still in use.
  checkDnsSubdomain(name.toLowerCase(), path, errors);
}

export function checkPoolName(name: string | undefined, path: string, errors: FieldError[]): void {
  if (!name) {
    errors.push(required(path));
    return;
  }
  if (name.length > poolBytesMax) errors.push(tooLong(path, poolBytesMax));
  for (const part of name.split("/")) {
    for (const problem of dnsSubdomainErrors(part)) errors.push(invalid(path, part, problem));
  }
}

export function checkRequiredDnsLabel(name: string | undefined, path: string, errors: FieldError[]): void {
  if (!name) errors.push(required(path));
  else checkDnsLabel(name, path, errors);
}

/** `model`, or `gpu.example.com/model`. */
export function checkQualifiedIdentifier(name: string, path: string, errors: FieldError[]): void {
  if (name === "") {
    errors.push(required(path));
    return;
  }
  const slash = name.indexOf("/");
  if (slash < 0) {
    checkIdentifier(name, path, errors);
    return;
  }
  const domain = name.slice(0, slash);
  const identifier = name.slice(slash + 1);
  if (domain === "") errors.push(invalid(path, "", "the domain must not be empty"));
  else checkDriverName(domain, path, errors);
  if (identifier === "") errors.push(invalid(path, "", "the name must not be empty"));
  // A second slash is accepted, as upstream: stored slices must stay valid.
  else if (!identifier.includes("/")) checkIdentifier(identifier, path, errors);
}

export function checkFullyQualifiedIdentifier(name: string, path: string, errors: FieldError[]): void {
  checkQualifiedIdentifier(name, path, errors);
  if (name !== "" && !name.includes("/")) {
    errors.push(invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"));
  }
}

function checkIdentifier(name: string, path: string, errors: FieldError[]): void {
  if (name.length > identifierBytesMax) errors.push(tooLong(path, identifierBytesMax));
  for (const problem of cIdentifierErrors(name)) errors.push(invalid(path, name, problem));
}
