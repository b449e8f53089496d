import { createHmac, generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Random } from "../../ports/random.ts";
import type { UserInfo } from "../strategy.ts";
import type { Authorizer, ResourceAccess } from "./access.ts";
import { authenticate, authenticateToken, bearerToken, type Credentials } from "./authenticate.ts";
import { impersonate } from "./impersonate.ts";
import { TokenIssuer, type TokenSubject } from "./serviceAccountToken.ts";
import { StaticTokens } from "./staticTokens.ts";

const random: Random = { uint32: () => 0x01020304 };
const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
const issuer = new TokenIssuer(keys);
const start = Date.parse("2026-06-01T12:00:00Z");
const hour = 3_600_000;

const robot: TokenSubject = {
  audiences: [issuer.issuer],
  namespace: "ns",
  serviceAccount: { name: "robot", uid: "u1" },
};
const mint = (subject: Partial<TokenSubject> = {}, by = issuer): string =>
  by.issue({ ...robot, ...subject }, { nowMs: start, lifetimeSeconds: 3600, random }).token;

/** `{"/pods ns p": "uid"}`; a uid with `deleted <time>` behind it is being deleted since then. */
type World = Record<string, string>;
const alive: World = {
  "/serviceaccounts ns robot": "u1",
  "/pods ns p": "u2",
  "/secrets ns s": "u3",
  "/nodes  n": "u4",
};
const lookupIn = (world: World) => (resource: string, namespace: string, name: string) => {
  const found = world[`${resource} ${namespace} ${name}`];
  if (found === undefined) return undefined;
  const [uid, deletionTimestamp] = found.split(" deleted ");
  return { metadata: { name, uid, ...(deletionTimestamp ? { deletionTimestamp } : {}) } } as KubeObject;
};
const staticTokens = StaticTokens.parse(
  '# comment\ns3cret,jo,7,"team,other"\nplain,max,\n\n"with,comma","quo""te",9\n',
);
const sources = (world: World = alive) => ({ tokens: issuer, staticTokens, lookup: lookupIn(world) });

/** The user's name, or the refusal's code. */
function who(credentials: Partial<Credentials>, world = alive, nowMs = start): string {
  try {
    return authenticate(credentials, sources(world), nowMs).username;
  } catch (error) {
    return String((error as { status: { code: number } }).status.code);
  }
}
const certificate = (commonName: string, authorized = true) => ({ commonName, organizations: ["g"], authorized });

describe("a request", () => {
  test.each<[string, Partial<Credentials>, string]>([
    ["with a good certificate is from its common name", { certificate: certificate("jo") }, "jo"],
    ["with a certificate of strangers is refused", { certificate: certificate("jo", false) }, "401"],
    [
      "with a certificate of strangers and a good token is from the token's user",
      { certificate: certificate("x", false), authorization: "Bearer s3cret" },
      "jo",
    ],
    ["with a certificate without a name is refused", { certificate: certificate("") }, "401"],
    ["with a token of the file is from its user", { authorization: "Bearer s3cret" }, "jo"],
    ["with the scheme in small letters is understood", { authorization: "bearer s3cret" }, "jo"],
    ["with a token that holds a comma is understood", { authorization: "Bearer with,comma" }, 'quo"te'],
    ["with a wrong token is refused", { authorization: "Bearer s3creT" }, "401"],
    ["with nothing is anonymous", {}, "system:anonymous"],
    ["with a password is anonymous", { authorization: "Basic am86c2VjcmV0" }, "system:anonymous"],
    ["with an empty token is anonymous", { authorization: "Bearer  s3cret" }, "system:anonymous"],
    [
      "with a service account's token is from the account",
      { authorization: `Bearer ${mint()}` },
      "system:serviceaccount:ns:robot",
    ],
  ])("%s", (_, credentials, expected) => {
    expect(who(credentials)).toBe(expected);
  });

  test("of a certificate's owner is in his groups and in that of all known users, and can be traced", () => {
    const user = authenticate({ certificate: { ...certificate("jo"), fingerprint: "AB:CD" } }, sources(), start);
    expect(user).toEqual({
      username: "jo",
      groups: ["g", "system:authenticated"],
      extra: { "authentication.kubernetes.io/credential-id": ["X509SHA256=abcd"] },
    });
  });

  test("of a service account has its groups and its pod", () => {
    const token = mint({ pod: { name: "p", uid: "u2" }, node: { name: "n", uid: "old" } });
    expect(authenticate({ authorization: `Bearer ${token}` }, sources(), start)).toEqual({
      username: "system:serviceaccount:ns:robot",
      uid: "u1",
      groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
      extra: {
        "authentication.kubernetes.io/credential-id": ["JTI=01020304-0102-4304-8102-030401020304"],
        "authentication.kubernetes.io/node-name": ["n"],
        "authentication.kubernetes.io/node-uid": ["old"],
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": ["u2"],
      },
    });
  });
});

describe("a service account's token", () => {
  const account = "system:serviceaccount:ns:robot";
  const bound = {
    pod: mint({ pod: { name: "p", uid: "u2" } }),
    secret: mint({ secret: { name: "s", uid: "u3" } }),
    node: mint({ node: { name: "n", uid: "u4" } }),
  };
  const without = (key: string): World => Object.fromEntries(Object.entries(alive).filter(([name]) => name !== key));
  const deletedAt = (ms: number): string => `u2 deleted ${new Date(ms).toISOString()}`;
  test.each<[string, string, World, number, string]>([
    ["is good at once", mint(), alive, start, account],
    ["is good until its last moment", mint(), alive, start + hour - 1, account],
    ["is not good after", mint(), alive, start + hour, "401"],
    ["is not good long before it was made", mint(), alive, start - 61_000, "401"],
    ["survives a clock that is a little behind", mint(), alive, start - 30_000, account],
    ["is not good for another audience", mint({ audiences: ["vault"] }), alive, start, "401"],
    ["may be good for several audiences", mint({ audiences: ["vault", issuer.issuer] }), alive, start, account],
    ["dies with its account", mint(), without("/serviceaccounts ns robot"), start, "401"],
    [
      "does not come back with a new account of that name",
      mint(),
      { ...alive, "/serviceaccounts ns robot": "new" },
      start,
      "401",
    ],
    ["bound to a pod is good while the pod is there", bound.pod, alive, start, account],
    ["bound to a pod dies with the pod", bound.pod, without("/pods ns p"), start, "401"],
    ["bound to a pod does not pass to its successor", bound.pod, { ...alive, "/pods ns p": "new" }, start, "401"],
    [
      "bound to a pod lives on while the pod ends",
      bound.pod,
      { ...alive, "/pods ns p": deletedAt(start - 59_000) },
      start,
      account,
    ],
    [
      "bound to a pod dies a minute after the end it was given",
      bound.pod,
      { ...alive, "/pods ns p": deletedAt(start - 61_000) },
      start,
      "401",
    ],
    ["bound to a secret is good while the secret is there", bound.secret, alive, start, account],
    ["bound to a secret dies with the secret", bound.secret, without("/secrets ns s"), start, "401"],
    ["bound to a node is good while the node is there", bound.node, alive, start, account],
    ["bound to a node dies with the node", bound.node, without("/nodes  n"), start, "401"],
    [
      "of another cluster's key is refused",
      mint({}, new TokenIssuer(generateKeyPairSync("ec", { namedCurve: "P-256" }))),
      alive,
      start,
      "401",
    ],
    [
      "of another issuer with the same key is refused",
      mint({}, new TokenIssuer(keys, "https://evil")),
      alive,
      start,
      "401",
    ],
  ])("%s", (_, token, world, nowMs, expected) => {
    expect(who({ authorization: `Bearer ${token}` }, world, nowMs)).toBe(expected);
    // Once more: the second time the signature comes from memory.
    expect(who({ authorization: `Bearer ${token}` }, world, nowMs)).toBe(expected);
  });

  const [head = "", body = "", tail = ""] = mint().split(".");
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = JSON.parse(Buffer.from(body, "base64url").toString());
  const kid = JSON.parse(Buffer.from(head, "base64url").toString()).kid;
  const asMasters = part({ ...claims, sub: "system:serviceaccount:kube-system:root" });
  const hmacHead = part({ alg: "HS256", kid });
  const publicPem = keys.publicKey.export({ type: "spki", format: "pem" }).toString();
  test.each<[string, string]>([
    ["with other claims under the same signature", `${head}.${asMasters}.${tail}`],
    ["with the other valid signature of the same claims", `${head}.${body}.${otherSignature(tail)}`],
    ["with unused bits of the signature's last character set", `${head}.${body}.${otherLastCharacter(tail)}`],
    ["with the algorithm none and no signature", `${part({ alg: "none", kid })}.${body}.`],
    ["with the algorithm none and some signature", `${part({ alg: "none", kid })}.${body}.${tail}`],
    [
      "with the public key used as the secret of a hash",
      `${hmacHead}.${body}.${createHmac("sha256", publicPem).update(`${hmacHead}.${body}`).digest("base64url")}`,
    ],
    ["with a key of unknown name", `${part({ alg: "ES256", kid: "x" })}.${body}.${tail}`],
    ["with a signature of zeros", `${head}.${body}.${Buffer.alloc(64).toString("base64url")}`],
    ["with a cut signature", `${head}.${body}.${tail.slice(0, 40)}`],
    ["with a fourth part", `${head}.${body}.${tail}.x`],
    ["with an appended newline", `${head}.${body}.${tail}\n`],
    ["that is no JSON", "YQ.YQ.YQ"],
    ["that is JSON but no object", `${part(null)}.${part([])}.${tail}`],
    ["of a megabyte", "a".repeat(1_000_000)],
    ["of dots", "..."],
    ["that is empty", ""],
  ])("is refused %s", (_, token) => {
    expect(authenticateToken(token, [issuer.issuer], sources(), start)).toEqual({ problem: "invalid bearer token" });
  });

  test("for another audience is rejected with both audiences", () => {
    expect(authenticateToken(mint({ audiences: ["a"] }), ["b"], sources(), start)).toEqual({
      problem: 'token audiences ["a"] is invalid for the target audiences ["b"]',
    });
  });

  test("can be checked by others with the published key", () => {
    expect(issuer.keySet().keys).toEqual([
      { use: "sig", alg: "ES256", kty: "EC", crv: "P-256", kid, x: expect.any(String), y: expect.any(String) },
    ]);
  });
});

test.each<[string | undefined, string | undefined]>([
  [undefined, undefined],
  ["", undefined],
  ["Bearer", undefined],
  ["Bearer ", undefined],
  ["BEARER x", "x"],
  ["  Bearer x  ", "x"],
  ["Bearer x y", "x"],
  ["Bearerx", undefined],
])("the header %j carries the token %j", (header, token) => {
  expect(bearerToken(header)).toBe(token);
});

test("a token file with a broken line is refused with its number", () => {
  expect(() => StaticTokens.parse("a,b,c\nonly\n")).toThrow("line 2");
});

describe("impersonating another user", () => {
  const root: UserInfo = { username: "root", groups: [] };
  /** Remembers what was asked, allows what the list names. */
  function judge(...allowed: string[]) {
    const asked: string[] = [];
    const authorizer: Authorizer = {
      authorize: (_user, access) => {
        const one = access as ResourceAccess;
        const what = [one.resource, one.subresource].filter((word) => word !== "").join("/");
        const text = `${one.verb} ${[what, one.group].filter((word) => word !== "").join(".")} ${one.namespace}/${one.name}`;
        asked.push(text);
        return { allowed: allowed.includes("*") || allowed.includes(text), reason: "" };
      },
    };
    return { asked, authorizer };
  }
  const act = (...headers: string[]) => impersonate(root, headers, judge("*").authorizer);

  test("requires the right to impersonate each user, group, UID and extra value", () => {
    const { asked, authorizer } = judge("*");
    impersonate(
      root,
      [
        "Impersonate-User",
        "jo",
        "Impersonate-Group",
        "a,b",
        "IMPERSONATE-GROUP",
        "c",
        "Impersonate-Uid",
        "7",
        "Impersonate-Extra-Acme.com%2Fproject",
        "x",
        "Accept",
        "*/*",
      ],
      authorizer,
    );
    expect(asked).toEqual([
      "impersonate users /jo",
      "impersonate groups /a,b",
      "impersonate groups /c",
      "impersonate userextras/acme.com/project.authentication.k8s.io /x",
      "impersonate uids.authentication.k8s.io /7",
    ]);
  });

  test("is not noticed without such headers", () => {
    expect(impersonate(root, ["If-None-Match", "x", "I", "y"], judge().authorizer)).toBe(root);
  });

  test.each<[string, string[], Partial<UserInfo>]>([
    [
      "a user is in the group of all known users",
      ["Impersonate-User", "jo"],
      { username: "jo", groups: ["system:authenticated"] },
    ],
    [
      "given groups are kept",
      ["Impersonate-User", "jo", "Impersonate-Group", "a"],
      { groups: ["a", "system:authenticated"] },
    ],
    [
      "a service account has its groups",
      ["Impersonate-User", "system:serviceaccount:ns:robot"],
      { groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"] },
    ],
    ["a stranger stays one", ["Impersonate-User", "system:anonymous"], { groups: ["system:unauthenticated"] }],
    [
      "extra values are gathered by key",
      ["Impersonate-User", "jo", "Impersonate-Extra-Scope", "a", "Impersonate-Extra-scope", "b"],
      { extra: { scope: ["a", "b"] } },
    ],
    [
      "a key with broken escapes is taken as it is",
      ["Impersonate-User", "jo", "Impersonate-Extra-%zz", "a"],
      { extra: { "%zz": ["a"] } },
    ],
    [
      "a name outside ASCII survives the way",
      ["Impersonate-User", Buffer.from("jürgen 火").toString("latin1")],
      { username: "jürgen 火" },
    ],
    ["the first of two users counts", ["Impersonate-User", "jo", "Impersonate-User", "root"], { username: "jo" }],
  ])("%s", (_, headers, expected) => {
    expect(act(...headers)).toMatchObject(expected);
  });

  test("a key named like a property of every object is harmless", () => {
    const user = act("Impersonate-User", "jo", "Impersonate-Extra-__proto__", "a");
    expect(Object.entries(user.extra ?? {})).toEqual([["__proto__", ["a"]]]);
    expect(({} as Record<string, unknown>)["0"]).toBeUndefined();
  });

  test("impersonation of a service account is authorized in its namespace", () => {
    const { asked, authorizer } = judge("*");
    impersonate(root, ["Impersonate-User", "system:serviceaccount:ns:robot"], authorizer);
    impersonate(root, ["Impersonate-User", "system:serviceaccount:ns:robot:x"], authorizer);
    expect(asked).toEqual([
      "impersonate serviceaccounts ns/robot",
      "impersonate users /system:serviceaccount:ns:robot:x",
    ]);
  });

  test("without the right is refused, also when only one group is not allowed", () => {
    const headers = ["Impersonate-User", "jo", "Impersonate-Group", "system:masters"];
    expect(() => impersonate(root, headers, judge("impersonate users /jo").authorizer)).toThrow(
      'groups "system:masters" is forbidden: User "root" cannot impersonate resource "groups" in API group "" at the cluster scope',
    );
  });

  test("with a group but no user is an error", () => {
    expect(() => act("Impersonate-Group", "a")).toThrow(/without impersonating a user/);
  });
});

/** ECDSA accepts (r, n - s) wherever it accepts (r, s). */
function otherSignature(tail: string): string {
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const signature = Buffer.from(tail, "base64url").toString("hex");
  const s = (order - BigInt(`0x${signature.slice(64)}`)).toString(16).padStart(64, "0");
  return Buffer.from(signature.slice(0, 64) + s, "hex").toString("base64url");
}

/** 64 bytes fill 85 characters and a third: the last one has four bits that decoders ignore. */
function otherLastCharacter(tail: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return tail.slice(0, -1) + alphabet[alphabet.indexOf(tail.slice(-1)) + 1];
}
