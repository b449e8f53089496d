/** Faults that are planted in a whole cluster as `muster up` runs it, and what the command says and returns. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { loadKubeconfig } from "../../src/adapters/kubernetes/kubeconfig.ts";
import { type KubeHttp, kubeHttp } from "../../src/adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../src/adapters/pinoLog.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import type { AuditResult } from "../../src/decide/audit/auditResult.ts";
import { auditKinds, readKind } from "../../src/decide/verify/readKinds.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { resource } from "../../src/model/objects/resource.ts";
import { freePort } from "../freePort.ts";

const program = fileURLToPath(new URL("../../dist/bundle/program/main.js", import.meta.url));
let folder: string;
let up: ChildProcess;
let kube: KubeHttp;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "muster-audit-up-"));
  up = spawn(process.execPath, [program, "up", "--memory", "--port", "0", "-o", "json"], { cwd: folder });
  await new Promise<void>((resolve, reject) => {
    up.stdout?.once("data", () => resolve());
    up.once("exit", (code) => reject(new Error(`muster up ended with ${code}`)));
  });
  const connection = await loadKubeconfig({ path: join(folder, ".muster/kubeconfig") });
  kube = kubeHttp(connection, { clock: systemClock(), log: pinoLog({ level: "error" }) }, { fieldManager: "test" });
});
afterAll(async () => {
  kube.close();
  const gone = new Promise((resolve) => up.once("exit", resolve));
  up.kill("SIGTERM");
  await gone;
  rmSync(folder, { recursive: true, force: true });
});

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function muster(...args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { cwd: folder }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
    });
  });
}

async function audit(...args: readonly string[]): Promise<AuditResult> {
  return JSON.parse((await muster("audit", "-o", "json", ...args)).stdout) as AuditResult;
}

async function make(apiVersion: string, kind: string, plural: string, fields: object): Promise<void> {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const made = await kube.create(resource(group ?? "", version ?? "", plural), {
    apiVersion,
    kind,
    ...fields,
  } as KubeObject);
  if (!made.ok) throw new Error(made.message);
}

const rbac = "rbac.authorization.k8s.io";

test("a cluster that has just started passes, with one snapshot", async () => {
  const { code, stdout } = await muster("audit");
  expect({ code, stdout }).toMatchObject({ code: 0 });
  expect(stdout).toContain("Audit PASSED: 25 checks");
  expect(stdout).toContain("snapshots=1");
});

test("planted faults are found, and those that the cluster repairs are not", async () => {
  await muster("snapshot", "save", "before.json");
  await make("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", {
    metadata: { name: "left-behind" },
    webhooks: [
      {
        name: "left.example.com",
        clientConfig: { service: { namespace: "default", name: "gone" } },
        rules: [{ apiGroups: ["example.com"], apiVersions: ["v1"], resources: ["x"], operations: ["CREATE"] }],
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
      },
    ],
  });
  await make("scheduling.run.ai/v2", "Queue", "queues", {
    metadata: { name: "lost" },
    spec: { parentQueue: "gone", resources: { gpu: { quota: 8, limit: 4 } } },
  });
  await make("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups", {
    metadata: { name: "train", namespace: "default" },
    spec: { minMember: 1, queue: "misspelt" },
  });
  await make("v1", "Pod", "pods", {
    metadata: { name: "waits", namespace: "default", annotations: { "pod-group-name": "train" } },
    spec: { schedulerName: "kai-scheduler", containers: [{ name: "main", image: "x" }] },
  });
  await make(`${rbac}/v1`, "ClusterRole", "clusterroles", {
    metadata: { name: "my-scheduler" },
    rules: [
      { apiGroups: [""], resources: ["pods/binding"], verbs: ["create"] },
      { apiGroups: [""], resources: ["secrets"], verbs: ["list"] },
    ],
  });
  await make(`${rbac}/v1`, "ClusterRoleBinding", "clusterrolebindings", {
    metadata: { name: "my-scheduler" },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "my-scheduler" },
    subjects: [{ kind: "ServiceAccount", namespace: "default", name: "sched" }],
  });
  const planted = [
    "podgroup-stuck podgroups/default/train",
    "queue-quota queues/lost",
    "queue-quota queues/lost",
    "webhook-without-backend validatingwebhookconfigurations/left-behind",
    "scheduler-rights serviceaccounts/default/sched",
  ];
  const found = (result: AuditResult): string[] =>
    result.checks.flatMap(({ name, findings }) => findings.map(({ object }) => `${name} ${object}`));

  const live = await audit("--settle", "2s", "--interval", "1s");
  expect(live).toMatchObject({ verdict: "fail", exitCode: 1, snapshot: { coherent: true } });
  expect(found(live)).toEqual(planted);
  expect(live.waitedMs).toBeGreaterThanOrEqual(2_000);

  await muster("snapshot", "save", "after.json");
  expect(found(await audit("--snapshot", "after.json"))).toEqual(planted);
  // What the earlier file does not have is not reported.
  expect(await audit("--snapshot", "after.json", "before.json")).toMatchObject({ verdict: "pass", looks: 2 });

  const reported = await muster(
    "audit",
    "--settle",
    "0",
    ...["ctrf=a.json", "junit=a.xml", "sarif=a.sarif", "text=a.txt"].flatMap((each) => ["--report", each]),
  );
  expect(reported.code).toBe(1);
  const read = (name: string): string => readFileSync(join(folder, name), "utf8");
  expect(JSON.parse(read("a.json"))).toMatchObject({
    generatedBy: "muster audit",
    results: { summary: { failed: 4 } },
  });
  expect(read("a.xml")).toContain('<testsuites name="muster audit" tests="25" failures="4" errors="0"');
  const sarif = JSON.parse(read("a.sarif")) as { runs: [{ results: { ruleId: string }[] }] };
  expect(sarif.runs[0].results.map(({ ruleId }) => ruleId)).toEqual(planted.map((each) => each.split(" ")[0]));
  expect(read("a.txt")).toBe(reported.stdout);
});

test("the role that is printed is enough, and without it the checks are unknown", async () => {
  const config = parse(readFileSync(join(folder, ".muster/kubeconfig"), "utf8")) as { users: { name: string }[] };
  const impersonated = config.users.map(({ name, ...rest }) => ({
    name,
    ...rest,
    user: { ...(rest as { user: object }).user, as: "auditor" },
  }));
  writeFileSync(join(folder, "auditor"), JSON.stringify({ ...config, users: impersonated }));
  const flags = ["--kubeconfig", "auditor", "--settle", "0"];

  const nothing = await audit(...flags);
  expect(nothing).toMatchObject({ verdict: "unknown", exitCode: 3 });
  expect(nothing.checks.map(({ status }) => status)).toEqual(nothing.checks.map(() => "unknown"));

  const printed = await muster("audit", "--print-role");
  expect(printed).toMatchObject({ code: 0, stderr: "" });
  const role = parse(printed.stdout) as { rules: { verbs: string[]; resources: string[] }[] };
  for (const { verbs } of role.rules) expect(verbs).toEqual(["list"]);
  for (const kind of auditKinds) {
    expect(role.rules.flatMap(({ resources }) => resources)).toContain(readKind(kind).plural);
  }
  await make(`${rbac}/v1`, "ClusterRole", "clusterroles", role);
  await make(`${rbac}/v1`, "ClusterRoleBinding", "clusterrolebindings", {
    metadata: { name: "auditor" },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "muster-audit" },
    subjects: [{ apiGroup: rbac, kind: "User", name: "auditor" }],
  });
  const enough = await audit(...flags);
  expect(enough.checks.filter(({ status }) => status === "unknown")).toEqual([]);
});

test("the manifests in deploy/ are accepted", async () => {
  await make("v1", "Namespace", "namespaces", { metadata: { name: "muster-system" } });
  const text = readFileSync(fileURLToPath(new URL("../../deploy/audit.yaml", import.meta.url)), "utf8");
  for (const document of parseAllDocuments(text)) {
    const { apiVersion, kind, ...fields } = document.toJS() as KubeObject;
    if (kind === "CronJob" || kind === "Deployment") await make(apiVersion, kind, `${kind.toLowerCase()}s`, fields);
  }
});

test("a watch says what persists, serves metrics, and ends with a signal", async () => {
  const port = await freePort();
  const watch = spawn(
    process.execPath,
    [
      ...[program, "audit", "--watch", "--settle", "1s", "--interval", "1s", "--check", "queue-quota", "-o", "json"],
      ...["--metrics-address", `127.0.0.1:${port}`],
    ],
    { cwd: folder },
  );
  const lines: string[] = [];
  await new Promise<void>((resolve) =>
    watch.stdout.on("data", (data: Buffer) => {
      lines.push(...data.toString().trim().split("\n"));
      if (lines.length >= 2) resolve();
    }),
  );
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(metrics).toContain('muster_audit_findings{check="queue-quota"} 2');
  expect(metrics).toContain('muster_audit_unknown{check="queue-quota"} 0');
  const gone = new Promise((resolve) => watch.once("exit", resolve));
  watch.kill("SIGTERM");
  expect(await gone).toBe(143);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ event: "found", check: "queue-quota", object: "queues/lost" });
});

test("wrong flags are usage errors", async () => {
  expect(await muster("audit", "--check", "none")).toMatchObject({ code: 2, stdout: "" });
  expect((await muster("audit", "--snapshot", "a", "b", "c")).stderr).toContain("3 snapshots cannot be compared");
  expect(await muster("audit", "--snapshot", "a", "--watch")).toMatchObject({ code: 2 });
  expect(await muster("audit", "--metrics-address", "127.0.0.1:0")).toMatchObject({ code: 2 });
  expect(await muster("audit", "--interval", "10ms")).toMatchObject({ code: 2 });
  expect(await muster("audit", "--snapshot", "missing.json")).toMatchObject({ code: 3 });
});
