/** CEL of admission policies and of webhooks' match conditions: what compiles, and what a request gets. */
import type { Loose } from "../apiUnderTest.ts";
import { namespace, type Probe } from "../probe.ts";

const group = "/apis/admissionregistration.k8s.io/v1";
const rule = (resources: string[]) => ({
  apiGroups: [""],
  apiVersions: ["v1"],
  operations: ["CREATE", "UPDATE", "DELETE"],
  resources,
});

const expressions = [
  "true",
  "'x'",
  "1",
  "foo()",
  "object.metadata.name == 'x'",
  "object.spec.zz > 1",
  "oldObject == null",
  "request.userInfo.username == 'a'",
  "request.nope == 1",
  "params.x == 1",
  "namespaceObject.metadata.name == 'a'",
  "namespaceObject.nope == 1",
  "variables.x == 1",
  "variables.v == 1",
  "authorizer.group('').resource('pods').check('get').allowed()",
  "authorizer.nope()",
  "self.x == 1",
  "object.metadata.labels.all(k, k != 'a')",
  "size(object.metadata.name) > 3",
  "object.metadata.name.matches('(')",
  "duration('x') > duration('1s')",
  "timestamp('x') > timestamp('2020-01-01T00:00:00Z')",
  "quantity('1') < quantity('2')",
  "quantity('1').isGreaterThan(quantity('2'))",
  "ip('1.2.3.4').family() == 4",
  "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
  "url('http://a').getHost() == 'a'",
  "math.abs(-1) == 1",
  "'a'.reverse() == 'a'",
  "'a'.lowerAscii() == 'a'",
  "['a'].join(',') == 'a'",
  "[1,2].sum() == 3",
  "[1,2].isSorted()",
  "lists.range(3).size() == 3",
  "sets.contains([1], [1])",
  "semver('1.2.3').major() == 1",
  "isSemver('1.2.3')",
  "!format.dns1123Label().validate('a').hasValue()",
  "object.?metadata.?name.orValue('') == ''",
  "optional.of(1).hasValue()",
  "{'a': 1}.a == 1",
  "[1].map(x, x * 2) == [2]",
  "[1].all(i, v, i == 0)",
  "[1].transformList(i, v, v) == [1]",
  "string(1) == '1'",
  "int('1') == 1",
  "1 == 1.0",
  "1 + 'a' == 'b'",
  "dyn(1) == 'x'",
  "type(1) == int",
  "has(object.metadata)",
  "has(object)",
  "object.metadata.",
  "",
  "  ",
  "true ||",
  "1 / 0 == 1",
  "b'a'.size() == 1",
  "base64.encode(b'a') == ''",
  "cel.bind(x, 1, x == 1)",
  "'a'.charAt(0) == 'a'",
  "'%s'.format(['a']) == 'a'",
  "strings.quote('a') == ''",
];

export async function policies(probe: Probe): Promise<void> {
  await probe.namespace();
  const path = `${group}/validatingadmissionpolicies`;
  const policy = (spec: object): Loose => ({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicy",
    metadata: { name: "pp" },
    spec: {
      matchConstraints: { resourceRules: [rule(["configmaps"])] },
      validations: [{ expression: "true" }],
      ...spec,
    },
  });
  const create = (what: string, spec: object) => probe.compare(what, "POST", `${path}?dryRun=All`, policy(spec));
  for (const expression of expressions) {
    await create(`validation ${expression}`, { validations: [{ expression }] });
    await create(`matchCondition ${expression}`, { matchConditions: [{ name: "m", expression }] });
    await create(`variable ${expression}`, { variables: [{ name: "v", expression }] });
    await probe.compare(
      `webhook condition ${expression}`,
      "POST",
      `${group}/validatingwebhookconfigurations?dryRun=All`,
      webhook(expression),
    );
    await probe.compare(
      `mutation ${expression}`,
      "POST",
      `${group}/mutatingadmissionpolicies?dryRun=All`,
      mutation(expression),
    );
  }
  await create("params with a kind", {
    paramKind: { apiVersion: "v1", kind: "ConfigMap" },
    validations: [{ expression: "params.data.x == '1'" }],
  });
  await create("messageExpression of a wrong type", {
    validations: [{ expression: "true", messageExpression: "1 == 1" }],
  });
  await create("messageExpression", {
    validations: [{ expression: "true", messageExpression: "'a' + object.metadata.name" }],
  });
  await create("audit annotation of a wrong type", { auditAnnotations: [{ key: "k", valueExpression: "true" }] });
  await create("audit annotation null", { auditAnnotations: [{ key: "k", valueExpression: "null" }] });
  await create("variable that uses a later one", {
    variables: [
      { name: "a", expression: "variables.b" },
      { name: "b", expression: "1" },
    ],
  });
  await create("variables of the same name", {
    variables: [
      { name: "a", expression: "1" },
      { name: "a", expression: "2" },
    ],
  });
  for (const reason of ["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge", "Nope", ""])
    await create(`reason ${reason}`, { validations: [{ expression: "true", reason }] });
  for (const text of [
    "JSONPatch{op: 'add', path: '/a', value: 'b'}",
    "[JSONPatch{op: 'add', path: '/a', value: 'b'}]",
    "[JSONPatch{nope: 'add'}]",
    "Object{metadata: Object.metadata{labels: {'a': 'b'}}}",
    "Object{nope: 1}",
    "[1]",
  ]) {
    await probe.compare(
      `json patch ${text}`,
      "POST",
      `${group}/mutatingadmissionpolicies?dryRun=All`,
      mutation(text, "JSONPatch"),
    );
    await probe.compare(
      `apply configuration ${text}`,
      "POST",
      `${group}/mutatingadmissionpolicies?dryRun=All`,
      mutation(text, "ApplyConfiguration"),
    );
  }
  await enforced(probe, policy);
}

function webhook(expression: string): unknown {
  const hook = {
    name: "a.b.c",
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    clientConfig: { url: "https://a.b/c" },
    rules: [rule(["configmaps"])],
    matchConditions: [{ name: "m", expression }],
  };
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: "pw" },
    webhooks: [hook],
  };
}

function mutation(expression: string, patchType = "JSONPatch"): unknown {
  const patch = patchType === "JSONPatch" ? { jsonPatch: { expression } } : { applyConfiguration: { expression } };
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingAdmissionPolicy",
    metadata: { name: "pm" },
    spec: {
      reinvocationPolicy: "Never",
      matchConstraints: { resourceRules: [{ ...rule(["configmaps"]), operations: ["CREATE"] }] },
      mutations: [{ patchType, ...patch }],
    },
  };
}

const enforcedPolicies: Record<string, Loose> = {
  plain: { validations: [{ expression: "object.metadata.name != 'no'" }] },
  message: { validations: [{ expression: "object.metadata.name != 'no'", message: "not no" }] },
  computed: {
    validations: [
      {
        expression: "object.metadata.name != 'no'",
        messageExpression: "'name ' + object.metadata.name",
        reason: "Forbidden",
      },
    ],
  },
  error: { validations: [{ expression: "object.data.zz == '1'" }] },
  ignored: { failurePolicy: "Ignore", validations: [{ expression: "object.data.zz == '1'" }] },
  variable: {
    variables: [{ name: "n", expression: "object.metadata.name" }],
    validations: [{ expression: "variables.n != 'no'", reason: "RequestEntityTooLarge" }],
  },
  condition: {
    matchConditions: [{ name: "only", expression: "object.metadata.name == 'no'" }],
    validations: [{ expression: "false" }],
  },
};

/** Policies in force, each for its own label so that they do not disturb each other. */
async function enforced(probe: Probe, policy: (spec: object) => Loose): Promise<void> {
  const names = Object.keys(enforcedPolicies).map((name) => `probe-${name}`);
  const bindings = `${group}/validatingadmissionpolicybindings`;
  for (const [name, spec] of Object.entries(enforcedPolicies)) {
    const only = {
      matchConstraints: { resourceRules: [rule(["configmaps"])], objectSelector: { matchLabels: { policy: name } } },
    };
    await probe.both("POST", `${group}/validatingadmissionpolicies`, {
      ...policy({ ...spec, ...only }),
      metadata: { name: `probe-${name}` },
    });
    await probe.both("POST", bindings, {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name: `probe-${name}` },
      spec: { policyName: `probe-${name}`, validationActions: ["Deny"] },
    });
  }
  const collection = `/api/v1/namespaces/${namespace}/configmaps`;
  const configMap = (name: string, label: string) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, labels: { policy: label } },
  });
  for (let attempt = 0; attempt < 50; attempt++) {
    const { real, ours } = await probe.both("POST", `${collection}?dryRun=All`, configMap("no", "condition"));
    if (real.status === 422 && ours.status === 422) break;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  for (const label of Object.keys(enforcedPolicies)) {
    for (const name of ["yes", "no"])
      await probe.compare(`in force ${label} ${name}`, "POST", `${collection}?dryRun=All`, configMap(name, label));
    await probe.compare(`status ${label}`, "GET", `${group}/validatingadmissionpolicies/probe-${label}`, undefined, {
      keep: (body) => body.status,
    });
  }
  for (const name of names) {
    await probe.both("DELETE", `${bindings}/${name}`);
    await probe.both("DELETE", `${group}/validatingadmissionpolicies/${name}`);
  }
}
