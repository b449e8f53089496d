import type { Pod, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import { isObject } from "../../../model/objects/json.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { controllerOf } from "../../../model/objects/ownership.ts";
import { forbiddenError, invalidObject } from "../../../model/objects/status.ts";
import type { Core } from "../../verbs/core.ts";
import type { AdmissionAttributes } from "../admission.ts";
import { type Level, podLike, type Violation, violationsOf } from "./standards.ts";

/**
 * Pod Security admission: labels of a namespace name the standard for its pods. `enforce` rejects pods, `warn` returns
 * warnings for pods and for workloads with a pod template; `audit` has no effect, because there is no audit log. A
 * namespace without labels allows every pod, as upstream.
 */
export function admitPodSecurity(core: Core, attributes: AdmissionAttributes): void {
  const { type, subresource, operation } = attributes;
  if (operation !== "CREATE" && operation !== "UPDATE") return;
  if (type.storageKey === "/namespaces") {
    if (subresource === "") admitNamespace(core, attributes);
    return;
  }
  if (type.storageKey === "/pods") {
    if (ignoredSubresources.has(subresource)) return;
    const pod = attributes.object as Pod;
    if (operation === "UPDATE" && !changesImages(pod, attributes.oldObject as Pod)) return;
    judge(core, attributes, pod, true);
    return;
  }
  const templateOf = templates[type.storageKey];
  if (templateOf === undefined || subresource !== "" || attributes.object === undefined) return;
  const template = templateOf(attributes.object);
  if (template !== undefined) judge(core, attributes, template as Pod, false);
}

const ignoredSubresources = new Set(["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"]);

const prefix = "pod-security.kubernetes.io/";

interface Standard {
  readonly level: Level;
  /** Infinity for `latest`. */
  readonly minor: number;
}

interface Policy {
  readonly enforce: Standard;
  readonly warn: Standard;
  readonly errors: readonly FieldError[];
}

const unlimited: Standard = { level: "privileged", minor: Number.POSITIVE_INFINITY };
const ranks: readonly string[] = ["privileged", "baseline", "restricted"];

function judge(core: Core, attributes: AdmissionAttributes, judged: Pod, enforces: boolean): void {
  const labels = core.store.get("/namespaces", "", attributes.namespace)?.object().metadata.labels;
  if (!namesStandard(labels)) return;
  const { enforce, warn } = policyOf(labels ?? {});
  const pod = podLike(judged);
  if (enforces) {
    const violations = violationsOf(pod, enforce.level, enforce.minor);
    if (violations.length > 0) {
      const { group, plural } = attributes.type;
      const why = `violates PodSecurity ${JSON.stringify(textOf(enforce))}: ${detailOf(violations)}`;
      throw forbiddenError({ group, resource: plural }, attributes.name, why);
    }
  }
  const doubts = violationsOf(pod, warn.level, warn.minor);
  if (doubts.length > 0) {
    attributes.warn(`would violate PodSecurity ${JSON.stringify(textOf(warn))}: ${detailOf(doubts)}`);
  }
}

function admitNamespace(core: Core, attributes: AdmissionAttributes): void {
  const { object, oldObject, type } = attributes;
  const next = policyOf(object?.metadata.labels ?? {});
  const old = oldObject === undefined ? undefined : policyOf(oldObject.metadata.labels ?? {});
  if (next.errors.length > 0 && textOfErrors(next) !== (old === undefined ? "" : textOfErrors(old))) {
    throw invalidObject({ group: type.group, kind: type.kind }, object?.metadata.name ?? "", next.errors);
  }
  if (old === undefined || next.enforce.level === "privileged") return;
  if (
    next.enforce.minor === old.enforce.minor &&
    ranks.indexOf(next.enforce.level) <= ranks.indexOf(old.enforce.level)
  ) {
    return;
  }
  warnOfPods(core, attributes, object?.metadata.name ?? "", next.enforce);
}

/** The most pods that are checked when the labels of a namespace become stricter. */
const podsMax = 3000;

function warnOfPods(core: Core, attributes: AdmissionAttributes, namespace: string, enforce: Standard): void {
  const pods = oneOfEachOwnerFirst(core, namespace);
  const found = new Map<string, { first: string; count: number }>();
  for (const pod of pods.slice(0, podsMax)) {
    const reasons = violationsOf(podLike(pod), enforce.level, enforce.minor).map(({ reason }) => reason);
    if (reasons.length === 0) continue;
    const text = reasons.join(", ");
    const { name } = pod.metadata;
    const known = found.get(text);
    if (known === undefined) found.set(text, { first: name, count: 1 });
    else found.set(text, { first: name < known.first ? name : known.first, count: known.count + 1 });
  }
  if (pods.length > podsMax) {
    attributes.warn(
      `new PodSecurity enforce level only checked against the first ${podsMax} of ${pods.length} existing pods`,
    );
  }
  if (found.size === 0) return;
  const level = JSON.stringify(textOf(enforce));
  attributes.warn(
    `existing pods in namespace ${JSON.stringify(namespace)} violate the new PodSecurity enforce level ${level}`,
  );
  const lines = [...found].map(([text, { first, count }]) => {
    const others = count === 1 ? "" : count === 2 ? " (and 1 other pod)" : ` (and ${count - 1} other pods)`;
    return `${first}${others}: ${text}`;
  });
  for (const line of lines.sort()) attributes.warn(line);
}

/** Pods of one owner have the same template: the first pod of each owner is checked before the others. */
function oneOfEachOwnerFirst(core: Core, namespace: string): Pod[] {
  const owners = new Set<string>();
  const first: Pod[] = [];
  const others: Pod[] = [];
  for (const version of core.store.collection("/pods").at(core.store.revision, namespace)) {
    const pod = version.object();
    const owner = controllerOf(pod.metadata)?.uid;
    if (owner !== undefined && owners.has(owner)) others.push(pod);
    else first.push(pod);
    if (owner !== undefined) owners.add(owner);
  }
  return [...first, ...others];
}

function namesStandard(labels: Readonly<Record<string, string>> | undefined): boolean {
  for (const key in labels) if (key.startsWith(prefix)) return true;
  return false;
}

function policyOf(labels: Readonly<Record<string, string>>): Policy {
  const errors: FieldError[] = [];
  const standard = (mode: string, failing: Level): Standard => {
    const level = labels[`${prefix}${mode}`];
    const version = labels[`${prefix}${mode}-version`];
    return {
      level: level === undefined ? "privileged" : readLevel(level, `${prefix}${mode}`, failing, errors),
      minor:
        version === undefined ? Number.POSITIVE_INFINITY : readVersion(version, `${prefix}${mode}-version`, errors),
    };
  };
  const enforce = standard("enforce", "restricted");
  standard("audit", "privileged");
  const asked = standard("warn", "privileged");
  const said = labels[`${prefix}enforce`];
  // The enforced standard is also warned of, unless the namespace has a label for warnings: templates are never
  // rejected.
  const follows = labels[`${prefix}warn`] === undefined && said !== undefined && ranks.includes(said);
  if (!follows || enforce.level === "privileged") return { enforce, warn: asked, errors };
  const hasVersion = labels[`${prefix}warn-version`] !== undefined;
  return { enforce, warn: { level: enforce.level, minor: hasVersion ? asked.minor : enforce.minor }, errors };
}

function readLevel(text: string, label: string, failing: Level, errors: FieldError[]): Level {
  if (ranks.includes(text)) return text as Level;
  errors.push(invalid(`metadata.labels[${label}]`, text, "must be one of privileged, baseline, restricted"));
  return failing;
}

function readVersion(text: string, label: string, errors: FieldError[]): number {
  if (text === "latest") return Number.POSITIVE_INFINITY;
  const match = /^v1\.([0-9]|[1-9][0-9]*)$/.exec(text);
  if (match !== null) return Number(match[1]);
  errors.push(invalid(`metadata.labels[${label}]`, text, 'must be "latest" or "v1.x"'));
  return Number.POSITIVE_INFINITY;
}

function textOf({ level, minor }: Standard): string {
  return `${level}:${minor === unlimited.minor ? "latest" : `v1.${minor}`}`;
}

function textOfErrors({ errors }: Policy): string {
  return errors.map(({ field, body }) => `${field} ${body}`).join("\n");
}

function detailOf(violations: readonly Violation[]): string {
  return violations.map(({ reason, detail }) => (detail === "" ? reason : `${reason} (${detail})`)).join(", ");
}

/** Only a changed image or container can violate a standard that the old pod kept. */
function changesImages(next: Pod, old: Pod): boolean {
  const images = (pod: Pod, field: "containers" | "initContainers"): string =>
    (pod.spec?.[field] ?? []).map(({ image = "" }) => image).join("\n");
  if (images(next, "containers") !== images(old, "containers")) return true;
  if (images(next, "initContainers") !== images(old, "initContainers")) return true;
  const known = new Map((old.spec?.ephemeralContainers ?? []).map(({ name, image }) => [name, image]));
  return (next.spec?.ephemeralContainers ?? []).some(
    ({ name, image }) => !known.has(name) || known.get(name) !== image,
  );
}

type TemplateOf = (object: KubeObject) => PodTemplateSpec | undefined;

const ofSpec: TemplateOf = ({ spec }) =>
  isObject(spec) ? (spec["template"] as PodTemplateSpec | undefined) : undefined;

const templates: Readonly<Record<string, TemplateOf>> = {
  "/podtemplates": (object) => object["template"] as PodTemplateSpec | undefined,
  "/replicationcontrollers": ofSpec,
  "apps/daemonsets": ofSpec,
  "apps/deployments": ofSpec,
  "apps/replicasets": ofSpec,
  "apps/statefulsets": ofSpec,
  "batch/jobs": ofSpec,
  "batch/cronjobs": ({ spec }) => {
    const job = isObject(spec) ? spec["jobTemplate"] : undefined;
    return isObject(job) ? ofSpec(job as KubeObject) : undefined;
  },
};
