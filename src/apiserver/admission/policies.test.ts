import { describe, expect, test } from "vitest";
import { configMapNamed, namespaceNamed, refusal, TestApi } from "../../../testing/apiserver/testApi.ts";
import { createAdmission } from "./createAdmission.ts";

const maps = "/configmaps";
const policies = "admissionregistration.k8s.io/validatingadmissionpolicies";
const bindings = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
const apiVersion = "admissionregistration.k8s.io/v1";

const matchConstraints = {
  resourceRules: [
    { operations: ["CREATE", "UPDATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] },
  ],
};

async function bound(spec: object, binding: object = {}): Promise<TestApi> {
  const api = await TestApi.start({ admission: createAdmission(), controllers: "none" });
  await api.create(policies, {
    apiVersion,
    kind: "ValidatingAdmissionPolicy",
    metadata: { name: "p" },
    spec: { matchConstraints, ...spec },
  });
  await api.create(bindings, {
    apiVersion,
    kind: "ValidatingAdmissionPolicyBinding",
    metadata: { name: "b" },
    spec: { policyName: "p", validationActions: ["Deny"], ...binding },
  });
  return api;
}

const labelled = (value: string): object => configMapNamed("default/m", { labels: { team: value } });
const isA = { expression: "object.metadata.labels.team == 'a'" };

describe("a policy", () => {
  test("lets pass what its expressions allow", async () => {
    const api = await bound({ validations: [isA] });
    await api.create(maps, labelled("a"));
  });

  const refusals: [string, object, object][] = [
    [
      "with the expression when it has no words",
      isA,
      { code: 422, reason: "Invalid", message: `failed expression: ${isA.expression}` },
    ],
    ["with its words", { ...isA, message: "only team a" }, { message: "only team a" }],
    [
      "with words it computes",
      { ...isA, message: "fixed", messageExpression: "'not ' + object.metadata.labels.team" },
      { message: "not b" },
    ],
    [
      "with its fixed words when the computed ones fail",
      { ...isA, message: "fixed", messageExpression: "string(object.spec.none)" },
      { message: "fixed" },
    ],
    [
      "for the reason it gives",
      { ...isA, message: "no", reason: "Forbidden" },
      { code: 403, reason: "Forbidden", message: "no" },
    ],
  ];
  test.each(refusals)("denies %s", async (_, validation, expected) => {
    const api = await bound({ validations: [validation] });
    const answer = await refusal(api.create(maps, labelled("b")));
    const { message, ...rest } = expected as { message: string };
    expect(answer).toMatchObject(rest);
    expect(answer.message).toBe(
      `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ${message}`,
    );
  });

  test("only warns when its binding has the action Warn", async () => {
    const api = await bound({ validations: [{ ...isA, message: "only a" }] }, { validationActions: ["Warn"] });
    await api.create(maps, labelled("b"));
    expect(api.warnings).toEqual(["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': only a"]);
  });

  test("does nothing that a caller sees when it only audits", async () => {
    const api = await bound({ validations: [isA] }, { validationActions: ["Audit"] });
    await api.create(maps, labelled("b"));
    expect(api.warnings).toEqual([]);
  });

  test("without a binding is never evaluated", async () => {
    const api = await bound({ validations: [{ expression: "false" }] });
    await api.delete(bindings, "b");
    await api.create(maps, labelled("b"));
  });

  test("computes variables when they are used, one from another", async () => {
    const variables = [
      { name: "broken", expression: "object.spec.none" },
      { name: "team", expression: "object.metadata.labels.team" },
      { name: "isA", expression: "variables.team == 'a'" },
    ];
    const api = await bound({ variables, validations: [{ expression: "variables.isA" }] });
    await api.create(maps, labelled("a"));
    expect(await refusal(api.create(maps, labelled("b")))).toMatchObject({ code: 422 });
  });

  test("that cannot be evaluated denies, or is ignored, by its failure policy", async () => {
    const validations = [{ expression: "object.spec.none == 1" }];
    const strict = await bound({ validations });
    expect((await refusal(strict.create(maps, labelled("a")))).message).toContain("resulted in error");
    const lax = await bound({ validations, failurePolicy: "Ignore" });
    await lax.create(maps, labelled("a"));
  });

  test("is evaluated only when its conditions are true", async () => {
    const matchConditions = [{ name: "not-b", expression: "object.metadata.labels.team != 'b'" }];
    const api = await bound({ matchConditions, validations: [{ expression: "false" }] });
    await api.create(maps, labelled("b"));
    expect(await refusal(api.create(maps, configMapNamed("default/n", { labels: { team: "c" } })))).toBeDefined();
  });

  test("compares the old state with the new one", async () => {
    const validations = [{ expression: "oldObject == null || object.metadata.labels == oldObject.metadata.labels" }];
    const api = await bound({ validations });
    await api.create(maps, labelled("a"));
    const change = api.edit(maps, "default/m", ({ metadata }) => {
      metadata.labels = { team: "b" };
    });
    expect(await refusal(change)).toMatchObject({ code: 422 });
  });

  test("can look at the namespace", async () => {
    const api = await bound({ validations: [{ expression: "namespaceObject.metadata.labels.stage == 'test'" }] });
    await api.create("/namespaces", namespaceNamed("lab", { labels: { stage: "test" } }));
    await api.create(maps, configMapNamed("lab/m"));
    expect(await refusal(api.create(maps, configMapNamed("default/m")))).toMatchObject({ code: 422 });
  });

  test("is narrowed by its binding", async () => {
    const matchResources = { namespaceSelector: { matchLabels: { stage: "test" } } };
    const api = await bound({ validations: [{ expression: "false" }] }, { matchResources });
    await api.create(maps, configMapNamed("default/m"));
    await api.create("/namespaces", namespaceNamed("lab", { labels: { stage: "test" } }));
    expect(await refusal(api.create(maps, configMapNamed("lab/m")))).toMatchObject({ code: 422 });
  });

  test("leaves out what its rules exclude, and single objects by name", async () => {
    const excludeResourceRules = [{ ...(matchConstraints.resourceRules[0] as object), resourceNames: ["spared"] }];
    const api = await bound({
      matchConstraints: { ...matchConstraints, excludeResourceRules },
      validations: [{ expression: "false" }],
    });
    await api.create(maps, configMapNamed("default/spared"));
    expect(await refusal(api.create(maps, configMapNamed("default/m")))).toMatchObject({ code: 422 });
  });

  test("counts again as soon as it changes", async () => {
    const api = await bound({ validations: [{ expression: "false" }] });
    expect(await refusal(api.create(maps, labelled("a")))).toMatchObject({ code: 422 });
    await api.edit(policies, "p", (policy) => {
      (policy["spec"] as { validations: unknown }).validations = [{ expression: "true" }];
    });
    await api.create(maps, labelled("a"));
  });
});

describe("parameters of a policy", () => {
  const paramKind = { apiVersion: "v1", kind: "ConfigMap" };
  const validations = [{ expression: "object.metadata.labels.team == params.data.team" }];
  const narrow = {
    resourceRules: [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["secrets"] }],
  };
  const secret = (team: string): object => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "s", namespace: "default", labels: { team } },
  });
  const settings = { ...configMapNamed("default/settings"), data: { team: "a" } };

  test("come from the object that the binding names", async () => {
    const paramRef = { name: "settings", namespace: "default", parameterNotFoundAction: "Deny" };
    const api = await bound({ matchConstraints: narrow, paramKind, validations }, { paramRef });
    await api.create(maps, settings);
    expect(await refusal(api.create("/secrets", secret("b")))).toMatchObject({ code: 422 });
    await api.create("/secrets", secret("a"));
  });

  test.each([
    ["Deny", true],
    ["Allow", false],
  ])("that do not exist: %s", async (parameterNotFoundAction, isRefused) => {
    const paramRef = { name: "settings", namespace: "default", parameterNotFoundAction };
    const api = await bound({ matchConstraints: narrow, paramKind, validations }, { paramRef });
    const write = api.create("/secrets", secret("b"));
    if (isRefused) expect((await refusal(write)).message).toContain("no params found");
    else await write;
  });
});
