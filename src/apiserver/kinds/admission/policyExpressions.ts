/**
 * CEL expressions of admission policies and of webhooks' match conditions. They are compiled when the policy is
 * written: an undeclared name, a wrong type or a bad literal is rejected then, and not with the first request.
 */
import { compile } from "../../../cel/cel.ts";
import {
  authorizerType,
  boolType,
  type CelType,
  dynType,
  intType,
  listType,
  mapType,
  nullType,
  objectType,
  stringType,
  timestampType,
  typeText,
} from "../../../cel/types.ts";
import type { Variable } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required, tooLong } from "../../../model/objects/fieldError.ts";
import { utf8Bytes } from "../checks/contentSize.ts";

const expressionBytesMax = 10 * 1024;

const kindType = objectType("kubernetes.GroupVersionKind", {
  group: stringType,
  version: stringType,
  kind: stringType,
});
const resourceType = objectType("kubernetes.GroupVersionResource", {
  group: stringType,
  version: stringType,
  resource: stringType,
});
const userType = objectType("kubernetes.UserInfo", {
  username: stringType,
  uid: stringType,
  groups: listType(stringType),
  extra: mapType(stringType, listType(stringType)),
});
const requestType = objectType("kubernetes.AdmissionRequest", {
  kind: kindType,
  resource: resourceType,
  subResource: stringType,
  requestKind: kindType,
  requestResource: resourceType,
  requestSubResource: stringType,
  name: stringType,
  namespace: stringType,
  operation: stringType,
  userInfo: userType,
  dryRun: boolType,
  options: dynType,
});
const conditionType = objectType("kubernetes.NamespaceCondition", {
  status: stringType,
  type: stringType,
  lastTransitionTime: timestampType,
  message: stringType,
  reason: stringType,
});
const namespaceType = objectType("kubernetes.Namespace", {
  metadata: objectType("kubernetes.NamespaceMetadata", {
    name: stringType,
    generateName: stringType,
    namespace: stringType,
    labels: mapType(stringType, stringType),
    annotations: mapType(stringType, stringType),
    UID: stringType,
    creationTimestamp: timestampType,
    deletionGracePeriodSeconds: intType,
    deletionTimestamp: timestampType,
    generation: intType,
    resourceVersion: stringType,
    finalizers: listType(stringType),
  }),
  spec: objectType("kubernetes.NamespaceSpec", { finalizers: listType(stringType) }),
  status: objectType("kubernetes.NamespaceStatus", { phase: stringType, conditions: listType(conditionType) }),
});

const jsonPatchType = objectType("JSONPatch", {
  op: stringType,
  path: stringType,
  from: stringType,
  value: dynType,
});
const appliedTypes = new Map<string, CelType>();

/** `Object` and its nested types, whose fields are known only when the policy runs. */
function messageType(name: string): CelType | undefined {
  if (name === "JSONPatch") return jsonPatchType;
  if (!/^Object(\.\w+)*$/.test(name)) return undefined;
  const known = appliedTypes.get(name) ?? { kind: "opaque", name };
  appliedTypes.set(name, known);
  return known;
}

export const results = {
  bool: [boolType],
  string: [stringType],
  annotation: [stringType, nullType],
  patch: [listType(jsonPatchType)],
  applied: [messageType("Object") as CelType],
  any: [],
} satisfies Record<string, readonly CelType[]>;

/** The variables of the expressions of one policy or webhook. */
export class ExpressionScope {
  private readonly names: Map<string, CelType>;
  private readonly isMutating: boolean;

  private constructor(names: Map<string, CelType>, isMutating: boolean) {
    this.names = names;
    this.isMutating = isMutating;
  }

  static ofWebhook(): ExpressionScope {
    const names: [string, CelType][] = [
      ["object", dynType],
      ["oldObject", dynType],
      ["request", requestType],
      ["authorizer", authorizerType],
      ["namespaceObject", namespaceType],
    ];
    return new ExpressionScope(new Map(names), false);
  }

  static ofPolicy(hasParams: boolean, isMutating = false): ExpressionScope {
    const { names } = ExpressionScope.ofWebhook();
    if (hasParams) names.set("params", dynType);
    return new ExpressionScope(names, isMutating);
  }

  without(name: string): ExpressionScope {
    const names = new Map(this.names);
    names.delete(name);
    return new ExpressionScope(names, this.isMutating);
  }

  /** Adds the variables of a policy, each of which may use those before it. Reports those that do not compile. */
  withVariables(variables: readonly Variable[] | undefined, path: string, errors: FieldError[]): ExpressionScope {
    let scope: ExpressionScope = this;
    const types: Record<string, CelType> = {};
    for (const [i, { name, expression }] of (variables ?? []).entries()) {
      scope = this.with("variables", objectType("kubernetes.variables", types));
      const type = scope.check(expression, `${path}[${i}].expression`, errors, results.any);
      if (name) types[name] = type ?? dynType;
    }
    return Object.keys(types).length === 0 ? this : this.with("variables", objectType("kubernetes.variables", types));
  }

  /** The type of an expression; undefined when an error was reported. */
  check(
    text: string | undefined,
    path: string,
    errors: FieldError[],
    wanted: readonly CelType[],
    detail = "",
  ): CelType | undefined {
    const expression = text?.trim() ?? "";
    if (expression === "") {
      errors.push(required(path, detail));
      return undefined;
    }
    if (utf8Bytes(expression) > expressionBytesMax) {
      errors.push(tooLong(path, expressionBytesMax));
      return undefined;
    }
    const compiled = compile(expression, {
      variables: this.names,
      ...(this.isMutating && { messageType }),
    });
    if (!compiled.ok) {
      errors.push(invalid(path, expression, `compilation failed: ${compiled.errors.join("\n")}`));
      return undefined;
    }
    const { type } = compiled.program;
    const texts = wanted.map(typeText);
    if (wanted.length === 0 || texts.includes(typeText(type))) return type;
    const expected = texts.length === 1 ? texts[0] : `one of [${texts.join(" ")}]`;
    errors.push(invalid(path, expression, `must evaluate to ${expected} but got ${typeText(type)}`));
    return undefined;
  }

  private with(name: string, type: CelType): ExpressionScope {
    return new ExpressionScope(new Map([...this.names, [name, type]]), this.isMutating);
  }
}
