/**
 * Validation of names. Every function returns the errors of a value, none when it is valid. The messages are
 * Kubernetes', because users search for them.
 */

const labelPattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const subdomainPattern = `${labelPattern}(\\.${labelPattern})*`;
const dns1035Pattern = "[a-z]([-a-z0-9]*[a-z0-9])?";
const qualifiedPattern = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const labelValuePattern = `(${qualifiedPattern})?`;
const cIdentifierPattern = "[A-Za-z_][A-Za-z0-9_]*";
const envVarPattern = "[-._a-zA-Z][-._a-zA-Z0-9]*";
const configMapKeyPattern = "[-._a-zA-Z0-9]+";
const percentPattern = "[0-9]+%";
const headerPattern = "[-A-Za-z0-9]+";
const wildcardPattern = `\\*\\.${subdomainPattern}`;

const labelShape = whole(labelPattern);
const subdomainShape = whole(subdomainPattern);
const dns1035Shape = whole(dns1035Pattern);
const qualifiedShape = whole(qualifiedPattern);
const labelValueShape = whole(labelValuePattern);
const cIdentifierShape = whole(cIdentifierPattern);
const envVarShape = whole(envVarPattern);
const configMapKeyShape = whole(configMapKeyPattern);
const percentShape = whole(percentPattern);
const headerShape = whole(headerPattern);
const wildcardShape = whole(wildcardPattern);
const portNameShape = /^[-a-z0-9]+$/;
const printableAscii = /^[\x20-\x7e]*$/;

const subdomainMessage = patternMessage(
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
  subdomainPattern,
  ["example.com"],
);
const labelMessage = patternMessage(
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
  labelPattern,
  ["my-name", "123-abc"],
);
const dns1035Message = patternMessage(
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
  dns1035Pattern,
  ["my-name", "abc-123"],
);
const wildcardMessage = patternMessage(
  "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
  wildcardPattern,
  ["*.example.com"],
);
const qualifiedMessage = patternMessage(
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  qualifiedPattern,
  ["MyName", "my.name", "123-abc"],
);
const labelValueMessage = patternMessage(
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  labelValuePattern,
  ["MyValue", "my_value", "12345"],
);
const cIdentifierMessage = patternMessage(
  "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
  cIdentifierPattern,
  ["my_name", "MY_NAME", "MyName"],
);
const envVarMessage = patternMessage(
  "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
  envVarPattern,
  ["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
);
const configMapKeyMessage = patternMessage(
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
  configMapKeyPattern,
  ["key.name", "KEY_NAME", "key-name"],
);
const percentMessage = patternMessage(
  "a valid percent string must be a numeric string followed by an ending '%'",
  percentPattern,
  ["1%", "93%"],
);
const headerMessage = patternMessage(
  "a valid HTTP header must consist of alphanumeric characters or '-'",
  headerPattern,
  ["X-Header-Name"],
);

/** Most object names: `web-0.example`. */
export function dnsSubdomainErrors(value: string): string[] {
  const errors = lengthErrors(value, 253, "characters");
  if (!subdomainShape.test(value)) errors.push(subdomainMessage);
  return errors;
}

/** Namespaces, containers, volumes: no dots, 63 characters. */
export function dnsLabelErrors(value: string): string[] {
  const errors = lengthErrors(value, 63, "characters");
  if (!labelShape.test(value)) errors.push(subdomainShape.test(value) ? "must not contain dots" : labelMessage);
  return errors;
}

/** Services: like a DNS label, but never starting with a digit. */
export function dns1035LabelErrors(value: string): string[] {
  const errors = lengthErrors(value, 63, "characters");
  if (!dns1035Shape.test(value)) errors.push(dns1035Message);
  return errors;
}

/** Hosts of an Ingress: `*.example.com`. */
export function wildcardSubdomainErrors(value: string): string[] {
  const errors = lengthErrors(value, 253, "characters");
  if (!wildcardShape.test(value)) errors.push(wildcardMessage);
  return errors;
}

/** A valid path segment of a URL, as RBAC kinds and custom resources require. */
export function pathSegmentErrors(value: string): string[] {
  if (value === ".") return ["may not be '.'"];
  if (value === "..") return ["may not be '..'"];
  return pathSegmentPrefixErrors(value);
}

/** The same for a generateName, of which `.` alone is fine because more follows. */
export function pathSegmentPrefixErrors(value: string): string[] {
  const errors: string[] = [];
  if (value.includes("/")) errors.push("may not contain '/'");
  if (value.includes("%")) errors.push("may not contain '%'");
  return errors;
}

export type NameRule = "dnsSubdomain" | "dnsLabel" | "dns1035Label" | "pathSegment";

const ruleErrors: Record<NameRule, (value: string) => string[]> = {
  dnsSubdomain: dnsSubdomainErrors,
  dnsLabel: dnsLabelErrors,
  dns1035Label: dns1035LabelErrors,
  pathSegment: pathSegmentErrors,
};

/** The check of `metadata.name` for kinds that follow this rule. */
export function nameErrors(rule: NameRule, value: string): string[] {
  return ruleErrors[rule](value);
}

/** The check of `metadata.generateName`: a dash at the end is fine, for the random part follows it. */
export function generateNameErrors(rule: NameRule, value: string): string[] {
  if (rule === "pathSegment") return pathSegmentPrefixErrors(value);
  // Upstream covers the dash and the letter before it with one `a`; the odd results for `a.-` stay the same this way.
  const masked = value.length > 1 && value.endsWith("-") ? `${value.slice(0, -2)}a` : value;
  return ruleErrors[rule](masked);
}

/** Keys of labels and annotations, finalizers, condition types: `example.com/name` or `name`. */
export function qualifiedNameErrors(value: string): string[] {
  const slash = value.indexOf("/");
  const errors: string[] = [];
  let name = value;
  if (slash >= 0) {
    if (value.indexOf("/", slash + 1) >= 0) {
      return [
        `a valid label key ${qualifiedMessage} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
      ];
    }
    const prefix = value.slice(0, slash);
    name = value.slice(slash + 1);
    if (prefix === "") errors.push("prefix part must be non-empty");
    else {
      for (const error of lengthErrors(prefix, 253, "bytes")) errors.push(`prefix part ${error}`);
      if (!subdomainShape.test(prefix)) errors.push(`prefix part ${subdomainMessage}`);
    }
  }
  if (name === "") errors.push("name part must be non-empty");
  else for (const error of lengthErrors(name, 63, "bytes")) errors.push(`name part ${error}`);
  if (!qualifiedShape.test(name)) errors.push(`name part ${qualifiedMessage}`);
  return errors;
}

export function labelValueErrors(value: string): string[] {
  const errors = lengthErrors(value, 63, "bytes");
  if (!labelValueShape.test(value)) errors.push(labelValueMessage);
  return errors;
}

export function cIdentifierErrors(value: string): string[] {
  return cIdentifierShape.test(value) ? [] : [cIdentifierMessage];
}

/** Names of environment variables where the old, narrow rule applies. */
export function envVarNameErrors(value: string): string[] {
  const errors = envVarShape.test(value) ? [] : [envVarMessage];
  return errors.concat(parentPathErrors(value));
}

/** Names of environment variables since 1.34: any printable ASCII but `=`. */
export function relaxedEnvVarNameErrors(value: string): string[] {
  if (value === "") return ["environment variable name must be non-empty"];
  if (printableAscii.test(value) && !value.includes("=")) return [];
  return ["a valid environment variable name must consist only of printable ASCII characters other than '='"];
}

/** Keys of ConfigMaps and Secrets, which become file names. */
export function configMapKeyErrors(value: string): string[] {
  const errors = lengthErrors(value, 253, "characters");
  if (!configMapKeyShape.test(value)) errors.push(configMapKeyMessage);
  return errors.concat(parentPathErrors(value));
}

/** Names of ports as IANA knows services: `http`, `metrics-2`. */
export function portNameErrors(value: string): string[] {
  const errors = lengthErrors(value, 15, "characters");
  if (!portNameShape.test(value)) {
    errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  }
  if (!/[a-z]/.test(value)) errors.push("must contain at least one letter (a-z)");
  if (value.includes("--")) errors.push("must not contain consecutive hyphens");
  if (value.startsWith("-") || value.endsWith("-")) errors.push("must not begin or end with a hyphen");
  return errors;
}

export function portNumberErrors(value: number): string[] {
  return rangeErrors(value, 1, 65535);
}

export function rangeErrors(value: number, min: number, max: number): string[] {
  return value >= min && value <= max ? [] : [`must be between ${min} and ${max}, inclusive`];
}

export function percentErrors(value: string): string[] {
  return percentShape.test(value) ? [] : [percentMessage];
}

export function httpHeaderNameErrors(value: string): string[] {
  return headerShape.test(value) ? [] : [headerMessage];
}

function parentPathErrors(value: string): string[] {
  if (value === ".") return ["must not be '.'"];
  if (value === "..") return ["must not be '..'"];
  return value.startsWith("..") ? ["must not start with '..'"] : [];
}

/** Limits count bytes although some messages say characters. */
function lengthErrors(value: string, max: number, unit: "characters" | "bytes"): string[] {
  return utf8LengthOf(value, max) > max ? [`must be no more than ${max} ${unit}`] : [];
}

function utf8LengthOf(text: string, enough: number): number {
  if (text.length > enough || text.length * 3 <= enough) return text.length;
  let length = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    length += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  return length;
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}

function patternMessage(text: string, pattern: string, examples: readonly string[]): string {
  const shown = examples.map((example) => `'${example}', `).join(" or ");
  return `${text} (e.g. ${shown}regex used for validation is '${pattern}')`;
}
