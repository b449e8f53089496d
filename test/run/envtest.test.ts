import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { issueCertificate, type KeyPair } from "../../src/apiserver/auth/certificate.ts";
import { freePort } from "../freePort.ts";

/** envtest/ as the Go package envtest of controller-runtime uses it: its flags, its certificates, its health checks. */

const folder = new URL("../../envtest/", import.meta.url).pathname;
const validity = { notBeforeMs: Date.now() - 3_600_000, notAfterMs: Date.now() + 3_600_000, random: systemRandom() };
const authority = (commonName: string) => ({
  ...issueCertificate({ commonName, use: "authority", ...validity }),
  name: commonName,
});
const servers = authority("envtest-servers");
const clients = authority("envtest-clients");
const client = (commonName: string, organizations: string[], issuer = clients): KeyPair =>
  issueCertificate({ commonName, organizations, use: "client", ...validity }, issuer);

const children: ChildProcess[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await ended(child);
  for (const each of folders.splice(0)) rmSync(each, { recursive: true, force: true });
});

function run(program: string, ...words: string[]): ChildProcess {
  const child = spawn(join(folder, program), words, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
}

async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null) return child.exitCode;
  const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  return exit;
}

async function printed(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout ?? []) text += String(chunk);
  return text;
}

/** What envtest writes before it starts the server. */
function certificates(): string {
  const dir = mkdtempSync(join(tmpdir(), "muster-envtest-test-"));
  folders.push(dir);
  const serving = issueCertificate(
    { commonName: "localhost", use: "server", hosts: ["localhost", "127.0.0.1"], ...validity },
    servers,
  );
  writeFileSync(join(dir, "apiserver.crt"), serving.certificate);
  writeFileSync(join(dir, "apiserver.key"), serving.key);
  writeFileSync(join(dir, "client-cert-auth-ca.crt"), clients.certificate);
  return dir;
}

async function untilReady(port: number): Promise<void> {
  for (;;) {
    const status = await new Promise<number>((resolve) => {
      const call = get(`https://127.0.0.1:${port}/readyz`, { ca: servers.certificate }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      call.on("error", () => resolve(0));
    });
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of any kind
  readonly body: any;
}

function call(port: number, pair: KeyPair, method: string, path: string, body?: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      method,
      ca: servers.certificate,
      cert: pair.certificate,
      key: pair.key,
      headers: { "Content-Type": "application/json" },
    };
    const sent = request(`https://127.0.0.1:${port}${path}`, options, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += String(chunk);
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }));
    });
    sent.on("error", reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

describe("envtest", () => {
  test("kube-apiserver serves with the certificates and for the clients that envtest made", async () => {
    const dir = certificates();
    const port = await freePort();
    const child = run(
      "kube-apiserver",
      "--allow-privileged=true",
      "--bind-address=127.0.0.1",
      `--cert-dir=${dir}`,
      `--client-ca-file=${join(dir, "client-cert-auth-ca.crt")}`,
      "--disable-admission-plugins=ServiceAccount",
      "--etcd-servers=http://127.0.0.1:1",
      `--secure-port=${port}`,
      "--service-cluster-ip-range=10.0.0.0/24",
    );
    await untilReady(port);
    const admin = client("admin", ["system:masters"]);
    const containers = [{ name: "c", image: "i" }];
    const pods = "/api/v1/namespaces/default/pods";
    const pod = await call(port, admin, "POST", pods, { metadata: { name: "p" }, spec: { containers } });
    expect(pod.status).toBe(201);
    // Without the admission plugin a pod has no token.
    expect(pod.body.spec.volumes).toBeUndefined();
    expect((await call(port, client("eve", ["guests"]), "GET", pods)).status).toBe(403);
    // The authority of the serving certificate is none of clients.
    expect((await call(port, client("admin", ["system:masters"], servers), "GET", pods)).status).toBe(401);

    // As without kube-controller-manager: nothing empties a namespace, nothing is garbage-collected.
    await call(port, admin, "POST", "/api/v1/namespaces", { metadata: { name: "gone" } });
    await call(port, admin, "DELETE", "/api/v1/namespaces/gone");
    const gone = { apiVersion: "v1", kind: "Pod", name: "no-such-pod", uid: "00000000-0000-4000-8000-000000000000" };
    const orphan = { metadata: { name: "orphan", ownerReferences: [gone] } };
    await call(port, admin, "POST", "/api/v1/namespaces/default/configmaps", orphan);
    const definition = {
      metadata: { name: "widgets.example.com" },
      spec: {
        group: "example.com",
        scope: "Namespaced",
        names: { plural: "widgets", singular: "widget", kind: "Widget" },
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
      },
    };
    const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    expect((await call(port, admin, "POST", definitions, definition)).status).toBe(201);
    for (;;) {
      const { body } = await call(port, admin, "GET", `${definitions}/widgets.example.com`);
      const isEstablished = (each: { type: string; status: string }) =>
        each.type === "Established" && each.status === "True";
      if (body.status?.conditions?.some(isEstablished)) break;
    }
    expect((await call(port, admin, "GET", "/api/v1/namespaces/gone")).body.status.phase).toBe("Terminating");
    expect((await call(port, admin, "GET", "/api/v1/namespaces/default/configmaps/orphan")).status).toBe(200);
    expect(await ended(child)).toBe(0);
  });

  test("etcd answers the health check, and both list their flags", async () => {
    const port = await freePort();
    const child = run("etcd", `--listen-client-urls=http://127.0.0.1:${port}`, "--data-dir=/nowhere");
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined);
      if (answer === undefined) continue;
      expect(await answer.json()).toMatchObject({ health: "true" });
      break;
    }
    expect(await ended(child)).toBe(0);
    expect(await printed(run("etcd", "--help"))).toContain("--listen-client-urls");
    const help = await printed(run("kube-apiserver", "--help"));
    expect(help).toContain("--secure-port");
    // envtest sets this flag where it exists.
    expect(help).not.toContain("insecure-port");
  });

  test("an unknown flag is named and ignored, a missing certificate is refused", async () => {
    const dir = certificates();
    rmSync(join(dir, "client-cert-auth-ca.crt"));
    const child = run("kube-apiserver", "--made-up=1", `--client-ca-file=${join(dir, "client-cert-auth-ca.crt")}`);
    let errors = "";
    child.stderr?.on("data", (chunk) => {
      errors += String(chunk);
    });
    expect(await new Promise((resolve) => child.once("exit", resolve))).toBe(1);
    expect(errors).toContain("--made-up: ignored");
    expect(errors).toContain("certificate-unreadable");
    expect(existsSync(dir)).toBe(true);
  });
});
