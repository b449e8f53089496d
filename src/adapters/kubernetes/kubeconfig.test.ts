import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { UserError } from "../../model/userError.ts";
import { loadKubeconfig } from "./kubeconfig.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "kubeconfig-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** A kubeconfig with one context `c`; what a test is about is laid over it. */
function config(cluster: object = {}, user: object = {}, context: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "cl", cluster: { server: "https://10.0.0.1:6443", ...cluster } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "c", context: { cluster: "cl", user: "u", ...context } }],
    "current-context": "c",
  };
}

function write(name: string, content: object | string): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : stringify(content));
  return path;
}

const load = (content: object | string, more: object = {}) =>
  loadKubeconfig({ path: write("config", content), ...more });
const credentialsOf = async (content: object, more: object = {}) =>
  (await load(content, more)).credentials({ refused: false });

async function problemOf(loading: Promise<unknown>): Promise<UserError> {
  const error = await loading.then(
    () => undefined,
    (problem: unknown) => problem,
  );
  expect(error).toBeInstanceOf(UserError);
  return error as UserError;
}

describe("the cluster of a kubeconfig", () => {
  test("is the one of the current context, in the namespace of the context", async () => {
    const connection = await load(config({}, { token: "t" }, { namespace: "team" }));
    expect(connection).toMatchObject({ server: "https://10.0.0.1:6443", namespace: "team" });
    expect((await load(config())).namespace).toBe("default");
  });

  test("is that of the given context", async () => {
    const both = {
      clusters: [
        { name: "one", cluster: { server: "https://one:6443" } },
        { name: "two", cluster: { server: "https://two:6443" } },
      ],
      contexts: [
        { name: "first", context: { cluster: "one" } },
        { name: "second", context: { cluster: "two" } },
      ],
      "current-context": "first",
    };
    expect((await load(both)).server).toBe("https://one:6443");
    expect((await load(both, { context: "second" })).server).toBe("https://two:6443");
  });

  test("is trusted by the authority in the file, or in another file beside it", async () => {
    const inline = await load(config({ "certificate-authority-data": base64("PEM inline") }));
    expect(inline.authority).toBe("PEM inline");
    write("ca.crt", "PEM beside");
    expect((await load(config({ "certificate-authority": "ca.crt" }))).authority).toBe("PEM beside");
    const odd = await load(config({ "insecure-skip-tls-verify": true, "tls-server-name": "api.example.com" }));
    expect(odd).toMatchObject({ insecure: true, serverName: "api.example.com" });
    expect(odd.authority).toBeUndefined();
  });

  test("is reached over TLS without a scheme if there are settings for TLS, as kubectl does", async () => {
    const server = "10.0.0.1:6443";
    const serverOf = async (cluster: object, user: object = {}): Promise<string> =>
      (await load(config({ server, ...cluster }, user))).server;
    expect(await serverOf({})).toBe("http://10.0.0.1:6443");
    expect(await serverOf({ "insecure-skip-tls-verify": true })).toBe("https://10.0.0.1:6443");
    expect(await serverOf({ "certificate-authority-data": base64("PEM") })).toBe("https://10.0.0.1:6443");
    const user = { "client-certificate-data": base64("PEM"), "client-key-data": base64("PEM") };
    expect(await serverOf({}, user)).toBe("https://10.0.0.1:6443");
  });

  test("is reached through the proxy that the file names, else the environment", async () => {
    const env = { HTTPS_PROXY: "http://env:2" };
    expect((await load(config({ "proxy-url": "http://file:1" }), { env })).proxy).toBe("http://file:1");
    expect((await load(config(), { env })).proxy).toBe("http://env:2");
    expect((await load(config(), { env: {} })).proxy).toBeUndefined();
  });

  test("comes from the files of KUBECONFIG, of which the first with an entry wins and some may be missing", async () => {
    const one = write("one", { ...config({ server: "https://first:1" }), "current-context": "" });
    const two = write("two", { ...config({ server: "https://second:2" }), "current-context": "c" });
    const env = { KUBECONFIG: [join(folder, "none"), one, two].join(":") };
    expect((await loadKubeconfig({ env })).server).toBe("https://first:1");
  });

  test("comes from the home folder by default", async () => {
    const { mkdirSync } = await import("node:fs");
    mkdirSync(join(folder, ".kube"));
    write(".kube/config", config({ server: "https://home:1" }));
    expect((await loadKubeconfig({ env: { HOME: folder } })).server).toBe("https://home:1");
  });
});

describe("the credentials of a kubeconfig", () => {
  test.each<[string, object, object]>([
    ["nothing", {}, {}],
    ["a token", { token: "secret\n" }, { authorization: "Bearer secret" }],
    ["a password", { username: "me", password: "pw" }, { authorization: `Basic ${base64("me:pw")}` }],
    [
      "a certificate",
      { "client-certificate-data": base64("CERT"), "client-key-data": base64("KEY") },
      { certificate: "CERT", key: "KEY" },
    ],
  ])("are %s", async (_, user, expected) => {
    expect(await credentialsOf(config({}, user))).toEqual(expected);
  });

  test("in files are found beside the kubeconfig, and read again when they have changed", async () => {
    write("tls.crt", "CERT 1");
    write("tls.key", "KEY 1");
    write("token", "token 1\n");
    const user = { "client-certificate": "tls.crt", "client-key": "tls.key", tokenFile: "token", token: "old" };
    const { credentials } = await load(config({}, user));
    const first = await credentials({ refused: false });
    expect(first).toMatchObject({ certificate: "CERT 1", key: "KEY 1", authorization: "Bearer token 1" });
    expect(first.goodForMs).toBeLessThanOrEqual(60_000);
    write("token", "token 2\n");
    expect(await credentials({ refused: false })).toMatchObject({ authorization: "Bearer token 2" });
  });

  test("may impersonate another user", async () => {
    const user = { token: "t", as: "jane", "as-groups": ["dev", "ops"], "as-user-extra": { reason: ["audit"] } };
    expect((await load(config({}, user))).headers).toEqual({
      "impersonate-user": "jane",
      "impersonate-group": ["dev", "ops"],
      "impersonate-extra-reason": ["audit"],
    });
  });

  test("of a token that a provider keeps are found by client-node", async () => {
    const payload = Buffer.from(JSON.stringify({ exp: 4_000_000_000 })).toString("base64url");
    const idToken = `e30.${payload}.signature`;
    const provider = {
      name: "oidc",
      config: { "id-token": idToken, "client-id": "c", "idp-issuer-url": "https://id.example.com" },
    };
    const found = await credentialsOf(config({}, { "auth-provider": provider }));
    expect(found).toMatchObject({ authorization: `Bearer ${idToken}` });
  });

  test("of an OIDC login that has ended are refused with a cure", async () => {
    const payload = Buffer.from(JSON.stringify({ exp: 1 })).toString("base64url");
    const provider = { name: "oidc", config: { "id-token": `e30.${payload}.signature`, "client-id": "c" } };
    const problem = await problemOf(credentialsOf(config({}, { "auth-provider": provider })));
    expect(problem.code).toBe("auth-provider-failed");
    expect(problem.cure).toContain("log in again");
  });
});

describe("a credential plug-in", () => {
  const apiVersion = "client.authentication.k8s.io/v1";

  /** A plug-in beside the kubeconfig: a script that answers with what the body of this function says. */
  function plugin(body: string): void {
    const path = write("plugin.cjs", `#!${process.execPath}\n${body}\n`);
    chmodSync(path, 0o755);
  }
  const answer = (status: string): string =>
    `console.log(JSON.stringify({ apiVersion: "${apiVersion}", kind: "ExecCredential", status: ${status} }))`;
  const exec = (more: object = {}) => ({ exec: { apiVersion, command: "./plugin.cjs", ...more } });

  test("returns a token and its expiry", async () => {
    plugin(answer('{ token: "from-plugin", expirationTimestamp: "2026-01-01T01:00:00Z" }'));
    const nowMs = () => Date.UTC(2026, 0, 1);
    const found = await credentialsOf(config({}, exec()), { nowMs });
    expect(found).toEqual({ authorization: "Bearer from-plugin", goodForMs: 3_590_000 });
  });

  test("returns a certificate, which is used until it is rejected", async () => {
    plugin(answer('{ clientCertificateData: "CERT", clientKeyData: "KEY" }'));
    expect(await credentialsOf(config({}, exec()))).toEqual({ certificate: "CERT", key: "KEY" });
  });

  test("gets its arguments, its environment and, with provideClusterInfo, its cluster", async () => {
    plugin(
      answer(
        "{ token: [process.argv[2], process.env.REGION, process.env.FROM, process.env.KUBERNETES_EXEC_INFO].join() }",
      ),
    );
    const user = exec({ args: ["eu"], env: [{ name: "REGION", value: "west" }], provideClusterInfo: true });
    const found = await credentialsOf(config({}, user), { env: { ...process.env, FROM: "outside" } });
    expect(found.authorization).toContain("eu,west,outside,");
    const info = JSON.parse((found.authorization ?? "").split("outside,")[1] ?? "") as Record<string, unknown>;
    expect(info).toEqual({
      apiVersion,
      kind: "ExecCredential",
      spec: { interactive: false, cluster: { server: "https://10.0.0.1:6443" } },
    });
  });

  test.each<[string, string, string]>([
    ["fails", 'console.error("please log in"); process.exit(3)', "exited with code 3: please log in"],
    ["says something else", 'console.log("hello")', "no JSON"],
    ["says nothing", "", "no JSON"],
    ["gives nothing", answer("{}"), "neither a token nor a certificate"],
    ["gives half a pair", answer('{ clientCertificateData: "CERT" }'), "neither a token nor a certificate"],
    [
      "speaks another version",
      'console.log(JSON.stringify({ apiVersion: "x/v9", kind: "ExecCredential", status: { token: "t" } }))',
      "version x/v9",
    ],
    [
      "talks without end",
      'const more = () => process.stdout.write("x".repeat(65536), more); more()',
      "wrote more than 1 MiB",
    ],
  ])("that %s is named in the problem", async (_, body, words) => {
    plugin(body);
    const problem = await problemOf(credentialsOf(config({}, exec({ installHint: "install it from example.com" }))));
    expect(problem.code).toBe("credential-plugin-failed");
    expect(problem.message).toContain("plugin.cjs");
    expect(problem.message).toContain(words);
  });

  test("that is not installed is reported with the hint of the kubeconfig", async () => {
    const user = exec({ command: "no-such-plugin-anywhere", installHint: "install it from example.com" });
    const problem = await problemOf(credentialsOf(config({}, user)));
    expect(problem.code).toBe("credential-plugin-failed");
    expect(problem.cure).toBe("install it from example.com");
  });
});

describe("an invalid kubeconfig is reported with a cure", () => {
  test.each<[string, string, string, object | string, object]>([
    ["a context that is not there", "context-unknown", "c", config(), { context: "other" }],
    ["no current context", "context-unknown", "--context", { ...config(), "current-context": "" }, {}],
    ["an empty file", "context-unknown", "none", "", {}],
    ["text that is no YAML", "kubeconfig-invalid", "kubectl config view", "a: [", {}],
    ["a list", "kubeconfig-invalid", "kubectl config view", "- a", {}],
    ["clusters that are not a list", "kubeconfig-invalid", "kubectl", { ...config(), clusters: {} }, {}],
    ["a cluster without a name", "kubeconfig-invalid", "kubectl", { ...config(), clusters: [{}] }, {}],
    ["a cluster that is not there", "kubeconfig-invalid", "kubectl", { ...config(), clusters: [] }, {}],
    ["a user that is not there", "kubeconfig-invalid", "kubectl", { ...config(), users: [] }, {}],
    ["a server that is no address", "kubeconfig-invalid", "kubectl", config({ server: "ftp://a" }), {}],
    ["a cluster without a server", "kubeconfig-invalid", "kubectl", config({ server: "" }), {}],
    ["data that is not base64", "kubeconfig-invalid", "kubectl", config({ "certificate-authority-data": "!" }), {}],
    ["a certificate without its key", "kubeconfig-invalid", "kubectl", config({}, { "client-certificate": "x" }), {}],
    ["a number for a token", "kubeconfig-invalid", "kubectl", config({}, { token: 5 }), {}],
    [
      "an authority that is not there",
      "credential-file-unreadable",
      "path",
      config({ "certificate-authority": "no" }),
      {},
    ],
    ["a proxy of another kind", "kubeconfig-unsupported", "proxy-url", config({ "proxy-url": "socks5://p:1" }), {}],
    ["a plug-in without a command", "kubeconfig-invalid", "kubectl", config({}, { exec: { apiVersion: "x" } }), {}],
  ])("%s: %s", async (_, code, cure, content, options) => {
    const problem = await problemOf(load(content, options));
    expect(problem.code).toBe(code);
    expect(problem.cure).toContain(cure);
    expect(problem.message).toContain(folder);
  });

  test("a file that is not there: kubeconfig-missing", async () => {
    const path = join(folder, "none");
    for (const options of [{ path }, { env: { KUBECONFIG: path } }, { env: { HOME: folder } }]) {
      const problem = await problemOf(loadKubeconfig(options));
      expect(problem.code).toBe("kubeconfig-missing");
      expect(problem.message).toContain(folder);
    }
  });

  test("a folder in place of a file: kubeconfig-unreadable", async () => {
    expect((await problemOf(loadKubeconfig({ path: folder }))).code).toBe("kubeconfig-unreadable");
  });
});
