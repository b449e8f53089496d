/**
 * Faults under load, on a real control plane with simulated nodes: the leader is killed, the API server goes away, the
 * API server has few seats. The audit log has every bind. Times are printed; only what may never happen fails.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Lease, Node } from "../../../src/model/kubernetes.generated.ts";
import type { Unstored } from "../../../src/model/objects/object.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import type { AuditLine } from "../kit/auditLog.ts";
import { Burst } from "../kit/burst.ts";
import { RealCluster } from "../kit/cluster.ts";
import { print, say } from "../kit/figures.ts";
import { freePorts, until } from "../kit/processes.ts";

const isLong = process.env["MUSTER_LONG"] === "1";
const nodeCount = 64;
const gpusOfSimulated = 8;
const namespace = "default";

const usualLease = { name: "default lease settings", flags: [], limitMs: 15_000 + 2_000 + 3_000 };
const fastLease = {
  name: "fast lease settings",
  flags: ["--lease-duration=3s", "--lease-renew-deadline=2s", "--lease-retry-period=1s"],
  limitMs: 3_000 + 1_000 + 3_000,
};

export function failOverSuite(folder: string): void {
  const cluster = new RealCluster(join(folder, "fail-over"), { nodes: 0 });
  const { plane } = cluster;
  const bed = new Bed(cluster, namespace);

  beforeAll(async () => {
    await cluster.start();
    cluster.startMuster("sim", "nodes", "sim", "--install", "--pool", `h100=${nodeCount}`);
    await until(async () => (await readyNodes()).length === nodeCount);
  });
  afterAll(() => cluster.stop());
  afterEach(() => bed.stopAll());

  const readyNodes = async (): Promise<Node[]> =>
    (await cluster.list<Node>(builtin.Node)).filter(
      ({ status }) => status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true,
    );

  describe.each([usualLease, fastLease])("a leader that dies, with $name", ({ name, flags, limitMs }) => {
    const rounds = isLong ? 20 : 2;
    const count = 500;

    test(`is replaced while ${count} pods are placed, ${rounds} rounds: no pod is bound twice, and none is left`, async () => {
      const waits: number[] = [];
      await bed.start("a", ...flags);
      await bed.start("b", ...flags);
      for (let round = 0; round < rounds; round++) {
        const burst = bed.create(`burst-${round}`, count);
        // A little later in the burst every round.
        const before = 50 + ((round * 90) % 400);
        await until(async () => bed.binds().length >= before, 120_000);
        const leader = await bed.leader();
        const killedMs = Date.now();
        await cluster.processes.stop(leader, "SIGKILL");
        await burst;
        await bed.untilBound(count);
        const binds = bed.binds();
        const earlier = new Set(binds.slice(0, before).map(({ by }) => by));
        const next = binds.find(({ by }) => !earlier.has(by));
        waits.push((next?.atMs ?? Number.NaN) - killedMs);
        expect(bed.twice()).toEqual([]);
        expect(await bed.refused()).toEqual([]);
        await bed.start(leader, ...flags);
        await bed.empty();
      }
      say(`leader killed, ${name}: next bind by another`, waits, limitMs);
      expect(waits.every(Number.isFinite)).toBe(true);
    });
  });

  describe("an API server that is away", () => {
    const lengths = isLong ? [5, 40, 120] : [5, 40];
    const rounds = isLong ? 20 : 1;
    const count = 200;

    test.each(lengths)(
      `3, 5: for %i s in a burst of ${count}, ${rounds} rounds: nodes that were deleted meanwhile get no pod`,
      async (seconds) => {
        const waits: number[] = [];
        const wrong: string[] = [];
        await bed.start("a");
        await bed.start("b");
        for (let round = 0; round < rounds; round++) {
          let goOn = (): void => {};
          const killed = new Promise<void>((resolve) => {
            goOn = resolve;
          });
          const burst = bed.create(`away-${seconds}-${round}`, count, { last: count / 2, until: killed });
          await until(async () => bed.binds().length >= 60, 120_000);
          const nodes = await cluster.list<Node>(builtin.Node);
          await plane.processes.stop("apiserver", "SIGKILL");
          goOn();
          const gone = bed.unused(nodes, count);
          for (const { metadata } of gone) await plane.deleteStored(`minions/${metadata.name}`);
          const before = new Set(bed.binds().map(({ pod }) => pod));
          await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
          plane.startApiServer();
          await plane.untilReady();
          const readyMs = Date.now();
          await burst;
          await bed.untilBound(count);
          const after = bed.binds().filter(({ pod }) => !before.has(pod));
          waits.push(Math.min(...after.map(({ atMs }) => atMs)) - readyMs);
          const names = new Set(gone.map(({ metadata }) => metadata.name));
          wrong.push(...after.filter(({ node }) => names.has(node)).map(({ pod, node }) => `${pod} on ${node}`));
          expect(bed.twice()).toEqual([]);
          await bed.empty();
          await Promise.all(gone.map((node) => cluster.kube.create(builtin.Node, unstored(node))));
          await until(async () => (await readyNodes()).length === nodeCount);
        }
        say(`API server away for ${seconds} s: next bind after it is ready`, waits, 3_000);
        expect(wrong).toEqual([]);
        expect(waits.every(Number.isFinite)).toBe(true);
      },
    );
  });

  describe("an API server with three seats for Muster", () => {
    const count = 200;
    const seats = { nominalConcurrencyShares: 1, lendablePercent: 0, borrowingLimitPercent: 0 };
    const rules = [
      {
        ...{ apiVersion: "flowcontrol.apiserver.k8s.io/v1", kind: "PriorityLevelConfiguration" },
        metadata: { name: "robots" },
        spec: { type: "Limited", limited: { ...seats, limitResponse: { type: "Reject" } } },
      },
      {
        ...{ apiVersion: "flowcontrol.apiserver.k8s.io/v1", kind: "FlowSchema", metadata: { name: "robots" } },
        spec: {
          ...{ priorityLevelConfiguration: { name: "robots" }, matchingPrecedence: 100 },
          rules: [
            {
              subjects: [{ kind: "Group", group: { name: "robots" } }],
              resourceRules: [
                { verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"] },
              ],
            },
          ],
        },
      },
      {
        ...{ apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: { name: "robots" } },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
        subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "Group", name: "robots" }],
      },
    ];

    test(`4: ${count} pods are placed through them, and refused requests come back when the server said`, async () => {
      const kubeconfig = join(cluster.folder, "robot");
      writeFileSync(kubeconfig, plane.kubeconfigOf("robot"));
      await cluster.apply(namespace, ...rules);
      await bed.start("a", "--kubeconfig", kubeconfig);
      const fromMs = Date.now();
      await bed.create("seats", count);
      await bed.untilBound(count);
      const own = bed.lines.filter(({ user, verb }) => user.username === "robot" && verb !== "watch");
      const served = own.filter(({ responseStatus }) => responseStatus?.code !== 429);
      const lastMs = Math.max(...bed.binds().map(({ atMs }) => atMs)) - fromMs;
      say("three seats: last of 200 binds", [lastMs]);
      say("three seats: longest time without a request that was served", [longestGapMs(served)]);
      print(`three seats: ${served.length} requests served, ${own.length - served.length} answered 429`);
      expect(bed.twice()).toEqual([]);
      await bed.empty();
      await cluster.kubectl("delete", "flowschema,prioritylevelconfiguration,clusterrolebinding", "robots");
    });
  });
}

/** Processes of Muster with leader election, and bursts of pods for them. */
class Bed extends Burst {
  /** Until its caches are filled, as a follower's are. */
  async start(name: string, ...flags: string[]): Promise<void> {
    const [port = 0] = await freePorts(1);
    const own = ["--identity", name, "--status-address", `127.0.0.1:${port}`];
    this.cluster.startMuster(name, "run", "--install", "--leader-elect", ...own, ...flags);
    await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok);
    await until(async () => (await this.leader()) !== "");
  }

  async stopAll(): Promise<void> {
    for (const name of ["a", "b"]) await this.cluster.processes.stop(name);
  }

  async leader(): Promise<string> {
    const lease = await this.cluster.kube.get<Lease>({ ...builtin.Lease, namespace: "kube-system", name: "muster" });
    return (lease.ok && lease.value.spec?.holderIdentity) || "";
  }

  /** As many nodes without a pod as the burst does not need. */
  unused(nodes: readonly Node[], count: number): Node[] {
    const used = new Set(this.binds().map(({ node }) => node));
    const spare = nodes.length - Math.ceil(count / gpusOfSimulated) - 2;
    return nodes.filter(({ metadata }) => !used.has(metadata.name)).slice(0, spare);
  }
}

function longestGapMs(lines: readonly AuditLine[]): number {
  const times = lines.map(({ stageTimestamp }) => Date.parse(stageTimestamp)).sort((one, other) => one - other);
  return Math.max(0, ...times.slice(1).map((time, at) => time - (times[at] ?? time)));
}

function unstored({ apiVersion, kind, metadata, spec, status }: Node): Unstored<Node> {
  const { name, labels = {}, annotations = {} } = metadata;
  return { apiVersion, kind, metadata: { name, labels, annotations }, spec, status } as Unstored<Node>;
}
