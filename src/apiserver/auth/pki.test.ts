import { execFile, spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { type AddressInfo, isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { KeyFiles } from "../../ports/keyFiles.ts";
import type { Random } from "../../ports/random.ts";
import type { ClientCertificate } from "./authenticate.ts";
import { issueCertificate, type KeyPair } from "./certificate.ts";
import { clientCertificateOf } from "./clientCertificate.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import { memoryKeyFiles, openPki, type Pki, usualHosts } from "./pki.ts";

const run = promisify(execFile);
const dayMs = 24 * 3600 * 1000;
// Other people's programs judge the certificates by the real clock, so the tests issue them by it.
const nowMs = Date.now();
const has = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;
const openssl = has("openssl", "version");
const kubectl = has("kubectl", "version", "--client");

/** Counts upwards: distinct serial numbers without chance. */
function counting(start = 1): Random {
  let next = start;
  return { uint32: () => next++ };
}

let pki: Pki;
beforeAll(async () => {
  pki = await openPki({
    files: memoryKeyFiles(),
    random: counting(),
    nowMs,
    hosts: ["muster.example", "fd00::12%eth0"],
  });
});

describe("the server's certificate", () => {
  test.each([...usualHosts, "muster.example", "fd00::12"])("names %s", (host) => {
    const parsed = new X509Certificate(pki.server.certificate);
    expect(isIP(host) === 0 ? parsed.checkHost(host) : parsed.checkIP(host)).toBeDefined();
  });

  test("does not authenticate an unknown client", () => {
    const parsed = new X509Certificate(pki.server.certificate);
    expect(parsed.checkHost("example.com")).toBeUndefined();
    expect(parsed.checkIP("10.0.0.1")).toBeUndefined();
  });

  test("is no authority, while the authority is", () => {
    expect(new X509Certificate(pki.server.certificate).ca).toBe(false);
    expect(new X509Certificate(pki.authority).ca).toBe(true);
  });
});

describe("a TLS handshake", () => {
  let seen: ClientCertificate | undefined;
  let lastSession: Buffer | undefined;
  const server = () =>
    createServer(
      {
        cert: pki.server.certificate,
        key: pki.server.key,
        ca: pki.authority,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (request, response) => {
        seen = clientCertificateOf(request.socket as TLSSocket);
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ path: request.url }));
      },
    );
  let url: string;
  let port: number;
  let listening: ReturnType<typeof server>;
  beforeAll(async () => {
    listening = server();
    await new Promise<void>((done) => listening.listen(0, "127.0.0.1", done));
    port = (listening.address() as AddressInfo).port;
    url = `https://127.0.0.1:${port}`;
  });
  afterAll(() => {
    listening.closeAllConnections();
    listening.close();
  });

  async function ask(client?: KeyPair, authority = pki.authority, session?: Buffer): Promise<boolean> {
    const socket = connect({
      port,
      host: "127.0.0.1",
      servername: "localhost",
      ca: authority,
      ...(session ? { session } : {}),
      ...(client ? { cert: client.certificate, key: client.key } : {}),
    });
    return new Promise((done, fail) => {
      socket.on("secureConnect", () => socket.write("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
      socket.on("data", () => undefined);
      socket.on("session", (ticket) => {
        lastSession = ticket;
      });
      socket.on("close", () => done(socket.authorized));
      socket.on("error", fail);
    });
  }

  test("shows the administrator to the server, and the server to the administrator", async () => {
    expect(await ask(pki.admin)).toBe(true);
    expect(seen).toEqual({
      commonName: "kubernetes-admin",
      organizations: ["system:masters"],
      authorized: true,
      fingerprint: new X509Certificate(pki.admin.certificate).fingerprint256,
    });
  });

  test("carries several groups and names outside ASCII", async () => {
    await ask(pki.issueClient("jürgen, O=system:masters", ["a", "b", "c/d"], nowMs));
    const organizations = ["a", "b", "c/d"];
    expect(seen).toMatchObject({ authorized: true, commonName: "jürgen, O=system:masters", organizations });
  });

  test("without a client certificate shows none", async () => {
    await ask();
    expect(seen).toBeUndefined();
  });

  test("that is resumed still has its user", async () => {
    await ask(pki.admin);
    seen = undefined;
    await ask(undefined, pki.authority, lastSession);
    expect(seen).toMatchObject({ authorized: true, commonName: "kubernetes-admin" });
  });

  // Node calls a resumed connection authorized even when no certificate was ever shown.
  test("that is resumed does not authenticate an unknown client", async () => {
    await ask();
    await ask(undefined, pki.authority, lastSession);
    expect(seen).toBeUndefined();
    const other = await openPki({ files: memoryKeyFiles(), random: counting(), nowMs });
    await ask(other.admin);
    await ask(other.admin, pki.authority, lastSession);
    expect(seen?.authorized ?? false).toBe(false);
  });

  test("with a certificate of another authority is not authorized", async () => {
    const other = await openPki({ files: memoryKeyFiles(), random: counting(), nowMs });
    await ask(other.admin);
    expect(seen?.authorized).toBe(false);
  });

  test("with the server's own certificate as client is not authorized", async () => {
    await ask(pki.server);
    expect(seen?.authorized).toBe(false);
  });

  test("with a certificate that a client signed itself is not authorized", async () => {
    const forged = issueCertificate(
      {
        commonName: "root",
        organizations: ["system:masters"],
        use: "client",
        notBeforeMs: nowMs - dayMs,
        notAfterMs: nowMs + dayMs,
        random: counting(),
      },
      { ...pki.admin, name: "kubernetes-admin" },
    );
    await ask(forged);
    expect(seen?.authorized).toBe(false);
  });

  test("with a certificate that ran out is not authorized", async () => {
    await ask(pki.issueClient("late", [], nowMs - 400 * dayMs));
    expect(seen?.authorized).toBe(false);
  });

  test("is refused by a client that trusts another authority", async () => {
    const other = await openPki({ files: memoryKeyFiles(), random: counting(), nowMs });
    await expect(ask(undefined, other.authority)).rejects.toThrow();
  });

  test.skipIf(!kubectl)("is accepted by kubectl with the kubeconfig we write", async () => {
    const folder = await mkdtemp(join(tmpdir(), "muster-pki-"));
    try {
      const path = join(folder, "config");
      const text = kubeconfigText({
        server: url,
        authority: pki.authority,
        user: "kubernetes-admin",
        credential: pki.admin,
      });
      await writeFile(path, text, { mode: 0o600 });
      const { stdout } = await run("kubectl", ["--kubeconfig", path, "get", "--raw", "/some/path"]);
      expect(JSON.parse(stdout)).toEqual({ path: "/some/path" });
      expect(seen).toMatchObject({ authorized: true, commonName: "kubernetes-admin" });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

test.skipIf(!openssl)(
  "openssl accepts the server's and the client's certificate, each for its own use only",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "muster-pki-"));
    try {
      const file = async (name: string, text: string): Promise<string> => {
        await writeFile(join(folder, name), text);
        return join(folder, name);
      };
      const ca = await file("ca.crt", pki.authority);
      const server = await file("server.crt", pki.server.certificate);
      const admin = await file("admin.crt", pki.admin.certificate);
      const verify = (purpose: string, leaf: string) =>
        run("openssl", ["verify", "-x509_strict", "-CAfile", ca, "-purpose", purpose, leaf]);
      expect((await verify("sslserver", server)).stdout).toContain("OK");
      expect((await verify("sslclient", admin)).stdout).toContain("OK");
      await expect(verify("sslclient", server)).rejects.toThrow();
      await expect(verify("sslserver", admin)).rejects.toThrow();
      const { stdout } = await run("openssl", ["x509", "-in", admin, "-noout", "-subject", "-nameopt", "RFC2253"]);
      expect(stdout.trim()).toBe("subject=CN=kubernetes-admin,O=system:masters");
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);

describe("keys between two starts", () => {
  const day0 = Date.parse("2026-01-01T00:00:00Z");
  const open = (files: KeyFiles, day: number, hosts: string[] = []) =>
    openPki({ files, random: counting(day * 1000 + 1), nowMs: day0 + day * dayMs, hosts });

  test("are found again", async () => {
    const files = memoryKeyFiles();
    const first = await open(files, 0);
    const second = await open(files, 300);
    expect(second.authority).toBe(first.authority);
    expect(second.server).toEqual(first.server);
    expect(second.admin).toEqual(first.admin);
    expect(second.tokenKey.privateKey.equals(first.tokenKey.privateKey)).toBe(true);
  });

  test("are renewed under the same authority when less than 30 days are left", async () => {
    const files = memoryKeyFiles();
    const first = await open(files, 0);
    const second = await open(files, 336);
    expect(second.authority).toBe(first.authority);
    expect(second.server.certificate).not.toBe(first.server.certificate);
    expect(second.admin.certificate).not.toBe(first.admin.certificate);
    expect(Date.parse(new X509Certificate(second.admin.certificate).validTo)).toBe(day0 + (336 + 365) * dayMs);
  });

  test("are all new when the authority itself runs out, except the key for tokens", async () => {
    const files = memoryKeyFiles();
    const first = await open(files, 0);
    const second = await open(files, 3630);
    expect(second.authority).not.toBe(first.authority);
    expect(new X509Certificate(second.server.certificate).verify(new X509Certificate(second.authority).publicKey)).toBe(
      true,
    );
    expect(second.tokenKey.privateKey.equals(first.tokenKey.privateKey)).toBe(true);
  });

  test("give the server a new certificate when it must answer to a new name", async () => {
    const files = memoryKeyFiles();
    const first = await open(files, 0);
    const second = await open(files, 1, ["10.1.2.3"]);
    expect(second.server.certificate).not.toBe(first.server.certificate);
    expect(second.admin).toEqual(first.admin);
    expect((await open(files, 2)).server).toEqual(second.server);
    const odd = await open(files, 2, ["My_Host", "fe80::1%lo", "0.0.0.0"]);
    expect((await open(files, 3, ["My_Host", "fe80::1%lo", "0.0.0.0"])).server).toEqual(odd.server);
  });

  test("replace a damaged leaf certificate, but never a damaged authority", async () => {
    const files = memoryKeyFiles();
    const first = await open(files, 0);
    await files.write("apiserver.crt", "not a certificate");
    expect((await open(files, 0)).server.certificate).not.toBe(first.server.certificate);
    await files.write("ca.key", first.admin.key);
    await expect(open(files, 0)).rejects.toThrow(/authority is damaged/);
  });

  test("start over when the first start was cut short between key and certificate", async () => {
    const files = memoryKeyFiles();
    await files.write("ca.key", "torn");
    expect((await open(files, 0)).authority).toContain("BEGIN CERTIFICATE");
  });
});

test("a certificate that outlives 2049 is written with four-digit years", () => {
  const made = issueCertificate({
    commonName: "far",
    use: "authority",
    notBeforeMs: Date.parse("2049-12-31T23:59:59Z"),
    notAfterMs: Date.parse("2050-01-01T00:00:00Z"),
    random: counting(),
  });
  const parsed = new X509Certificate(made.certificate);
  expect([parsed.validFrom, parsed.validTo]).toEqual(["Dec 31 23:59:59 2049 GMT", "Jan  1 00:00:00 2050 GMT"]);
});

test("a kubeconfig holds everything it needs, and the namespace default", () => {
  const text = kubeconfigText({
    server: "https://[::1]:1",
    authority: "CA",
    user: "u",
    credential: { token: "t: #1" },
  });
  expect(parse(text)).toEqual({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "muster", cluster: { server: "https://[::1]:1", "certificate-authority-data": btoa("CA") } }],
    users: [{ name: "muster-u", user: { token: "t: #1" } }],
    contexts: [{ name: "muster", context: { cluster: "muster", user: "muster-u", namespace: "default" } }],
    "current-context": "muster",
  });
});
