/**
 * Names in specs. A valid name, the common case, is recognized by a scan over its characters; only an invalid one is
 * matched with the patterns that produce the message.
 */
import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import {
  configMapKeyErrors,
  dns1035LabelErrors,
  dnsLabelErrors,
  dnsSubdomainErrors,
  labelValueErrors,
  pathSegmentErrors,
  portNameErrors,
  qualifiedNameErrors,
  relaxedEnvVarNameErrors,
} from "../../../model/objects/names.ts";

type NameErrors = (value: string) => string[];

function checker(nameErrors: NameErrors): (value: string | undefined, path: string, errors: FieldError[]) => boolean {
  return (value, path, errors) => {
    const problems = nameErrors(value ?? "");
    for (const problem of problems) errors.push(invalid(path, value ?? "", problem));
    return problems.length === 0;
  };
}

const checkDnsLabelSlowly = checker(dnsLabelErrors);
const checkDnsSubdomainSlowly = checker(dnsSubdomainErrors);
const checkQualifiedNameSlowly = checker(qualifiedNameErrors);
const checkEnvironmentNameSlowly = checker(relaxedEnvVarNameErrors);

export const checkDns1035Label = checker(dns1035LabelErrors);
export const checkLabelValue = checker(labelValueErrors);
export const checkPortName = checker(portNameErrors);
export const checkConfigKey = checker(configMapKeyErrors);
export const checkPathSegment = checker(pathSegmentErrors);

export function checkDnsLabel(value: string, path: string, errors: FieldError[]): boolean {
  return isDnsLabel(value, 0, value.length) || checkDnsLabelSlowly(value, path, errors);
}

export function checkDnsSubdomain(value: string, path: string, errors: FieldError[]): boolean {
  return isDnsLabel(value, 0, value.length) || checkDnsSubdomainSlowly(value, path, errors);
}

/** Valid names seen before: label keys and the like are few, and repeat with every pod. */
const goodQualifiedNames = new Set<string>();
const goodQualifiedNamesMax = 4096;

export function isQualifiedName(value: string): boolean {
  if (goodQualifiedNames.has(value)) return true;
  if (qualifiedNameErrors(value).length > 0) return false;
  if (goodQualifiedNames.size >= goodQualifiedNamesMax) goodQualifiedNames.clear();
  goodQualifiedNames.add(value);
  return true;
}

export function checkQualifiedName(value: string, path: string, errors: FieldError[]): boolean {
  return isQualifiedName(value ?? "") || checkQualifiedNameSlowly(value, path, errors);
}

export function checkEnvironmentName(
  name: string,
  listPath: string,
  index: number,
  errors: FieldError[],
  field = "name",
): void {
  if (!isPlainWord(name)) checkEnvironmentNameSlowly(name, `${listPath}[${index}].${field}`, errors);
}

export function labelValueProblem(value: string): string | undefined {
  if (value === "") return undefined;
  const problems = labelValueErrors(value);
  return problems.length === 0 ? undefined : problems.join(";");
}

function isDnsLabel(value: string, from: number, to: number): boolean {
  if (to - from < 1 || to - from > 63) return false;
  for (let i = from; i < to; i++) {
    const code = value.charCodeAt(i);
    const isLetterOrDigit = (code >= 97 && code <= 122) || (code >= 48 && code <= 57);
    if (!isLetterOrDigit && !(code === 45 && i > from && i < to - 1)) return false;
  }
  return true;
}

/** Letters, digits and underscores, as in nearly all names of environment variables. */
function isPlainWord(value: string): boolean {
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    const isWord =
      (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95;
    if (!isWord) return false;
  }
  return value.length > 0;
}
