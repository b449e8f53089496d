import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { iamPolicy, manifestDefaults, printManifests } from "../../src/cli/inventory/manifests.ts";
import { readCluster } from "../../src/control/inventory/readCluster.ts";
import type { KubeObject, Unstored } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { node, pod } from "../../src/sim/inventory/builders.ts";
import { type ServerForClients, serverForClients } from "../clientNode/serverForClients.ts";

const root = join(import.meta.dirname, "../..");
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;
const folder = mkdtempSync(join(tmpdir(), "muster-kubectl-"));
let world: ServerForClients;
beforeAll(async () => {
  world = await serverForClients();
  writeFileSync(join(folder, "kubeconfig"), world.server.kubeconfig);
});
afterAll(async () => {
  await world.server.stop();
  rmSync(folder, { recursive: true, force: true });
});

function kubectl(...args: string[]): Promise<{ code: number | null; out: string }> {
  return new Promise((done) => {
    const child = spawn("kubectl", ["--kubeconfig", join(folder, "kubeconfig"), ...args], {
      env: { ...process.env, HOME: folder },
    });
    let out = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
    });
    child.stderr.on("data", (chunk) => {
      out += chunk;
    });
    child.once("close", (code) => done({ code, out }));
  });
}

describe("the manifests", () => {
  test("in deploy/ are what the command prints", () => {
    expect(readFileSync(join(root, "deploy/inventory.yaml"), "utf8")).toBe(printManifests(manifestDefaults));
    expect(JSON.parse(readFileSync(join(root, "deploy/inventory-iam.json"), "utf8"))).toEqual(
      iamPolicy(manifestDefaults),
    );
  });

  test("allow looking at AWS, and nothing else", () => {
    const { Statement } = iamPolicy(manifestDefaults) as { Statement: { Action: string | string[] }[] };
    for (const action of Statement.flatMap((each) => each.Action))
      expect(action).toMatch(/:(Describe|GetCallerIdentity)/);
  });
});

describe.skipIf(!hasKubectl)("operators with kubectl, on the embedded server", () => {
  const ours = ["-n", "gpu-controlplane"];

  test("apply the manifests, and see the CronJob with the documented settings", async () => {
    expect((await kubectl("create", "namespace", "gpu-controlplane")).code).toBe(0);
    const applied = await kubectl("apply", "-f", join(root, "deploy/inventory.yaml"));
    expect(applied).toMatchObject({ code: 0 });
    const listed = await kubectl("get", "cronjob", "availability-updater", ...ours);
    expect(listed.out).toMatch(/availability-updater\s+\*\/5 \* \* \* \*\s+<none>\s+False/);
    const { out } = await kubectl("get", "cronjob", "availability-updater", ...ours, "-o", "json");
    expect(JSON.parse(out)).toMatchObject({
      spec: {
        concurrencyPolicy: "Forbid",
        successfulJobsHistoryLimit: 3,
        failedJobsHistoryLimit: 3,
        jobTemplate: { spec: { activeDeadlineSeconds: 600, backoffLimit: 0 } },
      },
    });
  });

  test("start a run by hand", async () => {
    const made = await kubectl("create", "job", "--from=cronjob/availability-updater", "manual-1", ...ours);
    expect(made).toMatchObject({ code: 0 });
    const { out } = await kubectl(
      "get",
      "job",
      "manual-1",
      ...ours,
      "-o",
      "jsonpath={.metadata.labels.app} {.spec.template.spec.containers[0].args}",
    );
    expect(out).toContain("availability-updater");
    expect(out).toContain("--once");
  });

  test("suspend it and let it go on", async () => {
    for (const suspend of [true, false]) {
      const patched = await kubectl(
        "patch",
        "cronjob",
        "availability-updater",
        ...ours,
        "-p",
        JSON.stringify({ spec: { suspend } }),
      );
      expect(patched).toMatchObject({ code: 0 });
      const { out } = await kubectl(
        "get",
        "cronjob",
        "availability-updater",
        ...ours,
        "-o",
        "jsonpath={.spec.suspend}",
      );
      expect(out).toBe(String(suspend));
    }
  });

  test("list the runs that have not succeeded", async () => {
    const { code, out } = await kubectl(
      "get",
      "jobs",
      ...ours,
      "-l",
      "app=availability-updater",
      "--field-selector",
      "status.successful!=1",
    );
    expect({ code, out }).toMatchObject({ code: 0 });
    expect(out).toContain("manual-1");
    const done = await kubectl(
      "get",
      "jobs",
      ...ours,
      "-l",
      "app=availability-updater",
      "--field-selector",
      "status.successful=1",
    );
    expect(done.out).not.toContain("manual-1");
  });
});

test("a cluster is read at one revision from its API", async () => {
  const kube = inProcessKube(world.server.core, {
    user: { username: "test", groups: ["system:masters"] },
    fieldManager: "test",
  });
  const strip = (object: object): Unstored => {
    const { metadata, ...rest } = object as KubeObject;
    const { uid: _, resourceVersion: __, creationTimestamp: ___, ...kept } = metadata;
    return { ...rest, metadata: kept };
  };
  const made = await kube.create(builtin.Node, strip(node("n1", "h100")));
  expect(made.ok).toBe(true);
  const { status: _, ...bare } = strip(
    pod("p1", "n1", 3, {
      spec: {
        containers: [
          {
            name: "main",
            image: "x",
            resources: { requests: { "nvidia.com/gpu": "3" }, limits: { "nvidia.com/gpu": "3" } },
          },
        ],
      },
    }),
  );
  const placed = await kube.create(builtin.Pod, bare as KubeObject);
  expect(placed.ok ? "" : placed.message).toBe("");
  const read = await readCluster(kube);
  expect(read.ok && read.value.nodes.map(({ metadata }) => metadata.name)).toEqual(["n1"]);
  expect(read.ok && read.value.pods.map(({ metadata }) => metadata.name)).toEqual(["p1"]);
});
