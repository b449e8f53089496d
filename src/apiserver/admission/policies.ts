import { boolType, stringType } from "../../cel/types.ts";
import type { CelValue } from "../../cel/values.ts";
import { CelFailure } from "../../cel/values.ts";
import type {
  MatchResources,
  ParamKind,
  ParamRef,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "../../model/kubernetes.generated.ts";
import { type LabelSelector, matchesLabels, selectorRequirements } from "../../model/objects/labelSelector.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { forbiddenError } from "../../model/objects/status.ts";
import type { Core } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";
import { attributesIn, requestForExpressions } from "./admissionRequest.ts";
import {
  type Condition,
  compileConditions,
  compileExpression,
  type Expression,
  meetsConditions,
  runExpression,
} from "./expressions.ts";
import { type Matched, type Matcher, MatchIndex, namesMatch } from "./matchIndex.ts";
import { matchedVersion } from "./matchRules.ts";
import { type Selectors, selectorsOf, selectsRequest } from "./selectRequest.ts";

const policiesKey = "admissionregistration.k8s.io/validatingadmissionpolicies";
const bindingsKey = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
const variableNames = ["object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"];
const reasonCodes: Readonly<Record<string, number>> = {
  Unauthorized: 401,
  Forbidden: 403,
  RequestEntityTooLarge: 413,
  Invalid: 422,
};

interface Check {
  readonly text: string;
  readonly expression: Expression;
  readonly message: string;
  readonly messageExpression: Expression | undefined;
  readonly reason: string;
}

interface Binding {
  readonly name: string;
  readonly matcher: (Matcher & { readonly selectors: Selectors }) | undefined;
  readonly paramRef: ParamRef | undefined;
  readonly actions: readonly string[];
}

/** A compiled ValidatingAdmissionPolicy with its bindings. A policy without a binding is not evaluated. */
interface Policy extends Matcher {
  readonly name: string;
  readonly selectors: Selectors;
  readonly conditions: readonly Condition[];
  readonly variables: readonly { readonly name: string; readonly expression: Expression }[];
  readonly checks: readonly Check[];
  readonly ignoresFailure: boolean;
  readonly paramKind: ParamKind | undefined;
  readonly bindings: readonly Binding[];
}

/** A failed validation of a policy. */
interface Finding {
  readonly message: string;
  readonly reason: string;
}

/** Evaluates ValidatingAdmissionPolicies, in the same turn of the event loop as the write. */
export class Policies {
  private readonly core: Core;
  private readonly index: MatchIndex<Policy>;

  constructor(core: Core) {
    this.core = core;
    this.index = new MatchIndex(core.registry);
    this.reload();
    core.store.onEvent(({ current }) => {
      if (current.resource === policiesKey || current.resource === bindingsKey) this.reload();
    });
  }

  /** Throws a StatusError when a policy denies the request. */
  validate(attributes: AdmissionAttributes): void {
    for (const matched of this.index.find(attributes)) this.judge(matched, attributes);
  }

  private judge({ entry, resource }: Matched<Policy>, attributes: AdmissionAttributes): void {
    if (!namesMatch(entry, attributes) || !selectsRequest(this.core, entry.selectors, attributes)) return;
    const shown = attributesIn(this.core, attributes, resource);
    const shared = {
      object: (shown.object ?? null) as CelValue,
      oldObject: (shown.oldObject ?? null) as CelValue,
      request: requestForExpressions(attributes, resource) as CelValue,
      namespaceObject: this.namespaceOf(attributes) as CelValue,
    };
    for (const binding of entry.bindings) {
      if (!this.bindingWants(binding, attributes)) continue;
      const { params, problem } = this.paramsOf(entry, binding, attributes);
      if (problem !== undefined) {
        act(entry, binding, attributes, { message: problem, reason: "Invalid" });
        continue;
      }
      for (const param of params) {
        const finding = findingOf(entry, { ...shared, params: (param ?? null) as CelValue });
        if (finding !== undefined) act(entry, binding, attributes, finding);
      }
    }
  }

  private bindingWants({ matcher }: Binding, attributes: AdmissionAttributes): boolean {
    if (matcher === undefined) return true;
    if (matcher.rules.length > 0) {
      const version = matchedVersion(matcher.rules, matcher.matchPolicy, attributes, this.core.registry);
      if (version === undefined) return false;
    }
    const excluded =
      matcher.excludes.length > 0 &&
      matchedVersion(matcher.excludes, "Exact", attributes, this.core.registry) !== undefined;
    return !excluded && namesMatch(matcher, attributes) && selectsRequest(this.core, matcher.selectors, attributes);
  }

  private namespaceOf({ namespace, type, object }: AdmissionAttributes): KubeObject | null {
    if (type.storageKey === "/namespaces") return object ?? null;
    return namespace === "" ? null : (this.core.store.get("/namespaces", "", namespace)?.object() ?? null);
  }

  /** The parameter objects of a policy; one `undefined` for a policy without parameters. */
  private paramsOf(
    policy: Policy,
    { paramRef }: Binding,
    attributes: AdmissionAttributes,
  ): { params: readonly (KubeObject | undefined)[]; problem?: string } {
    const { paramKind } = policy;
    if (paramKind === undefined) return { params: [undefined] };
    const resource = this.core.registry.kind(paramKind.apiVersion ?? "", paramKind.kind ?? "");
    if (resource === undefined) {
      const kind = `${paramKind.apiVersion}/${paramKind.kind}`;
      return failed(policy, `failed to find resource referenced by paramKind: ${kind}`);
    }
    if (paramRef === undefined) return { params: [undefined] };
    const namespace = resource.type.namespaced ? paramRef.namespace || attributes.namespace : "";
    const { store } = this.core;
    const key = resource.type.storageKey;
    const found: KubeObject[] = [];
    if (paramRef.name) {
      const version = store.get(key, namespace, paramRef.name);
      if (version !== undefined) found.push(resource.fromStorage(version.object()));
    } else {
      const requirements = selectorRequirements((paramRef.selector ?? {}) as LabelSelector);
      for (const version of store.collection(key).at(store.revision, namespace)) {
        if (!matchesLabels(requirements, version.side.labels ?? undefined)) continue;
        found.push(resource.fromStorage(version.object()));
      }
    }
    if (found.length > 0) return { params: found };
    if (paramRef.parameterNotFoundAction === "Allow") return { params: [] };
    return failed(policy, "no params found for policy binding with `Deny` parameterNotFoundAction");
  }

  private reload(): void {
    const { store } = this.core;
    const bindings = new Map<string, Binding[]>();
    for (const version of store.collection(bindingsKey).all()) {
      const { metadata, spec } = version.object() as ValidatingAdmissionPolicyBinding;
      const listed = bindings.get(spec.policyName) ?? [];
      listed.push({
        name: metadata.name,
        matcher: spec.matchResources === undefined ? undefined : matcherOf(spec.matchResources),
        paramRef: spec.paramRef,
        actions: spec.validationActions ?? [],
      });
      bindings.set(spec.policyName, listed);
    }
    const policies: Policy[] = [];
    for (const version of store.collection(policiesKey).all()) {
      const bound = bindings.get(version.name);
      if (bound === undefined) continue;
      policies.push(policyOf(version.object(), bound));
    }
    this.index.set(policies);
  }
}

function failed(policy: Policy, problem: string): { params: []; problem?: string } {
  return policy.ignoresFailure ? { params: [] } : { params: [], problem };
}

function matcherOf(match: MatchResources): Matcher & { selectors: Selectors } {
  return {
    rules: match.resourceRules ?? [],
    excludes: match.excludeResourceRules ?? [],
    matchPolicy: match.matchPolicy ?? "Equivalent",
    selectors: selectorsOf(match),
  };
}

function policyOf({ metadata, spec }: ValidatingAdmissionPolicy, bindings: readonly Binding[]): Policy {
  const { variables, validations } = spec ?? {};
  return {
    ...matcherOf(spec?.matchConstraints ?? {}),
    name: metadata.name,
    conditions: compileConditions(spec?.matchConditions, variableNames),
    variables: (variables ?? []).map(({ name, expression }) => ({
      name,
      expression: compileExpression(expression, variableNames),
    })),
    checks: (validations ?? []).map(({ expression, message, messageExpression, reason }) => ({
      text: expression,
      expression: compileExpression(expression, variableNames, boolType),
      message: message ?? "",
      messageExpression:
        messageExpression === undefined || messageExpression === ""
          ? undefined
          : compileExpression(messageExpression, variableNames, stringType),
      reason: reason ?? "Invalid",
    })),
    ignoresFailure: spec?.failurePolicy === "Ignore",
    paramKind: spec?.paramKind,
    bindings,
  };
}

/** The first failed validation of the policy, or undefined. */
function findingOf(policy: Policy, shared: Record<string, CelValue>): Finding | undefined {
  const bindings: Record<string, CelValue> = { ...shared };
  bindings["variables"] = lazyVariables(policy, bindings) as CelValue;
  const { matches, problem } = meetsConditions(policy.conditions, bindings);
  if (problem !== undefined && !policy.ignoresFailure) return { message: problem, reason: "Invalid" };
  if (!matches) return undefined;
  for (const check of policy.checks) {
    const outcome = runExpression(check.expression, bindings);
    if ("problem" in outcome) {
      if (policy.ignoresFailure) continue;
      return { message: `expression '${check.text}' resulted in error: ${outcome.problem}`, reason: "Invalid" };
    }
    if (outcome.value !== true) return { message: messageOf(check, bindings), reason: check.reason };
  }
  return undefined;
}

/** A messageExpression that fails, or returns an empty text or a line break, is replaced by the fixed message. */
function messageOf(check: Check, bindings: Record<string, CelValue>): string {
  const { messageExpression } = check;
  if (messageExpression !== undefined) {
    const outcome = runExpression(messageExpression, bindings);
    const text = "value" in outcome && typeof outcome.value === "string" ? outcome.value.trim() : "";
    if (text !== "" && !text.includes("\n") && text.length <= 5 * 1024) return text;
  }
  return check.message === "" ? `failed expression: ${check.text}` : check.message.trim();
}

/** Each variable is evaluated on first use, and may use the variables before it. */
function lazyVariables(policy: Policy, bindings: Record<string, CelValue>): object {
  const values: Record<string, CelValue> = {};
  const variables = {};
  for (const { name, expression } of policy.variables) {
    Object.defineProperty(variables, name, {
      enumerable: true,
      get() {
        if (!Object.hasOwn(values, name)) {
          const outcome = runExpression(expression, bindings);
          if ("problem" in outcome)
            throw new CelFailure(`composited variable "${name}" fails to evaluate: ${outcome.problem}`);
          values[name] = outcome.value;
        }
        return values[name];
      },
    });
  }
  return variables;
}

function act(policy: Policy, binding: Binding, attributes: AdmissionAttributes, finding: Finding): void {
  const who = `ValidatingAdmissionPolicy '${policy.name}' with binding '${binding.name}'`;
  if (binding.actions.includes("Warn")) attributes.warn(`Validation failed for ${who}: ${finding.message}`);
  if (!binding.actions.includes("Deny")) return;
  const { group, plural } = attributes.type;
  const message = `${who} denied request: ${finding.message}`;
  const error = forbiddenError({ group, resource: plural }, attributes.name, message, [{ message }]);
  error.status.reason = finding.reason;
  error.status.code = reasonCodes[finding.reason] ?? 422;
  throw error;
}
