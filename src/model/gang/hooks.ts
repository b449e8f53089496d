/** Grove's webhooks as functions: defaults and checks of PodCliqueSets, checks of topology bindings, the authorizer. */
import type { AdmissionHook, AdmissionLookup, AdmissionRequest, AdmissionVerdict } from "../objects/admissionHook.ts";
import { describeFieldError } from "../objects/fieldError.ts";
import { equalFields } from "../objects/json.ts";
import { authorizeChild } from "./authorizeChild.ts";
import { defaultSet } from "./defaultSet.ts";
import { Findings } from "./findings.ts";
import { type GangKind, gangResources, labels, managedByValue } from "./keys.ts";
import { cliqueNamed, cliquesOf } from "./setFacts.ts";
import type { GangSettings } from "./settings.ts";
import type { ClusterTopologyBinding, PodCliqueSet } from "./types.ts";
import { validateSet } from "./validateSet.ts";
import { isTopologyRepair, validateSetUpdate } from "./validateSetUpdate.ts";
import { validateBinding, validateSetTopology } from "./validateTopology.ts";

export function gangHooks(settings: GangSettings): AdmissionHook[] {
  const authorizers = settings.authorizer.enabled ? authorizerHooks(settings) : [];
  return [defaultingHook, setHook(settings), bindingHook(settings), ...authorizers];
}

const defaultingHook: AdmissionHook<PodCliqueSet> = {
  name: "podcliqueset-defaulting-webhook.grove.io",
  type: "mutating",
  resource: gangResources.PodCliqueSet,
  operations: ["CREATE", "UPDATE"],
  review: ({ object }) => (object === undefined ? { allowed: true } : { allowed: true, object: defaultSet(object) }),
};

function setHook(settings: GangSettings): AdmissionHook<PodCliqueSet> {
  return {
    name: "podcliqueset-validating-webhook.grove.io",
    type: "validating",
    resource: gangResources.PodCliqueSet,
    operations: ["CREATE", "UPDATE"],
    reads: [gangResources.ClusterTopologyBinding],
    review: (request, lookup) => reviewSet(request, lookup, settings),
  };
}

function bindingHook(settings: GangSettings): AdmissionHook<ClusterTopologyBinding> {
  return {
    name: "clustertopology-validating-webhook.grove.io",
    type: "validating",
    resource: gangResources.ClusterTopologyBinding,
    operations: ["CREATE", "UPDATE"],
    review: ({ object }) => verdictOf(validateBinding(object as ClusterTopologyBinding, settings)),
  };
}

function reviewSet(
  { operation, object, oldObject }: AdmissionRequest<PodCliqueSet>,
  lookup: AdmissionLookup,
  settings: GangSettings,
): AdmissionVerdict<never> {
  const set = object as PodCliqueSet;
  // A terminating set only loses its finalizer.
  if (set.metadata.deletionTimestamp !== undefined) return { allowed: true };
  const isCreate = operation === "CREATE";
  // Before the checks of values, which trust the types.
  const types = checkPodSpecTypes(set, oldObject, lookup);
  if (types.errors.length > 0) return verdictOf(types);
  const always = validateSet(set, settings, isCreate);
  if (always.errors.length > 0) return verdictOf(always);
  const bindingNamed = (name: string): ClusterTopologyBinding | undefined =>
    lookup.get(gangResources.ClusterTopologyBinding, "", name);
  if (isCreate) return verdictOf(always, validateSetTopology(set, settings, bindingNamed));
  const before = oldObject as PodCliqueSet;
  const changed = validateSetUpdate(set, before);
  if (changed.errors.length > 0 || !isTopologyRepair(set, before)) return verdictOf(always, changed);
  return verdictOf(always, changed, validateSetTopology(set, settings, bindingNamed));
}

/** A pod template that an update does not change is accepted, as with ratcheting of schemas. */
function checkPodSpecTypes(
  set: PodCliqueSet,
  before: PodCliqueSet | undefined,
  { podSpecError }: AdmissionLookup,
): Findings {
  const found = new Findings();
  for (const [at, { name, spec }] of cliquesOf(set).entries()) {
    const known = before && cliqueNamed(before, name);
    if (known !== undefined && equalFields(known.spec.podSpec, spec.podSpec)) continue;
    const error = podSpecError?.(spec.podSpec, `spec.template.cliques[${at}].spec.podSpec`);
    if (error !== undefined) found.add(error);
  }
  return found;
}

const protectedKinds: readonly [GangKind, AdmissionRequest["operation"][]][] = [
  ["Secret", ["UPDATE", "DELETE"]],
  ["ServiceAccount", ["UPDATE", "DELETE"]],
  ["Service", ["UPDATE", "DELETE"]],
  ["Pod", ["UPDATE"]],
  ["Role", ["UPDATE", "DELETE"]],
  ["RoleBinding", ["UPDATE", "DELETE"]],
  ["HorizontalPodAutoscaler", ["UPDATE", "DELETE"]],
  ["PodClique", ["CREATE", "UPDATE", "DELETE"]],
  ["PodCliqueScalingGroup", ["CREATE", "UPDATE", "DELETE"]],
  ["PodGang", ["CREATE", "UPDATE", "DELETE"]],
];

function authorizerHooks(settings: GangSettings): AdmissionHook[] {
  return protectedKinds.map(([kind, operations]) => ({
    name: `authorizer-webhook.${gangResources[kind].plural}.grove.io`,
    type: "validating",
    resource: gangResources[kind],
    operations,
    reads: [gangResources.PodCliqueSet],
    prefilter: { labels: { [labels.managedBy]: managedByValue } },
    review: (request, lookup) => authorizeChild(request, lookup, kind, settings),
  }));
}

function verdictOf(...all: readonly Findings[]): AdmissionVerdict<never> {
  const errors = all.flatMap((each) => each.errors);
  const warnings = all.flatMap((each) => each.warnings);
  if (errors.length > 0) return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
  return warnings.length > 0 ? { allowed: true, warnings } : { allowed: true };
}
