/** What the terminal shows of a cluster: nodes with their GPUs, pending workloads, reasons, and faults with a target. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const folder = mkdtempSync(join(tmpdir(), "muster-views-"));
const { KUBECONFIG: _, ...env } = process.env;

function call(command: string, args: readonly string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: "utf8", env });
  return { code: status, out: stdout, err: stderr };
}
const muster = (...args: string[]) => call(process.execPath, [program, ...args]);
const kubectl = (...args: string[]) => call("kubectl", ["--kubeconfig", join(folder, ".muster/kubeconfig"), ...args]);

function pod(name: string, gpus: number): object {
  const resources = { limits: { "nvidia.com/gpu": String(gpus) } };
  const spec = { containers: [{ name: "c", image: "registry.example/train:1", resources }] };
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "default" }, spec };
}

beforeAll(() => {
  expect(muster("up", "--detach", "--port", "0", "--no-dashboard", "--pool", "h100=2").code).toBe(0);
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "too-big", namespace: "default" },
    spec: {
      template: {
        metadata: { labels: { "kai.scheduler/queue": "default-queue" } },
        spec: { ...(pod("x", 16) as { spec: object }).spec, schedulerName: "kai-scheduler", restartPolicy: "Never" },
      },
    },
  };
  const file = join(folder, "objects.json");
  writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: [pod("a", 3), job] }));
  expect(kubectl("apply", "-f", file).code).toBe(0);
  expect(kubectl("wait", "pod/a", "--for=condition=Ready", "--timeout=60s").code).toBe(0);
});
afterAll(() => {
  muster("down");
  rmSync(folder, { recursive: true, force: true });
});

describe("muster nodes", () => {
  test("has one row for each node with its GPUs", () => {
    const lines = muster("nodes").out.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NODE +TYPE +STATE +GPUS +FREE +UNHEALTHY +PODS$/);
    const rows = lines.slice(1, -1).map((line) => line.split(/ {2,}/));
    expect(rows.map(([name, , state, gpus]) => [name, state, gpus])).toEqual([
      ["h100-0", "Ready", "8"],
      ["h100-1", "Ready", "8"],
    ]);
    expect(rows.map(([, , , , free]) => Number(free)).sort()).toEqual([5, 8]);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });

  test("names the pods that hold GPUs with --wide", () => {
    expect(muster("nodes", "--wide").out).toContain("default/a (3)");
  });

  test("sums up by GPU type on request", () => {
    expect(muster("nodes", "--by-type").out).toMatch(/^TYPE +NODES +TOTAL +FREE +EMPTY-NODES/);
  });
});

describe("muster q", () => {
  test("shows the workload by its name, with queue and age, in 80 columns", () => {
    const { out } = muster("q");
    expect(out).toMatch(/^NAMESPACE +WORKLOAD +QUEUE +PRI +GPUS +PODS +STATE +AGE +REASON$/m);
    expect(out).toMatch(/^default +too-big +default-queue +\d+ +16 +0\/1\/1 +Pending +\d+\w* +\w+$/m);
  });

  test("is filtered by namespace and queue", () => {
    expect(muster("q", "-n", "elsewhere").out).toContain("no workload is pending");
    expect(muster("q", "--queue", "elsewhere").out).toContain("no workload is pending");
    expect(muster("q", "-n", "default", "--queue", "default-queue").out).toContain("too-big");
  });
});

describe("muster why", () => {
  test.each([
    ["job/too-big"],
    ["jobs.batch/too-big"],
    ["too-big"],
    ["default/too-big"],
    ["job/too-big", "-n", "default"],
  ])("answers for %s %s %s", (...args) => {
    const { code, out } = muster("why", ...args);
    expect([code, out]).toEqual([0, expect.stringContaining("16 GPUs")]);
  });

  test("answers for pod/NAME", () => {
    expect(muster("why", "pod/a").out).toMatch(/^Pod default\/a: .* on h100-/);
  });
});

describe("muster fault", () => {
  test("of pods without a target is refused", () => {
    const { code, err } = muster("fault", "crash-loop");
    expect([code, err]).toEqual([
      2,
      expect.stringContaining("would affect every pod of the cluster (fault-target-missing)"),
    ]);
  });

  test("with a target that matches no pod says so", () => {
    const { code, err } = muster("fault", "crash-loop", "--pod", "default/nope");
    expect([code, err]).toEqual([0, expect.stringContaining("no pod matches now")]);
    expect(muster("fault", "clear", "--all").code).toBe(0);
  });

  test("that is cleared uncordons its node", () => {
    expect(muster("fault", "cordon", "--node", "h100-1").code).toBe(0);
    const isCordoned = "--for=jsonpath={.spec.unschedulable}=true";
    expect(kubectl("wait", "node/h100-1", isCordoned, "--timeout=60s").code).toBe(0);
    expect(muster("fault", "clear", "--all").code).toBe(0);
    const isOpen = ["wait", "node/h100-1", "--for=jsonpath={.metadata.name}=h100-1", "--timeout=60s"];
    expect(kubectl(...isOpen).code).toBe(0);
    const untainted = (): boolean =>
      !kubectl("get", "node", "h100-1", "-o", "yaml").out.includes("unschedulable: true");
    let looks = 0;
    while (!untainted() && looks < 200) looks++;
    expect(untainted()).toBe(true);
  });
});

describe("a GPU that fails under a running pod", () => {
  test("is what why answers, with its cause", () => {
    const node = kubectl("get", "pod", "a", "-o", "jsonpath={.spec.nodeName}").out;
    expect(muster("fault", "gpu-unhealthy", "--node", node, "--device", "0").code).toBe(0);
    const health = "{.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}";
    expect(kubectl("wait", "pod/a", `--for=jsonpath=${health}=Unhealthy`, "--timeout=60s").code).toBe(0);
    const { code, out } = muster("why", "pod/a");
    expect(code).toBe(0);
    expect(out).toMatch(/DeviceUnhealthy: nvidia\.com\/gpu GPU-\S+ \(GPU 0 reported XID 79\) is unhealthy on h100-/);
    expect(out).toContain("kubectl delete pod -n default a");
    expect(muster("fault", "clear", "--all").code).toBe(0);
  });
});

describe("muster gangs", () => {
  test("of a saved cluster are those that it had", () => {
    expect(kubectl("apply", "-f", join(root, "examples/gangs/simple1.yaml")).code).toBe(0);
    const available = "--for=jsonpath={.status.availableReplicas}=1";
    expect(kubectl("wait", "podcliqueset/simple1", available, "--timeout=60s").code).toBe(0);
    const file = join(folder, "saved.json");
    expect(muster("snapshot", "save", file).code).toBe(0);
    const live = JSON.parse(muster("gangs", "-o", "json").out) as { gangs: { name: string }[] };
    const saved = JSON.parse(muster("gangs", "--snapshot", file, "-o", "json").out) as typeof live;
    expect(live.gangs.map(({ name }) => name)).toContain("simple1-0-pca");
    expect(saved.gangs).toEqual(live.gangs);
    expect(muster("gangs", "--snapshot", file, "-n", "other").out).toMatch(/^no gangs at revision/);
  });
});
