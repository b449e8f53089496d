/**
 * The roles of an installation, held against what the controllers ask for while the main flows are played: nothing is missing, and nothing is given
 * that is not used. `muster_api_requests_total` of the process says what it asked for.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { applyManifest } from "../../src/cli/cluster/applyManifests.ts";
import { compareRights } from "../../src/cli/install/compareRights.ts";
import { manifestsOf } from "../../src/cli/install/installManifests.ts";
import { readValues } from "../../src/cli/install/installValues.ts";

const root = join(import.meta.dirname, "../..");
const program = join(root, "dist/bundle/program/main.js");
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;
const account = "system:serviceaccount:muster-system:muster";

describe.skipIf(!hasKubectl)("the rights of an installation (needs kubectl on the PATH)", () => {
  let server: ApiServer;
  const folder = mkdtempSync(join(tmpdir(), "muster-rights-"));
  const admin = join(folder, "admin");
  const robot = join(folder, "robot");
  const children: ChildProcess[] = [];
  let status = "";
  let logged = "";

  beforeAll(async () => {
    const tokenFile = `robot,${account},robot,"system:serviceaccounts,system:authenticated"`;
    server = await startApiServer({ clock: systemClock(), random: systemRandom(), tokenFile });
    const user = { username: "admin", groups: ["system:masters"] };
    const kube = inProcessKube(server.core, { user, fieldManager: "test" });
    writeFileSync(admin, server.kubeconfig);
    const config = parse(server.kubeconfig) as { users: { user: unknown }[] };
    for (const each of config.users) each.user = { token: "robot" };
    writeFileSync(robot, stringify(config));
    await applyManifest(kube, server.core.registry, join(root, "deploy/muster.yaml"));
    await start("nodes", "sim", "--pool", "h100=2", "--kubeconfig", admin);
    // What every cluster has: Deployments, Jobs, claims from templates.
    const own = ["--controllers", "workloads,devices", "--status-address", "127.0.0.1:0"];
    await start("run", ...own, "--kubeconfig", admin);
    const ready = await start(
      ...["run", "--installed", "--leader-elect", "--lease-namespace", "muster-system", "--kubeconfig", robot],
      ...["--status-address", "127.0.0.1:0", "--webhook-host", "127.0.0.1", "--webhook-address", "127.0.0.1:0"],
    );
    status = (JSON.parse(ready) as { status: string }).status;
  });
  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL");
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(...flags: string[]): Promise<string> {
    const child = spawn(process.execPath, [program, ...flags, "-o", "json"], { stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    child.stderr.on("data", (chunk: Buffer) => {
      logged += chunk.toString();
    });
    const ended = once(child, "exit").then(() => {
      throw new Error(`it ended before it was ready: ${logged}`);
    });
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), ended]);
    return line as string;
  }

  test("are all that the main flows need, and the main flows need them all", async () => {
    const env = { ...process.env, HOME: folder, KUBECONFIG: admin };
    const flows = spawn(join(root, "test/run/flows/flows.sh"), { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [flows.stdout, flows.stderr]) stream.on("data", (chunk) => (said += chunk));
    const [code] = await once(flows, "close");
    expect([code, said]).toEqual([0, "all flows passed\n"]);

    const metrics = await (await fetch(`${status}/metrics`)).text();
    const used = new Set<string>();
    const forbidden: string[] = [];
    const series = /^muster_api_requests_total\{verb="(\w+)",resource="([^"]+)",code="([^"]+)"\}/gm;
    for (const [, verb, resource, answer] of metrics.matchAll(series)) {
      used.add(`${verb} ${resource}`);
      if (answer === "403") forbidden.push(`${verb} ${resource}`);
      // Since Kubernetes 1.36 both are checked for one write.
      if (resource === "resourceclaims.resource.k8s.io/status")
        used.add(`${verb} resourceclaims.resource.k8s.io/binding`);
    }
    expect(used.size).toBeGreaterThan(80);
    expect(forbidden).toEqual([]);
    const compared = compareRights(manifestsOf(await readValues(undefined), "muster-system"), used);
    expect({ missing: compared.missing, unused: compared.unused }).toEqual({ missing: [], unused: [] });
  });

  test("keep the process ready, and without them it says which one it lacks", async () => {
    const readyz = async (): Promise<string> => (await fetch(`${status}/readyz?verbose`)).text();
    expect(await readyz()).toContain("[+]rights ok");
    const user = { username: "admin", groups: ["system:masters"] };
    const kube = inProcessKube(server.core, { user, fieldManager: "test" });
    const bindings = { group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterrolebindings" };
    expect(await kube.delete({ ...bindings, namespace: "", name: "muster-scheduler" })).toMatchObject({ ok: true });
    const pods = { group: "", version: "v1", plural: "pods" };
    const labels = { "kai.scheduler/queue": "default-queue" };
    const metadata = { name: "late", namespace: "default", labels };
    const spec = { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] };
    await kube.create(pods, { apiVersion: "v1", kind: "Pod", metadata, spec } as never);
    while (!/\[-\]rights failed: no permission to .*pod/.test(await readyz())) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(logged).toContain("the API server forbids a request");
  });
});
