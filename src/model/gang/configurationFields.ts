/**
 * The fields of Grove's OperatorConfiguration, of its chart and of its earlier versions, and Muster's own. A field that
 * is none of them is refused inside a section that Muster reads: it is misspelt, and its default would apply silently.
 * Newer versions of Grove may have further sections, so an unknown section is refused only if it resembles a known one.
 */
import { type FieldError, forbidden, typeInvalid } from "../objects/fieldError.ts";
import { isObject } from "../objects/json.ts";
import { byDistance, nameDistance } from "../values/nameDistance.ts";

/** `any`: Muster does not read what is inside. */
type Fields = { readonly [name: string]: "any" | Fields | readonly [Fields] };

const controller: Fields = { concurrentSyncs: "any" };

/** A list has one entry: the fields of each item. */
const sections: Fields = {
  apiVersion: "any",
  kind: "any",
  metadata: "any",
  runtimeClientConnection: "any",
  server: "any",
  debugging: "any",
  clusterTopology: "any",
  logLevel: "any",
  logFormat: "any",
  leaderElection: {
    enabled: "any",
    leaseDuration: "any",
    renewDeadline: "any",
    retryPeriod: "any",
    resourceLock: "any",
    resourceName: "any",
    resourceNamespace: "any",
  },
  controllers: {
    podCliqueSet: controller,
    podClique: controller,
    podCliqueScalingGroup: controller,
    podGang: controller,
    podGangSet: "any",
  },
  authorizer: {
    enabled: "any",
    exemptServiceAccountUserNames: "any",
    exemptServiceAccounts: "any",
    reconcilerServiceAccountUserName: "any",
  },
  topologyAwareScheduling: { enabled: "any", levels: "any" },
  network: { autoMNNVLEnabled: "any" },
  scheduler: { profiles: [{ name: "any", config: "any" }], defaultProfileName: "any" },
  gangTermination: { fullLossPolicy: "any" },
  initContainer: { image: "any" },
};

/** Two typing mistakes, or one pair of exchanged letters. */
const misspeltMax = 2;

export function unknownFields(document: Readonly<Record<string, unknown>>): FieldError[] {
  return Object.entries(document).flatMap(([name, value]) => {
    const fields = fieldOf(sections, name);
    if (fields !== undefined) return problemsOf(value, fields, name);
    const [nearest = ""] = byDistance(name, Object.keys(sections));
    return nameDistance(name, nearest) <= misspeltMax ? [unknown(name, nearest)] : [];
  });
}

function problemsOf(value: unknown, fields: Fields[string], path: string): FieldError[] {
  // Without a value the defaults apply, as without the field.
  if (fields === "any" || value === null || value === undefined) return [];
  if (isList(fields)) {
    if (!Array.isArray(value)) return [typeInvalid(path, value, "must be a list")];
    return value.flatMap((item: unknown, at) => problemsOf(item, fields[0], `${path}[${at}]`));
  }
  if (!isObject(value)) return [typeInvalid(path, value, "must be an object")];
  return Object.entries(value).flatMap(([name, inner]) => {
    const known = fieldOf(fields, name);
    if (known !== undefined) return problemsOf(inner, known, `${path}.${name}`);
    return [unknown(`${path}.${name}`, byDistance(name, Object.keys(fields))[0] ?? "")];
  });
}

/** A document may have a field named `constructor`. */
function fieldOf(fields: Fields, name: string): Fields[string] | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function isList(fields: Fields | readonly [Fields]): fields is readonly [Fields] {
  return Array.isArray(fields);
}

function unknown(path: string, nearest: string): FieldError {
  return forbidden(path, `unknown field; the nearest known one is ${nearest}`);
}
