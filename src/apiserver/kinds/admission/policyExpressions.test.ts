import { describe, expect, test } from "vitest";
import { create, type Draft, world } from "../../../../test/fixtures/kindWrites.ts";

const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] };
const group = "admissionregistration.k8s.io";

function policy(spec: object): Draft {
  const validations = [{ expression: "true" }];
  return { metadata: { name: "p" }, spec: { matchConstraints: { resourceRules: [rule] }, validations, ...spec } };
}

function errorsOf(resource: string, object: Draft): string {
  return create(`${group}/${resource}`, object, world()).errors.join("\n");
}

const validating = (spec: object) => errorsOf("validatingadmissionpolicies", policy(spec));

describe("expressions of ValidatingAdmissionPolicies are compiled when they are written", () => {
  test.each([
    ["foo()", "undeclared reference to 'foo'"],
    ["'x'", "must evaluate to bool but got string"],
    ["object.x", "must evaluate to bool but got dyn"],
    ["params.x == 1", "undeclared reference to 'params'"],
    ["variables.x == 1", "undeclared reference to 'variables'"],
    ["request.nope == 1", "undefined field 'nope'"],
    ["namespaceObject.metadata.uid == ''", "undefined field 'uid'"],
    ["authorizer.nope()", "undeclared reference to 'nope'"],
    ["object.metadata.name.matches('(')", "invalid matches argument"],
    ["duration('1d') > duration('1s')", "invalid duration argument"],
    ["timestamp('x') > timestamp('2020-01-01T00:00:00Z')", "invalid timestamp argument"],
    ["[1, 'a'].size() == 2", "expected type 'int' but found 'string'"],
    ["math.abs(-1) == 1", "undeclared reference to 'math'"],
    ["'a'.reverse() == 'a'", "found no matching overload for 'reverse'"],
    ["cel.bind(x, 1, x == 1)", "undeclared reference to 'cel'"],
    ["1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"],
  ])("%s is refused", (expression, message) => {
    expect(validating({ validations: [{ expression }] })).toContain(message);
  });

  test.each([
    "object.metadata.name == 'x'",
    "oldObject == null",
    "request.userInfo.extra['a'][0] == 'x'",
    "namespaceObject.metadata.labels['a'] == 'x'",
    "authorizer.group('').resource('pods').namespace('x').check('get').allowed()",
    "authorizer.requestResource.check('get').allowed()",
    "'%s %d'.format(['a', 1]) == 'a 1'",
  ])("%s is taken", (expression) => {
    expect(validating({ validations: [{ expression }] })).toBe("");
  });

  test("a variable may use those before it, and validations may use all", () => {
    const a = { name: "a", expression: "1" };
    const b = { name: "b", expression: "variables.a + 1" };
    const validations = [{ expression: "variables.b == 2" }];
    expect(validating({ variables: [a, b], validations })).toBe("");
    expect(validating({ variables: [b, a] })).toContain("undefined field 'a'");
    expect(validating({ variables: [a], validations: [{ expression: "variables.a == 'x'" }] })).toContain("overload");
  });

  test("messages are strings, audit annotations strings or null, parameters need a kind", () => {
    const validations = [{ expression: "true", messageExpression: "1 == 1" }];
    expect(validating({ validations })).toContain("must evaluate to string but got bool");
    const auditAnnotations = [{ key: "k", valueExpression: "true" }];
    expect(validating({ auditAnnotations })).toContain("must evaluate to one of [string null_type] but got bool");
    expect(validating({ auditAnnotations: [{ key: "k", valueExpression: "null" }] })).toBe("");
    const paramKind = { apiVersion: "v1", kind: "ConfigMap" };
    expect(validating({ paramKind, validations: [{ expression: "params.data.x == '1'" }] })).toBe("");
  });

  test("match conditions have no variables", () => {
    const variables = [{ name: "a", expression: "true" }];
    const matchConditions = [{ name: "m", expression: "variables.a" }];
    expect(validating({ variables, matchConditions })).toContain("undeclared reference to 'variables'");
  });
});

test("match conditions of webhooks are compiled too", () => {
  const webhook = {
    name: "a.b.c",
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    clientConfig: { url: "https://a.b/c" },
    rules: [rule],
  };
  const configuration = (expression: string): Draft => ({
    metadata: { name: "w" },
    webhooks: [{ ...webhook, matchConditions: [{ name: "m", expression }] }],
  });
  const errors = (expression: string) => errorsOf("validatingwebhookconfigurations", configuration(expression));
  expect(errors("x")).toContain("undeclared reference to 'x'");
  expect(errors("params.x == 1")).toContain("undeclared reference to 'params'");
  expect(errors("object.metadata.name != 'x'")).toBe("");
});

describe("mutations", () => {
  const mutating = (patchType: string, expression: string, operations = ["CREATE"]) => {
    const patch = patchType === "JSONPatch" ? { jsonPatch: { expression } } : { applyConfiguration: { expression } };
    const matchConstraints = { resourceRules: [{ ...rule, operations }] };
    const spec = { matchConstraints, reinvocationPolicy: "Never", mutations: [{ patchType, ...patch }] };
    return errorsOf("mutatingadmissionpolicies", { metadata: { name: "p" }, spec });
  };

  test.each([
    ["JSONPatch", "JSONPatch{op: 'add'}", "must evaluate to list(JSONPatch) but got JSONPatch"],
    ["JSONPatch", "[JSONPatch{nope: 'add'}]", "expected type of field 'nope' is '' but provided type is 'string'"],
    ["JSONPatch", "[JSONPatch{op: 1}]", "expected type of field 'op' is 'string' but provided type is 'int'"],
    ["JSONPatch", "Foo{}", "undeclared reference to 'Foo'"],
    ["ApplyConfiguration", "Object.spec{a: 1}", "must evaluate to Object but got Object.spec"],
    ["ApplyConfiguration", "[1]", "must evaluate to Object but got list(int)"],
  ])("%s %s is refused", (patchType, expression, message) => {
    expect(mutating(patchType, expression)).toContain(message);
  });

  test("lists of patches and objects are accepted, but not for a deletion", () => {
    const patches = "has(object.x) ? [JSONPatch{op: 'add', path: '/a', value: Object.spec{a: 1}}] : []";
    const object = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    expect(mutating("JSONPatch", patches)).toBe("");
    expect(mutating("ApplyConfiguration", object)).toBe("");
    expect(mutating("ApplyConfiguration", object, ["DELETE"])).toContain('Unsupported value: "DELETE"');
  });
});
