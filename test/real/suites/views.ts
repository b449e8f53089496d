/** What people ask, answered about a real cluster; and what the processes may do there. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unchangedIn } from "../kit/auditLog.ts";
import { type RealCluster, root } from "../kit/cluster.ts";
import { isRunning, podObject } from "../kit/objects.ts";
import { until } from "../kit/processes.ts";
import { own } from "./install.ts";

const account = "system:serviceaccount:muster-system:muster";

export function viewsSuite(cluster: RealCluster): void {
  describe("verify, why and snapshot", () => {
    const namespace = "views";
    const running = async (count: number): Promise<boolean> =>
      (await cluster.pods(namespace)).filter(isRunning).length === count;
    beforeAll(async () => {
      await cluster.namespace(namespace);
      const share = podObject("share", { annotations: { "gpu-fraction": "0.5" } });
      await cluster.apply(namespace, podObject("whole", { gpus: 2 }), share);
      await until(() => running(2));
    });
    afterAll(() => cluster.clean(namespace));

    test("verify passes while everything is placed, and fails with the reason of a pod that is not", async () => {
      const good = await cluster.muster("verify", "--settle", "20s");
      expect(good.code, good.out + good.err).toBe(0);
      await cluster.apply(namespace, podObject("too-big", { gpus: 64 }));
      const bad = await cluster.muster("verify", "--settle", "0");
      expect(bad.code).toBe(1);
      expect(bad.out).toContain("too-big");
    });

    test("why says what a pod lacks, and whether a share that runs is enforced", async () => {
      await until(async () => /64/.test((await cluster.muster("why", `${namespace}/too-big`)).out));
      expect((await cluster.muster("why", `${namespace}/share`)).out).toContain("its share is not enforced");
    });

    test("C4: why says what keeps a pod that is bound from starting, as its kubelet reports it", async () => {
      const container = { name: "c", image: "muster.invalid/none:1", imagePullPolicy: "Never" };
      await cluster.apply(namespace, podObject("no-image", { spec: { containers: [container] } }));
      const why = async (): Promise<string> => (await cluster.muster("why", `${namespace}/no-image`)).out;
      await until(async () => /ErrImageNeverPull: container c does not start on real-/.test(await why()), 60_000, why);
      await cluster.kubectl("-n", namespace, "delete", "pod", "no-image", "--wait=true");
    });

    test("a snapshot of one revision answers the same questions", async () => {
      const file = join(cluster.folder, "snapshot.json.gz");
      const saved = await cluster.muster("snapshot", "save", file);
      expect(saved.code, saved.err).toBe(0);
      const { out } = await cluster.muster("why", `${namespace}/too-big`, "--snapshot", file);
      expect(out).toContain("too-big");
      expect((await cluster.muster("verify", "--snapshot", file)).code).toBe(1);
    });

    test("A2: in everything above, no write of Muster's changed nothing", () => {
      expect(cluster.changes().length).toBeGreaterThan(100);
      expect(unchangedIn(cluster.changes())).toEqual([]);
    });

    test("A6, B3: in everything above, no request of Muster's account was forbidden", () => {
      expect(cluster.forbidden(account).map(({ verb, path }) => `${verb} ${path}`)).toEqual([]);
    });

    test("B3: its account leads neither into containers nor to the kubelet's API", async () => {
      const may = (...words: string[]): Promise<string> =>
        cluster.kubectl("auth", "can-i", ...words, "--as", account).catch((error: Error) => error.message);
      expect(await may("get", "nodes", "--subresource=proxy")).not.toMatch(/^yes/);
      expect(await may("get", "pods", "--subresource=exec")).not.toMatch(/^yes/);
    });

    test("the account of reservation pods may touch pods of its own namespace and nothing else", async () => {
      const agent = "system:serviceaccount:kai-resource-reservation:kai-resource-reservation";
      const may = async (...words: string[]): Promise<boolean> =>
        /^yes/.test(await cluster.kubectl("auth", "can-i", ...words, "--as", agent).catch(() => "no"));
      expect(await may("patch", "pods", "-n", "kai-resource-reservation")).toBe(true);
      expect(await may("patch", "pods", "-n", "default")).toBe(false);
      expect(await may("delete", "pods", "-n", "kai-resource-reservation")).toBe(false);
      expect(await may("get", "secrets", "-n", "kai-resource-reservation")).toBe(false);
    });
  });
}

export function outageSuite(cluster: RealCluster): void {
  describe("an outage of the API server", () => {
    const namespace = "outage";
    beforeAll(() => cluster.namespace(namespace));
    afterAll(() => cluster.clean(namespace));

    test("2, 5, 8: of 20 s ends by itself: the processes stay, log little, and place pods again", async () => {
      const restarts = async (): Promise<number> =>
        (await cluster.pods(own)).reduce(
          (sum, { status }) => sum + (status?.containerStatuses?.[0]?.restartCount ?? 0),
          0,
        );
      const before = await restarts();
      await cluster.plane.processes.stop("apiserver", "SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, 20_000));
      cluster.plane.startApiServer();
      await cluster.plane.untilReady();
      await until(async () => (await cluster.readyNodes()).length === cluster.nodes.length);
      await until(() => cluster.apply(namespace, podObject("after", { gpus: 1 })).then(() => true));
      await until(async () => (await cluster.pods(namespace)).some(isRunning), 90_000);
      expect(await restarts()).toBe(before);
      for (const { metadata } of await cluster.pods(own)) {
        const lines = (await cluster.logs(own, metadata.name, "--since=60s")).split("\n");
        expect(lines.length).toBeLessThan(300);
      }
    });

    test("12: a process that starts while the API server is away says so in one line without a stack", async () => {
      const wrong = join(cluster.folder, "nowhere");
      const config = readFileSync(cluster.plane.kubeconfig, "utf8").replace(/:\d+"/, ':1"');
      writeFileSync(wrong, config);
      const program = join(root, "dist/bundle/program/main.js");
      const flags = ["run", "--kubeconfig", wrong, "--status-address", "127.0.0.1:0"];
      const text = await new Promise<string>((resolve) => {
        const child = execFile(process.execPath, [program, ...flags], (_, out, err) => resolve(out + err));
        setTimeout(() => child.kill("SIGTERM"), 8_000);
      });
      expect(text).toMatch(/ECONNREFUSED|refused/);
      expect(text).not.toMatch(/\n\s+at /);
    });
  });
}

export function uninstallSuite(cluster: RealCluster): void {
  describe("uninstall", () => {
    test("B5: leaves nothing of Muster, and blocks nothing", async () => {
      const done = await cluster.muster("uninstall", "--crds");
      expect(done.code, done.out + done.err).toBe(0);
      await until(
        async () => !(await cluster.kubectl("get", "namespaces", "-o", "name")).includes(`/${own}`),
        120_000,
        () => cluster.kubectl("get", "all", "-n", own),
      );
      const left = await cluster.kubectl(
        "get",
        "crds,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,priorityclasses",
        "-l",
        "app.kubernetes.io/part-of=muster",
        "-o",
        "name",
      );
      expect(left).toBe("");
      const crds = await cluster.kubectl("get", "crds", "-o", "name");
      expect(crds).not.toMatch(/run\.ai|kai\.scheduler|grove\.io/);
      await cluster.apply("default", podObject("plain", { scheduler: "default-scheduler" }));
      await until(async () => (await cluster.pods("default")).some(isRunning));
    });
  });
}
