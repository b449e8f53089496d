/**
 * The command as people run it: a process of its own against a server, with its exit code, its two outputs and its
 * files.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { readKinds } from "../../src/decide/verify/readKinds.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { node, pod } from "./builders.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const program = join(root, "dist/bundle/program/main.js");
const podRef = builtin.Pod;
const nodeRef = builtin.Node;

let folder: string;
let server: ApiServer;
let kube: KubeApi;
let kubeconfig: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "muster-verify-"));
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tokenFile: "reader,reader,reader" });
  kube = inProcessKube(server.core, { user: { username: "test", groups: ["system:masters"] }, fieldManager: "test" });
  kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, server.kubeconfig, { mode: 0o600 });
  await make(builtin.Namespace, named("v1", "Namespace", "team"));
  await make(nodeRef, node("n1"));
  await makePod("team/a", "n1", "Running");
  await makePod("team/b", "n1", "Running");
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const named = (apiVersion: string, kind: string, name: string): KubeObject =>
  ({ apiVersion, kind, metadata: { name } }) as KubeObject;

async function make(ref: Resource, object: KubeObject): Promise<KubeObject> {
  const { uid: _, resourceVersion: __, creationTimestamp: ___, ...metadata } = object.metadata;
  const made = await kube.create(ref, { ...object, metadata } as KubeObject);
  if (!made.ok) throw new Error(made.message);
  return made.value;
}

async function makePod(key: string, onNode: string, phase: string): Promise<void> {
  const made = await make(podRef, pod(key, { node: onNode }));
  const ref = { ...podRef, namespace: made.metadata.namespace ?? "", name: made.metadata.name, subresource: "status" };
  const updated = await kube.update(ref, { ...made, status: { phase } });
  if (!updated.ok) throw new Error(updated.message);
}

async function without(key: string, run: () => Promise<void>, onNode = ""): Promise<void> {
  await make(podRef, pod(key, { node: onNode }));
  const [namespace = "", name = ""] = key.split("/");
  try {
    await run();
  } finally {
    await kube.delete({ ...podRef, namespace, name }, { gracePeriodSeconds: 0 });
  }
}

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function start(args: readonly string[], env: Record<string, string> = {}): { child: ChildProcess; done: Promise<Ran> } {
  const { KUBECONFIG: _, GITHUB_ACTIONS: __, GITHUB_STEP_SUMMARY: ___, ...clean } = process.env;
  const child = spawn(process.execPath, [program, ...args], { cwd: folder, env: { ...clean, HOME: folder, ...env } });
  let out = "";
  let err = "";
  child.stdout.on("data", (text) => {
    out += text;
  });
  child.stderr.on("data", (text) => {
    err += text;
  });
  const done = new Promise<Ran>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out, err }));
  });
  return { child, done };
}

const verify = (args: readonly string[], env?: Record<string, string>): Promise<Ran> =>
  start(["verify", "--kubeconfig", kubeconfig, ...args], env).done;

describe("a cluster that is scheduled", () => {
  test("passes, and -o json is one object on standard output", async () => {
    const text = await verify([]);
    expect(text).toMatchObject({ code: 0, err: "" });
    expect(text.out).toContain("Pod status: 2 total, 2 running, 0 pending (0 unscheduled), 0 failed (attempts=1");
    const json = await verify(["-o", "json"]);
    expect(json.code).toBe(0);
    expect(JSON.parse(json.out)).toMatchObject({
      verdict: "pass",
      exitCode: 0,
      counts: { total: 2, running: 2 },
      snapshot: { coherent: true },
      distribution: { n1: 2 },
    });
  });

  test("can be saved as a file, which gives the same verdict without the cluster, again and again", async () => {
    for (const name of ["cluster.json", "cluster.json.gz"]) {
      const saved = await start(["snapshot", "save", name, "--kubeconfig", kubeconfig]).done;
      expect(saved).toMatchObject({ code: 0, err: "" });
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
      const first = await start(["verify", "--snapshot", name, "-o", "json"]).done;
      const second = await start(["verify", "--snapshot", name, "-o", "json"]).done;
      expect(first.code).toBe(0);
      expect(second.out).toBe(first.out);
      expect(JSON.parse(first.out)).toMatchObject({ verdict: "pass", counts: { total: 2, running: 2 }, wallMs: 0 });
    }
  });

  test("may be looked at with the rights of the ClusterRole that is shipped, and with less may not", async () => {
    const { clusters } = parse(server.kubeconfig) as { clusters: unknown[] };
    const mine = join(folder, "reader");
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters,
      users: [{ name: "reader", user: { token: "reader" } }],
      contexts: [{ name: "c", context: { cluster: (clusters[0] as { name: string }).name, user: "reader" } }],
      "current-context": "c",
    };
    writeFileSync(mine, JSON.stringify(config));
    const before = await start(["verify", "--kubeconfig", mine, "--settle", "0"]).done;
    expect(before.code).toBe(3);
    expect(before.err).toContain("Failed to list pods");
    expect(before.err).toContain("deploy/verify-clusterrole.yaml");
    const role = parse(readFileSync(join(root, "deploy/verify-clusterrole.yaml"), "utf8")) as KubeObject;
    const rbac = { group: "rbac.authorization.k8s.io", version: "v1" };
    await make({ ...rbac, plural: "clusterroles" }, role);
    await make({ ...rbac, plural: "clusterrolebindings" }, {
      ...named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "reader"),
      roleRef: { apiGroup: rbac.group, kind: "ClusterRole", name: role.metadata.name },
      subjects: [{ apiGroup: rbac.group, kind: "User", name: "reader" }],
    } as KubeObject);
    const after = await start(["verify", "--kubeconfig", mine, "--settle", "0", "--check", "all", "gitops"]).done;
    expect(after.code).toBe(50); // The gate is among all checks, and there is nothing behind it: rights were enough.
    expect((await start(["verify", "--kubeconfig", mine]).done).code).toBe(0);
    const saved = await start(["snapshot", "save", "mine.json", "--kubeconfig", mine]).done;
    expect(saved).toMatchObject({ code: 0, err: "" });
  });

  test("the ClusterRole names every kind that a snapshot may hold, and no verb that writes", () => {
    const { rules } = parse(readFileSync(join(root, "deploy/verify-clusterrole.yaml"), "utf8")) as {
      rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[];
    };
    const may = new Set(
      rules.flatMap((rule) => rule.apiGroups.flatMap((group) => rule.resources.map((name) => `${group}/${name}`))),
    );
    expect([...may].sort()).toEqual(
      Object.values(readKinds)
        .map(({ group, plural }) => `${group}/${plural}`)
        .sort(),
    );
    for (const { verbs } of rules) expect(verbs).toEqual(["get", "list", "watch"]);
  });
});

describe("a cluster that is not", () => {
  test("fails when the window is over, and names the pod", async () => {
    await without("team/waits", async () => {
      const { code, out } = await verify(["--settle", "5s", "--interval", "1s"]);
      expect(code).toBe(1);
      expect(out).toContain("Attempt 1: 3 total, 2 running, 1 pending (1 unscheduled), 0 failed");
      expect(out).toContain("team/waits Pending <none>");
      expect(out).toContain("no FailedScheduling event: no scheduler has tried the pod");
    });
  });

  test("is looked at again as soon as its pod is bound", async () => {
    await without("team/late", async () => {
      const run = start(["verify", "--kubeconfig", kubeconfig, "--settle", "60s", "--interval", "30s"]);
      await new Promise<void>((resolve) => run.child.stdout?.once("data", () => resolve()));
      const found = await kube.get({ ...podRef, namespace: "team", name: "late" });
      if (!found.ok) throw new Error(found.message);
      await kube.bind({ ...podRef, namespace: "team", name: "late" }, { node: "n1", uid: found.value.metadata.uid });
      const { code, out } = await run.done;
      expect(code).toBe(0);
      // Far less than the interval of thirty seconds, so it was the watch that ended the wait.
      expect(Number(/waited=([0-9.]+)s\)/.exec(out)?.[1])).toBeLessThan(20);
      expect(out).toContain("attempts=2");
    });
  });
});

describe("reports", () => {
  const reports = ["text=r.txt", "json=r.json", "ctrf=r.ctrf.json", "junit=r.xml", "github=r.md"];

  test("are files in every format, together", async () => {
    const { code } = await verify(reports.flatMap((report) => ["--report", report]));
    expect(code).toBe(0);
    expect(readFileSync(join(folder, "r.txt"), "utf8")).toContain("Scheduling validation PASSED");
    expect(JSON.parse(readFileSync(join(folder, "r.json"), "utf8"))).toMatchObject({ verdict: "pass" });
    expect(JSON.parse(readFileSync(join(folder, "r.ctrf.json"), "utf8"))).toMatchObject({ reportFormat: "CTRF" });
    expect(readFileSync(join(folder, "r.xml"), "utf8")).toContain("<testsuites");
    expect(readFileSync(join(folder, "r.md"), "utf8")).toContain("## muster verify: pass");
  });

  test("are alone on standard output: the text report is on standard error", async () => {
    await without("team/alone", async () => {
      const { code, out, err } = await verify(["--settle", "5s", "--interval", "1s", "--report", "ctrf=-"]);
      expect(code).toBe(1);
      expect(JSON.parse(out)).toMatchObject({ reportFormat: "CTRF" });
      expect(err).toContain("Attempt 1:");
      expect(err).toContain("Scheduling validation FAILED");
    });
  });

  test("go to GitHub when the run is there: annotations to the output, a summary to its file", async () => {
    await without("team/gh", async () => {
      const summary = join(folder, "summary.md");
      writeFileSync(summary, "before\n");
      const env = { GITHUB_ACTIONS: "true", GITHUB_STEP_SUMMARY: summary };
      const { code, out } = await verify(["--settle", "0"], env);
      expect(code).toBe(1);
      expect(out).toContain("::error title=muster verify S1::pods/team/gh: has no node");
      expect(readFileSync(summary, "utf8")).toMatch(/^before\n## muster verify: fail/);
    });
  });

  test("that cannot be written are reported and change nothing", async () => {
    const { code, err, out } = await verify(["--report", "junit=/dev/null/x.xml", "--report", "json=ok.json"]);
    expect(code).toBe(0);
    expect(err).toContain("the report /dev/null/x.xml could not be written");
    expect(out).toContain("PASSED");
    expect(existsSync(join(folder, "ok.json"))).toBe(true);
  });

  test("are on the disk before the first line of the verdict is printed", async () => {
    rmSync(join(folder, "first.json"), { force: true });
    const run = start(["verify", "--kubeconfig", kubeconfig, "--report", "json=first.json"]);
    const seen = new Promise<boolean>((resolve) =>
      run.child.stdout?.once("data", () => resolve(existsSync(join(folder, "first.json")))),
    );
    expect(await seen).toBe(true);
    expect((await run.done).code).toBe(0);
  });

  test("a closed output pipe changes nothing: the exit code is the verdict", async () => {
    const run = start(["verify", "--kubeconfig", kubeconfig, "--report", "json=cut.json"]);
    run.child.stdout?.destroy();
    expect((await run.done).code).toBe(0);
    await without("team/cut", async () => {
      const failing = start(["verify", "--kubeconfig", kubeconfig, "--settle", "0"]);
      failing.child.stdout?.destroy();
      expect((await failing.done).code).toBe(1);
    });
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const)("%s leaves a report of status other and exit code %d", async (signal, code) => {
    await without("team/waits", async () => {
      const file = `${signal}.json`;
      const run = start(["verify", "--kubeconfig", kubeconfig, "--report", `ctrf=${file}`]);
      await new Promise<void>((resolve) => run.child.stdout?.once("data", () => resolve()));
      run.child.kill(signal);
      expect((await run.done).code).toBe(code);
      const report = JSON.parse(readFileSync(join(folder, file), "utf8")) as { results: object };
      expect(report.results).toMatchObject({ summary: { other: 1, failed: 0 }, tests: [{ status: "other" }] });
    });
  });

  test("of a failed set-up: one entry, status other, exit 3", async () => {
    const args = ["verify", "--kubeconfig", "nowhere", "--report", "ctrf=setup.json", "--report", "junit=setup.xml"];
    const { code, err } = await start(args).done;
    expect(code).toBe(3);
    expect(err).toContain("no kubeconfig at nowhere (kubeconfig-missing)");
    const report = JSON.parse(readFileSync(join(folder, "setup.json"), "utf8")) as { results: object };
    expect(report.results).toMatchObject({ tests: [{ name: expect.stringMatching(/^setup /), status: "other" }] });
    expect(readFileSync(join(folder, "setup.xml"), "utf8")).toContain("<error message=");
  });
});

describe("usage", () => {
  test.each([
    [["--settle", "-1"], "--settle must be a duration", 2],
    [["--interval", "500ms"], "--interval must be at least 1 second", 2],
    [["--check", "S99"], "there is no check", 2],
    [["--report", "pdf=x"], "invalid value of --report", 2],
    [["--until", "soon"], "--until must be a time", 2],
    [["--profile", "h900"], "no node profile is named", 2],
    [["--nonsense"], "unknown option", 2],
    [["--check", "S1", "--expect-workload", "web"], "--expect-workload needs check S13", 2],
    [["--check", "S1", "--profile", "h100"], "--profile needs check S11", 2],
    [["--gitops-root", "stack"], "--gitops-root needs check gitops", 2],
    [["--snapshot", "x.json", "--check", "gang-barrier"], "--check gang-barrier needs a cluster", 2],
    [["--report", "ctrf=-", "-o", "json"], "several reports would go to standard output", 2],
    [["--settle", "abc", "--compat", "aicr"], "--settle must be a duration", 1],
  ])("%j ends with code and cure before any call", async (args, message, code) => {
    const ran = await verify(args);
    expect(ran.code).toBe(code);
    expect(ran.err).toContain(message);
    expect(ran.out).toBe("");
  });

  test("too little time until the end is refused at once", async () => {
    const until = String(Math.floor(Date.now() / 1000) + 20);
    const { code, err } = await verify(["--until", until]);
    expect(code).toBe(3);
    expect(err).toMatch(/only [0-9]+s are left until --until, and 30s are reserved for the report/);
  });

  test("an active proof refuses a cluster that was not named", async () => {
    const { code, err } = await verify(["--check", "gang-barrier"]);
    expect(code).toBe(3);
    expect(err).toContain("refusing to run");
  });
});

describe("an API that does not answer as it should ends in 3, with the cause, within the window", () => {
  const window = ["--settle", "2s", "--interval", "1s"];
  const list = JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: { resourceVersion: "7" }, items: [] });
  const answers: { name: string; cause: string; atOnce?: true; answer: RequestListener }[] = [
    {
      name: "401",
      cause: "Unauthorized",
      atOnce: true,
      answer: (_, response) => status(response, 401, "Unauthorized"),
    },
    {
      name: "403",
      cause: "pods is forbidden",
      atOnce: true,
      answer: (_, response) => status(response, 403, "Forbidden"),
    },
    {
      name: "half an answer",
      cause: "Failed to list pods",
      answer: (_, response) => {
        response.writeHead(200, { "Content-Type": "application/json", "Content-Length": String(list.length) });
        response.write(list.slice(0, 20), () => response.destroy());
      },
    },
    {
      name: "broken JSON",
      cause: "HTTP 200 with an answer that is no object",
      answer: (_, response) => {
        response.writeHead(200, { "Content-Type": "application/json" });
        response.end(list.slice(0, 20));
      },
    },
    {
      name: "a pod that cannot be",
      cause: "verify itself failed",
      atOnce: true,
      answer: ({ url = "" }, response) => {
        const metadata = { name: "p", namespace: "team", uid: "p", ownerReferences: {} };
        const items = url.startsWith("/api/v1/pods") ? [{ metadata, status: { phase: "Pending" } }] : [];
        response.writeHead(200, { "Content-Type": "application/json" });
        response.end(JSON.stringify({ kind: "List", apiVersion: "v1", metadata: { resourceVersion: "7" }, items }));
      },
    },
  ];
  const status = (response: Parameters<RequestListener>[1], code: number, reason: string): void => {
    const message = code === 403 ? "pods is forbidden: no" : reason;
    response.writeHead(code, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", message, reason, code }));
  };

  test.each(answers)("$name", async ({ cause, atOnce, answer }) => {
    const fake: Server = createServer(answer);
    await new Promise<void>((resolve) => fake.listen(0, "127.0.0.1", resolve));
    try {
      const startedMs = Date.now();
      const ran = await start(["verify", "--kubeconfig", pointedAt((fake.address() as AddressInfo).port), ...window])
        .done;
      expect(ran.code).toBe(3);
      expect(ran.err).toContain(cause);
      expect(ran.out).not.toContain("Pod status");
      // The window of two seconds, the slack for the last look, and a slow machine.
      expect(Date.now() - startedMs).toBeLessThan(atOnce ? 15_000 : 30_000);
    } finally {
      fake.closeAllConnections();
      fake.close();
    }
  });

  test("no server listens", async () => {
    const fake = createServer();
    await new Promise<void>((resolve) => fake.listen(0, "127.0.0.1", resolve));
    const { port } = fake.address() as AddressInfo;
    await new Promise<void>((resolve) => fake.close(() => resolve()));
    const ran = await start(["verify", "--kubeconfig", pointedAt(port), ...window]).done;
    expect(ran.code).toBe(3);
    expect(ran.err).toContain("ECONNREFUSED");
    const compat = await start(["verify", "--kubeconfig", pointedAt(port), ...window, "--compat", "aicr"]).done;
    expect(compat.code).toBe(1);
  });

  function pointedAt(port: number): string {
    const file = join(folder, `fake-${port}`);
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [],
      contexts: [{ name: "c", context: { cluster: "c" } }],
      "current-context": "c",
    };
    writeFileSync(file, JSON.stringify(config));
    return file;
  }
});
