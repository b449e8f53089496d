import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { ClusterRole, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject, ObjectMeta } from "../../model/objects/object.ts";
import { definitionName } from "../builtinResources.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { decodeObject } from "../schema/decode.ts";
import type { UserInfo } from "../strategy.ts";
import { authenticateToken } from "./authenticate.ts";
import { RbacAuthorizer } from "./rbac.ts";
import { type ReviewKind, reviews } from "./reviews.ts";
import { TokenIssuer } from "./serviceAccountToken.ts";
import { StaticTokens } from "./staticTokens.ts";
import { answerTokenRequest } from "./tokenRequest.ts";

const group = "rbac.authorization.k8s.io";
const nowMs = Date.parse("2026-06-01T12:00:00.500Z");
const tokens = new TokenIssuer(generateKeyPairSync("ec", { namedCurve: "P-256" }));
const world: Record<string, KubeObject> = {
  "/serviceaccounts ns robot": { metadata: { uid: "u1" } } as KubeObject,
  "/pods ns p": partly<Pod>({ metadata: { uid: "u2" }, spec: { serviceAccountName: "robot", nodeName: "n" } }),
  "/pods ns q": partly<Pod>({ metadata: { uid: "u5" }, spec: { serviceAccountName: "other" } }),
  "/secrets ns s": { metadata: { uid: "u3" } } as KubeObject,
  "/nodes  n": { metadata: { uid: "u4" } } as KubeObject,
};
const lookup = (resource: string, namespace: string, name: string) => world[`${resource} ${namespace} ${name}`];
const sources = { tokens, lookup, staticTokens: StaticTokens.parse("s3cret,max,7,team") };

const rbac = new RbacAuthorizer();
const reader = partly<ClusterRole>({
  rules: [
    { verbs: ["get", "list"], apiGroups: [""], resources: ["pods"], resourceNames: ["a"] },
    { verbs: ["get"], nonResourceURLs: ["/metrics"] },
  ],
});
rbac.apply(`${group}/clusterroles`, "", "reader", reader);
const bindReader = (subjects: unknown[]) =>
  partly<KubeObject>({ roleRef: { kind: "ClusterRole", name: "reader" }, subjects });
rbac.apply(
  `${group}/clusterrolebindings`,
  "",
  "readers",
  bindReader([
    { kind: "User", name: "jo" },
    { kind: "Group", name: "team" },
  ]),
);

const jo: UserInfo = { username: "jo", groups: ["system:authenticated"], extra: { scope: ["a"] } };
function ask(
  kind: ReviewKind,
  spec: unknown,
  more: { user?: UserInfo; namespace?: string; metadata?: unknown } = {},
): KubeObject {
  const question: KubeObject = { apiVersion: "x/v1", kind, metadata: (more.metadata ?? {}) as ObjectMeta, spec };
  return reviews[kind](question, {
    user: more.user ?? jo,
    namespace: more.namespace ?? "",
    nowMs,
    rbac,
    authorizer: rbac,
    sources,
  });
}
const status = (answer: KubeObject) => answer["status"] as Record<string, unknown>;
const getPod = (name: string) => ({ resourceAttributes: { verb: "get", resource: "pods", namespace: "ns", name } });

describe("a SelfSubjectReview", () => {
  test("is answered with name, groups and extra", () => {
    expect(status(ask("SelfSubjectReview", undefined))).toEqual({
      userInfo: { username: "jo", groups: ["system:authenticated"], extra: { scope: ["a"] } },
    });
  });
});

describe("may I", () => {
  const reason = 'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "jo"';
  test.each<[string, unknown, Record<string, unknown>]>([
    ["yes, with the reason", getPod("a"), { allowed: true, reason }],
    ["no", getPod("b"), { allowed: false }],
    ["a path", { nonResourceAttributes: { verb: "get", path: "/metrics" } }, { allowed: true, reason }],
    ["everything", { resourceAttributes: { verb: "*", group: "*", resource: "*" } }, { allowed: false }],
  ])("%s", (_, spec, expected) => {
    expect(status(ask("SelfSubjectAccessReview", spec))).toEqual(expected);
  });

  test("everything, asked by the administrator: yes", () => {
    const root = { username: "root", groups: ["system:masters"] };
    const spec = { resourceAttributes: { verb: "*", group: "*", resource: "*" } };
    expect(status(ask("SelfSubjectAccessReview", spec, { user: root }))).toEqual({ allowed: true });
  });

  test("keeps the question in the answer", () => {
    expect(ask("SelfSubjectAccessReview", getPod("a"))).toMatchObject({
      kind: "SelfSubjectAccessReview",
      spec: getPod("a"),
    });
  });

  test("lists what one holds", () => {
    expect(status(ask("SelfSubjectRulesReview", { namespace: "ns" }))).toEqual({
      resourceRules: [{ verbs: ["get", "list"], apiGroups: [""], resources: ["pods"], resourceNames: ["a"] }],
      nonResourceRules: [{ verbs: ["get"], nonResourceURLs: ["/metrics"] }],
      incomplete: false,
    });
  });

  test("lists everything for the administrator", () => {
    const root = { username: "root", groups: ["system:masters"] };
    expect(status(ask("SelfSubjectRulesReview", { namespace: "ns" }, { user: root }))).toMatchObject({
      resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }],
      nonResourceRules: [{ verbs: ["*"], nonResourceURLs: ["*"] }],
    });
  });
});

describe("an access review for another subject answers for", () => {
  test.each<[string, unknown, boolean]>([
    ["a user", { user: "jo", ...getPod("a") }, true],
    ["a user with other powers than the asker", { user: "max", ...getPod("a") }, false],
    ["a member of a group", { groups: ["team"], ...getPod("a") }, true],
  ])("%s", (_, spec, allowed) => {
    expect(status(ask("SubjectAccessReview", spec))["allowed"]).toBe(allowed);
    expect(
      status(ask("LocalSubjectAccessReview", spec, { namespace: "ns", metadata: { namespace: "ns" } }))["allowed"],
    ).toBe(allowed);
  });
});

test.each<[ReviewKind, string, unknown]>([
  ["TokenReview", "authentication.k8s.io", { token: "s3cret" }],
  ["SelfSubjectReview", "authentication.k8s.io", undefined],
  ["SubjectAccessReview", "authorization.k8s.io", { user: "jo", ...getPod("a") }],
  ["SelfSubjectAccessReview", "authorization.k8s.io", getPod("a")],
  ["LocalSubjectAccessReview", "authorization.k8s.io", { user: "jo", ...getPod("a") }],
  ["SelfSubjectRulesReview", "authorization.k8s.io", { namespace: "ns" }],
])("a %s as a typed client sends it is answered in a form that the client can read", (kind, own, spec) => {
  const schema = schemaFor(definitionName(own, "v1", kind));
  const reading = { kindName: kind, apiVersion: `${own}/v1`, fieldValidation: "Strict" } as const;
  const sent = {
    apiVersion: `${own}/v1`,
    kind,
    metadata: { creationTimestamp: null },
    ...(spec === undefined ? {} : { spec }),
  };
  const question = decodeObject(schema, sent, reading).object;
  const answer = reviews[kind](question, { user: jo, namespace: "ns", nowMs, rbac, authorizer: rbac, sources });
  expect(decodeObject(schema, answer, reading).object).toMatchObject(answer);
});

test.each<[string, ReviewKind, unknown, { namespace?: string; metadata?: unknown }, number, RegExp]>([
  [
    "about nothing",
    "SelfSubjectAccessReview",
    {},
    {},
    422,
    /exactly one of nonResourceAttributes or resourceAttributes must be specified/,
  ],
  [
    "about two things",
    "SelfSubjectAccessReview",
    { ...getPod("a"), nonResourceAttributes: { path: "/", verb: "get" } },
    {},
    422,
    /cannot be specified in combination with resourceAttributes/,
  ],
  ["about nobody", "SubjectAccessReview", getPod("a"), {}, 422, /at least one of user or group must be specified/],
  [
    "with a name of its own",
    "SubjectAccessReview",
    { user: "jo", ...getPod("a") },
    { metadata: { name: "x" } },
    422,
    /metadata: Invalid value: \{"name":"x"\}: must be empty/,
  ],
  [
    "about another namespace than its own",
    "LocalSubjectAccessReview",
    { user: "jo", ...getPod("a") },
    { namespace: "x" },
    422,
    /must match metadata.namespace/,
  ],
  [
    "about a path in a namespace",
    "LocalSubjectAccessReview",
    { user: "jo", nonResourceAttributes: { path: "/", verb: "get" } },
    { namespace: "x" },
    422,
    /disallowed on this kind of request/,
  ],
  [
    "in one namespace by its path and another by its body",
    "LocalSubjectAccessReview",
    { user: "jo", ...getPod("a") },
    { namespace: "ns", metadata: { namespace: "x" } },
    400,
    /does not match the namespace sent/,
  ],
  ["for rules without a namespace", "SelfSubjectRulesReview", {}, {}, 400, /no namespace on request/],
  ["about no token", "TokenReview", {}, {}, 400, /token is required/],
  ["with a spec that is no object", "TokenReview", "x", {}, 400, /token is required/],
])("a question %s is refused", (_, kind, spec, more, code, message) => {
  try {
    ask(kind, spec, more);
  } catch (error) {
    expect((error as { status: unknown }).status).toMatchObject({ code, message: expect.stringMatching(message) });
    return;
  }
  throw new Error("was answered");
});

describe("a request for a token", () => {
  const warnings: string[] = [];
  function request(spec: unknown, target = { namespace: "ns", name: "robot" }, metadata: unknown = {}): KubeObject {
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata,
      spec,
    } as KubeObject;
    warnings.length = 0;
    const random = { uint32: () => 7 };
    return answerTokenRequest(body, target, { tokens, lookup, nowMs, random, warn: (text) => warnings.push(text) });
  }
  const review = (token: unknown, audiences?: string[]) => status(ask("TokenReview", { token, audiences }));

  test("issues one for an hour, for this API", () => {
    const answer = request({});
    expect(answer).toMatchObject({
      kind: "TokenRequest",
      metadata: { name: "robot", namespace: "ns", creationTimestamp: "2026-06-01T12:00:00Z" },
      spec: { audiences: [tokens.issuer], expirationSeconds: 3600 },
      status: { expirationTimestamp: "2026-06-01T13:00:00Z" },
    });
    expect(review(status(answer)["token"])).toEqual({
      authenticated: true,
      user: {
        username: "system:serviceaccount:ns:robot",
        uid: "u1",
        groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        extra: { "authentication.kubernetes.io/credential-id": [expect.stringMatching(/^JTI=/)] },
      },
      audiences: [tokens.issuer],
    });
  });

  test("for other audiences issues one that is valid there and not here", () => {
    const token = status(request({ audiences: ["vault", "bank"] }))["token"];
    expect(review(token)).toMatchObject({
      authenticated: false,
      user: {},
      error: expect.stringContaining("invalid for the target audiences"),
    });
    expect(review(token, ["bank", "shop"])).toMatchObject({ authenticated: true, audiences: ["bank"] });
  });

  test("bound to a pod has the node of the pod", () => {
    const token = String(
      status(request({ boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "p", uid: "u2" } }))["token"],
    );
    const found = authenticateToken(token, [tokens.issuer], sources, nowMs);
    expect(found).toMatchObject({
      user: {
        extra: { "authentication.kubernetes.io/pod-name": ["p"], "authentication.kubernetes.io/node-name": ["n"] },
      },
    });
  });

  test.each(["Secret s", "Node n"])("bound to a %s is granted", (text) => {
    const [kind, name] = text.split(" ");
    const answer = request({ boundObjectRef: { apiVersion: "v1", kind, name } });
    expect(review(status(answer)["token"])["authenticated"]).toBe(true);
  });

  test("for more than a year is cut to a year, with a warning", () => {
    expect(request({ expirationSeconds: 2 ** 31 })["spec"]).toMatchObject({ expirationSeconds: 31_536_000 });
    expect(warnings).toEqual(["requested expiration of 2147483648 seconds shortened to 31536000 seconds"]);
  });

  test.each<[string, unknown, { namespace: string; name: string } | undefined, unknown, number, RegExp]>([
    ["of a missing account", {}, { namespace: "ns", name: "gone" }, {}, 404, /serviceaccounts "gone" not found/],
    [
      "for less than ten minutes",
      { expirationSeconds: 599 },
      undefined,
      {},
      422,
      /may not specify a duration less than 10 minutes/,
    ],
    ["for longer than the field", { expirationSeconds: 2 ** 33 }, undefined, {}, 422, /larger than 2\^32 seconds/],
    ["with another name in the body", {}, undefined, { name: "x" }, 422, /must match the service account name/],
    [
      "bound to a missing pod",
      { boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "gone" } },
      undefined,
      {},
      404,
      /pods "gone" not found/,
    ],
    [
      "bound to a pod of another account",
      { boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "q" } },
      undefined,
      {},
      400,
      /different serviceaccount/,
    ],
    [
      "bound to a pod that was made again",
      { boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "p", uid: "old" } },
      undefined,
      {},
      409,
      /does not match the UID in record/,
    ],
    [
      "bound to something without an end",
      { boundObjectRef: { apiVersion: "v1", kind: "ConfigMap", name: "p" } },
      undefined,
      {},
      400,
      /cannot bind token to object of type \/v1, Kind=ConfigMap/,
    ],
  ])("%s is refused", (_, spec, target, metadata, code, message) => {
    expect(() => request(spec, target, metadata)).toThrow(
      expect.objectContaining({ status: expect.objectContaining({ code }) }),
    );
    expect(() => request(spec, target, metadata)).toThrow(message);
  });
});

describe("is this token good", () => {
  test("a token of the file is, for this API only", () => {
    const spec = { token: "s3cret" };
    expect(status(ask("TokenReview", spec))).toEqual({
      authenticated: true,
      user: { username: "max", uid: "7", groups: ["team", "system:authenticated"] },
      audiences: [tokens.issuer],
    });
    expect(status(ask("TokenReview", { ...spec, audiences: ["vault"] }))["authenticated"]).toBe(false);
  });

  test("nonsense is not", () => {
    expect(status(ask("TokenReview", { token: "x" }))).toEqual({
      authenticated: false,
      user: {},
      error: "invalid bearer token",
    });
  });
});
