/** Logs, commands, forwarded ports, proxies and usage of nodes that this process does not simulate. */
import { networkInterfaces } from "node:os";
import { PassThrough, Writable } from "node:stream";
import { Attach, Exec, KubeConfig, type V1Status } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { memoryKeyFiles, openServingPair } from "../../src/apiserver/auth/pki.ts";
import { podAgent } from "../../testing/apiserver/podAgent.ts";
import { type ScriptedKubelet, scriptedKubelet } from "../../testing/apiserver/scriptedKubelet.ts";
import { type Answer, adminToken } from "../httpCaller.ts";
import { type ServedApi, serveApi } from "./servedApi.ts";

/** Proxies reach no loopback address. */
const external = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
const host = external ?? "127.0.0.1";

let served: ServedApi;
let kubelet: ScriptedKubelet;
let container: ScriptedKubelet;
const config = new KubeConfig();

beforeAll(async () => {
  const agent = podAgent({
    plays: (name) => name === "played",
    nodeUsage: () => ({ cpu: "5n", memory: "1Ki" }),
    async *log() {
      yield "a simulated line";
    },
  });
  served = await serveApi({ agent });
  config.loadFromClusterAndUser(
    { name: "c", server: served.server.url, skipTLSVerify: true },
    { name: "admin", token: adminToken },
  );
  const files = memoryKeyFiles();
  const { server } = await openServingPair({
    files,
    random: systemRandom(),
    nowMs: Date.now(),
    commonName: "real",
    hosts: [host],
  });
  kubelet = await scriptedKubelet(server, "0.0.0.0");
  container = await scriptedKubelet(undefined, "0.0.0.0");
  await node("real", kubelet.port);
  await node("silent", 1);
  await node("played", 10_250, { "kwok.x-k8s.io/node": "fake" });
  await node("elsewhere", 10_250, { "kwok.x-k8s.io/node": "fake" });
  for (const name of ["real", "silent", "played", "elsewhere"]) await pod(`on-${name}`, name);
});
afterAll(async () => {
  await kubelet?.stop();
  await container?.stop();
  await served?.stop();
});

async function must(answer: Promise<Answer>): Promise<Answer> {
  const found = await answer;
  if (found.code >= 300) throw new Error(found.text);
  return found;
}

async function node(name: string, port: number, annotations: Record<string, string> = {}): Promise<void> {
  const { api } = served;
  await must(api.post("/api/v1/nodes", { metadata: { name, annotations } }));
  const addresses = [{ type: "InternalIP", address: host }];
  const status = { addresses, daemonEndpoints: { kubeletEndpoint: { Port: port } } };
  await must(api.patch(`/api/v1/nodes/${name}/status`, "merge", { status }));
}

const pods = "/api/v1/namespaces/default/pods";

async function pod(name: string, nodeName: string): Promise<void> {
  const { api } = served;
  const ports = [{ containerPort: container.port }];
  const spec = { nodeName, serviceAccountName: "", containers: [{ name: "c", image: "i", ports }] };
  await must(api.post(pods, { metadata: { name, labels: { app: name } }, spec }));
  const status = { phase: "Running", podIP: host, podIPs: [{ ip: host }] };
  await must(api.patch(`${pods}/${name}/status`, "merge", { status }));
}

describe("logs", () => {
  test("of a real node are its kubelet's, with the parameters of the request", async () => {
    kubelet.answer("/containerLogs/default/on-real/c", { body: "REAL-LOG-LINE\n" });
    const { code, text, headers } = await served.api.get(`${pods}/on-real/log?tailLines=2&timestamps=true&follow`);
    expect({ code, text }).toEqual({ code: 200, text: "REAL-LOG-LINE\n" });
    expect(headers["content-type"]).toBe("text/plain");
    const { url, user } = kubelet.seen.at(-1) ?? { url: "", user: "" };
    expect(user).toBe("kube-apiserver-kubelet-client");
    expect(Object.fromEntries(new URL(url, "http://k").searchParams)).toEqual({
      tailLines: "2",
      timestamps: "true",
      follow: "true",
    });
  });

  test("are refused with the kubelet's own sentence", async () => {
    kubelet.answer("/containerLogs/default/refused", { code: 400, body: "previous terminated container not found" });
    await pod("refused", "real");
    const { code, json } = await served.api.get(`${pods}/refused/log?previous=true`);
    expect({ code, reason: json.reason, message: json.message }).toEqual({
      code: 400,
      reason: "BadRequest",
      message: "previous terminated container not found",
    });
  });

  test("say what a kubelet needs that does not trust the cluster", async () => {
    kubelet.answer("/containerLogs/default/strange", { code: 401, body: "Unauthorized" });
    await pod("strange", "real");
    const { code, json } = await served.api.get(`${pods}/strange/log`);
    expect(code).toBe(500);
    expect(json.message).toContain("authentication.x509.clientCAFile");
  });

  test.each([
    ["on-played", 200, "a simulated line"],
    ["on-elsewhere", 501, "node elsewhere is simulated, but not by the process of this API server"],
    ["on-silent", 500, "the kubelet of node silent at https://"],
  ])("of %s are answered with %i", async (name, code, text) => {
    const answer = await served.api.get(`${pods}/${name}/log`);
    expect(answer.code).toBe(code);
    expect(answer.text).toContain(text);
  });

  test("of a pod whose node is gone are not found", async () => {
    await pod("orphan", "gone");
    expect((await served.api.get(`${pods}/orphan/log`)).code).toBe(404);
  });
});

/** Keeps what it is sent, without delay. */
class Kept extends Writable {
  private readonly parts: Buffer[] = [];

  override _write(part: Buffer, _: string, done: () => void): void {
    this.parts.push(part);
    done();
  }

  bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

interface Ran {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly status: V1Status;
}

/** Runs a command with the Kubernetes client for Node.js, over WebSocket. */
async function run(name: string, command: string[], input?: Buffer, tty = false): Promise<Ran> {
  const stdout = new Kept();
  const stderr = new Kept();
  const stdin = input === undefined ? null : new PassThrough();
  return new Promise((resolve, reject) => {
    const ended = (status: V1Status): void => resolve({ stdout: stdout.bytes(), stderr: stderr.bytes(), status });
    new Exec(config).exec("default", name, "c", command, stdout, tty ? null : stderr, stdin, tty, ended).then(() => {
      if (input !== undefined) stdin?.end(input);
    }, reject);
  });
}

describe("exec", () => {
  test("returns the bytes of both outputs and the status of the container", async () => {
    const { stdout, stderr, status } = await run("on-real", ["exit", "7"]);
    expect(stdout).toEqual(Buffer.from([0xff, 0x00, 0x41]));
    expect(stderr.toString()).toBe("to stderr");
    expect(status).toMatchObject({ status: "Failure", details: { causes: [{ reason: "ExitCode", message: "7" }] } });
  });

  test("ends the standard input of the command when the client's has ended", async () => {
    const input = Buffer.alloc(3_000_000, "0123456789");
    const { stdout, status } = await run("on-real", ["cat"], input);
    expect(stdout.equals(input)).toBe(true);
    expect(status.status).toBe("Success");
  });

  test("passes on an output that is larger than what a connection holds", async () => {
    const { stdout } = await run("on-real", ["flood", "20000000"]);
    expect(stdout.length).toBe(20_000_000);
  });

  test("reports a failure when the connection to the node is lost", async () => {
    const { status } = await run("on-real", ["drop"]);
    expect(status).toMatchObject({ status: "Failure", message: expect.stringContaining("connection to the node") });
  });

  test("is refused before the upgrade when the kubelet refuses", async () => {
    kubelet.answer("/exec/default/no-container", { code: 404, body: "container not found" });
    await pod("no-container", "real");
    await expect(run("no-container", ["true"])).rejects.toBeDefined();
    const { code, json } = await served.api.get(`${pods}/no-container/exec?command=true&stdout=true`);
    expect({ code, message: json.message }).toEqual({ code: 400, message: "Upgrade request required" });
  });
});

test("attach reaches the kubelet", async () => {
  const before = kubelet.seen.length;
  const socket = await new Attach(config).attach("default", "on-real", "c", new PassThrough(), null, null, false);
  socket.close();
  expect(kubelet.seen[before]?.url).toBe("/attach/default/on-real/c?output=1");
});

describe.skipIf(external === undefined)("a proxy (needs an address that is not loopback)", () => {
  test("of a node asks its kubelet", async () => {
    kubelet.answer("/healthz", { body: "ok" });
    const { code, text } = await served.api.get("/api/v1/nodes/real/proxy/healthz?verbose=1");
    expect({ code, text }).toEqual({ code: 200, text: "ok" });
    expect(kubelet.seen.at(-1)).toMatchObject({ url: "/healthz?verbose=1", user: "kube-apiserver-kubelet-client" });
    expect((await served.api.get(`/api/v1/nodes/real:${kubelet.port}/proxy/healthz`)).text).toBe("ok");
    expect((await served.api.get("/api/v1/nodes/played/proxy/healthz")).code).toBe(501);
  });

  test("of a pod forwards method, body and headers, and not the client's credentials", async () => {
    container.answer("/echo", { code: 201, headers: { "x-own": "1", connection: "close" }, body: "<{body}>" });
    const { code, text, headers } = await served.api.call(
      "PUT",
      `${pods}/on-real/proxy/echo/a%2Fb?x=y%20z`,
      undefined,
      {
        raw: "sent",
        headers: { "x-mine": "2" },
      },
    );
    expect({ code, text, own: headers["x-own"] }).toEqual({ code: 201, text: "<sent>", own: "1" });
    const seen = container.seen.at(-1);
    expect(seen).toMatchObject({ method: "PUT", url: "/echo/a%2Fb?x=y%20z", headers: { "x-mine": "2" } });
    expect(seen?.headers.authorization).toBeUndefined();
  });

  test("of a pod forwards every method", async () => {
    container.answer("/methods", { headers: { "x-own": "1" }, body: "" });
    for (const method of ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]) {
      const { code, headers } = await served.api.call(method, `${pods}/on-real/proxy/methods`);
      expect([method, code, headers["x-own"]]).toEqual([method, 200, "1"]);
      expect(container.seen.at(-1)?.method).toBe(method);
    }
  });

  test("of a Service chooses a ready endpoint", async () => {
    const { api } = served;
    const services = "/api/v1/namespaces/default/services";
    const spec = { ports: [{ name: "web", port: 80, targetPort: container.port }] };
    await must(api.post(services, { metadata: { name: "web" }, spec }));
    const slice = (name: string, ready: boolean, address: string): object => ({
      metadata: { name, labels: { "kubernetes.io/service-name": "web" } },
      addressType: "IPv4",
      ports: [{ name: "web", port: container.port }],
      endpoints: [{ addresses: [address], conditions: { ready } }],
    });
    const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    expect((await api.get(`${services}/web/proxy/page`)).code).toBe(503);
    await must(api.post(slices, slice("web-1", false, "192.0.2.77")));
    await must(api.post(slices, slice("web-2", true, host)));
    container.answer("/page", { body: "page" });
    for (const name of ["web", "web:80", "web:web", "http:web:80"])
      expect((await api.get(`${services}/${name}/proxy/page`)).text).toBe("page");
    expect((await api.get(`${services}/web:81/proxy/page`)).code).toBe(503);
    expect((await api.get(`${services}/ftp:web:80/proxy/page`)).code).toBe(400);
  });

  test("keeps the links of a page below its own path", async () => {
    const headers = { "content-type": "text/html; charset=utf-8" };
    container.answer("/links", { headers, body: `<a class="x" href="/next">n</a><img src='/i.png'><a href="rel">` });
    container.answer("/moved", { code: 302, headers: { location: "/there?a=b" }, body: "" });
    const base = `${pods}/on-real/proxy`;
    expect((await served.api.get(`${base}/links`)).text).toBe(
      `<a class="x" href="${base}/next">n</a><img src='${base}/i.png'><a href="rel">`,
    );
    expect((await served.api.get(`${base}/moved`)).headers.location).toBe(`${base}/there?a=b`);
    expect((await served.api.get(`${base}?q=1`)).headers.location).toBe(`${base}/?q=1`);
  });

  test("needs the right for its verb, and leads to no address of the server's own machine", async () => {
    const { api } = served;
    const denied = await api.call("GET", `${pods}/on-real/proxy/echo`, undefined, {
      headers: { "impersonate-user": "ann" },
    });
    expect(denied.code).toBe(403);
    for (const ip of ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "::ffff:127.0.0.1", "fe80::1"]) {
      await must(api.patch(`${pods}/on-silent/status`, "merge", { status: { podIP: ip, podIPs: [{ ip }] } }));
      const answer = await api.get(`${pods}/on-silent/proxy/echo`);
      expect({ ip, code: answer.code }).toEqual({ ip, code: 400 });
    }
  });
});

test("kubectl top reads a kubelet's measurements, and knows nothing of a kubelet that does not answer", async () => {
  const { api } = served;
  const { uid } = (await api.get(`${pods}/on-real`)).json.metadata;
  const measured = (nano: number): object => ({ cpu: { usageNanoCores: nano }, memory: { workingSetBytes: 4096 } });
  const summary = { node: measured(9), pods: [{ podRef: { uid }, containers: [{ name: "c", ...measured(3) }] }] };
  kubelet.answer("/stats/summary", { body: JSON.stringify(summary) });
  const metrics = "/apis/metrics.k8s.io/v1beta1";
  const nodes = (await api.get(`${metrics}/nodes`)).json.items;
  expect(nodes.map(({ metadata, usage }) => [metadata.name, usage])).toEqual([
    ["played", { cpu: "5n", memory: "1Ki" }],
    ["real", { cpu: "9n", memory: "4Ki" }],
  ]);
  expect((await api.get(`${metrics}/namespaces/default/pods/on-real`)).json["containers"]).toEqual([
    { name: "c", usage: { cpu: "3n", memory: "4Ki" } },
  ]);
  expect((await api.get(`${metrics}/namespaces/default/pods/on-silent`)).code).toBe(404);
});

test("a certificate that the cluster issued to another node is refused", async () => {
  const { pki } = served.server;
  const other = pki.issueClient("system:node:other", ["system:nodes"], Date.now());
  const thief = await scriptedKubelet(other, "0.0.0.0");
  thief.answer("/containerLogs", { body: "forged" });
  try {
    await node("victim", thief.port);
    await pod("on-victim", "victim");
    const { code, text } = await served.api.get(`${pods}/on-victim/log`);
    expect(code).toBe(500);
    expect(text).toContain("the certificate is that of system:node:other");
    expect(thief.seen).toEqual([]);
  } finally {
    await thief.stop();
  }
});
