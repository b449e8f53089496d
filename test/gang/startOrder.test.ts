/** Start-up order on simulated nodes: the wait is an init container that the node simulates, and nothing is pulled. */
import { expect, test } from "vitest";
import { type Delays, livelyDelays } from "../../src/kubelet/pods/podPlan.ts";
import { labels } from "../../src/model/gang/keys.ts";
import type { PodCliqueSet } from "../../src/model/gang/types.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { GangCluster, isReady } from "./gangCluster.ts";
import { workload3, workload4, workload5, workload6 } from "./workloads.ts";

/** In which order the main containers of cliques first ran, and which other cliques were ready then. */
interface Start {
  readonly clique: string;
  readonly ready: Readonly<Record<string, number>>;
}

const cliqueOf = ({ metadata }: Pod): string => metadata.labels?.[labels.clique] ?? "";
const hasStarted = ({ status }: Pod): boolean =>
  (status?.containerStatuses ?? []).some(({ state }) => state?.running !== undefined);

async function starts(of: () => PodCliqueSet, delays?: Delays): Promise<Start[]> {
  const cluster = await GangCluster.start({ nodes: 10, ...(delays && { delays }) });
  const seen: Start[] = [];
  const started = new Set<string>();
  // Every version of every pod is checked when it is written.
  cluster.api.core.store.onEvent(({ current }) => {
    if (current.resource !== "/pods" || current.deleted) return;
    const pod = current.object() as unknown as Pod;
    if (started.has(pod.metadata.uid) || !hasStarted(pod)) return;
    started.add(pod.metadata.uid);
    const ready: Record<string, number> = {};
    for (const other of cluster.pods()) {
      if (other.metadata.uid !== pod.metadata.uid && isReady(other))
        ready[cliqueOf(other)] = (ready[cliqueOf(other)] ?? 0) + 1;
    }
    seen.push({ clique: cliqueOf(pod), ready });
  });
  await cluster.apply(of());
  await cluster.settle(100);
  if (delays !== undefined) await cluster.pass(10);
  expect(cluster.readyPods()).toBe(10);
  return seen;
}

const startsOf = (seen: readonly Start[], clique: string): Start[] => seen.filter((start) => start.clique === clique);

test("in order, all of the minimum: every pc-a is ready before any pc-b, every pc-b before any pc-c", async () => {
  const seen = await starts(workload3);
  for (const j of [0, 1]) {
    for (const { ready } of startsOf(seen, `workload3-0-sg-x-${j}-pc-b`)) expect(ready["workload3-0-pc-a"]).toBe(2);
    for (const { ready } of startsOf(seen, `workload3-0-sg-x-${j}-pc-c`)) {
      expect([ready["workload3-0-sg-x-0-pc-b"], ready["workload3-0-sg-x-1-pc-b"]]).toEqual([1, 1]);
    }
  }
  expect(seen).toHaveLength(10);
});

test("in order, all of the minimum, on slow nodes", async () => {
  const seen = await starts(workload3, livelyDelays);
  for (const j of [0, 1]) {
    for (const { ready } of startsOf(seen, `workload3-0-sg-x-${j}-pc-b`)) expect(ready["workload3-0-pc-a"]).toBe(2);
    for (const { ready } of startsOf(seen, `workload3-0-sg-x-${j}-pc-c`)) {
      expect([ready["workload3-0-sg-x-0-pc-b"], ready["workload3-0-sg-x-1-pc-b"]]).toEqual([1, 1]);
    }
  }
  expect(seen).toHaveLength(10);
});

test("in order, a small minimum: the base waits for its own, the scaled gang only within itself", async () => {
  const seen = await starts(workload4);
  for (const { ready } of startsOf(seen, "workload4-0-sg-x-0-pc-b"))
    expect(ready["workload4-0-pc-a"]).toBeGreaterThanOrEqual(1);
  for (const { ready } of startsOf(seen, "workload4-0-sg-x-0-pc-c")) expect(ready["workload4-0-sg-x-0-pc-b"]).toBe(1);
  for (const { ready } of startsOf(seen, "workload4-0-sg-x-1-pc-c")) expect(ready["workload4-0-sg-x-1-pc-b"]).toBe(1);
  expect(startsOf(seen, "workload4-0-sg-x-1-pc-b")).toHaveLength(1);
});

test("explicit order, all of the minimum: a, then c, then b", async () => {
  const seen = await starts(workload5);
  for (const j of [0, 1]) {
    for (const { ready } of startsOf(seen, `workload5-0-sg-x-${j}-pc-c`)) expect(ready["workload5-0-pc-a"]).toBe(2);
    for (const { ready } of startsOf(seen, `workload5-0-sg-x-${j}-pc-b`)) {
      expect([ready["workload5-0-sg-x-0-pc-c"], ready["workload5-0-sg-x-1-pc-c"]]).toEqual([3, 3]);
    }
  }
});

test("explicit order, a small minimum: c after b in each gang, b after a in the base", async () => {
  const seen = await starts(workload6);
  for (const { ready } of startsOf(seen, "workload6-0-sg-x-0-pc-b"))
    expect(ready["workload6-0-pc-a"]).toBeGreaterThanOrEqual(1);
  for (const j of [0, 1]) {
    for (const { ready } of startsOf(seen, `workload6-0-sg-x-${j}-pc-c`))
      expect(ready[`workload6-0-sg-x-${j}-pc-b`]).toBe(1);
  }
});

test("where a container waits, pods with an order wait for the token that it reads with", async () => {
  const settings = { startOrder: { by: "container", image: "registry/initc:1" } as const };
  const cluster = await GangCluster.start({ nodes: 10, settings });
  await cluster.apply(workload3());
  expect([cluster.pods("workload3-0-pc-a").length, cluster.pods("workload3-0-sg-x-0-pc-b").length]).toEqual([2, 0]);
  const secret = { ...builtin.Secret, namespace: "default", name: "workload3-ic-sat" };
  await cluster.must(cluster.kube.patch(secret, { type: "merge", body: { data: { token: "dG9rZW4=" } } }));
  await cluster.settle();
  const [pod] = cluster.pods("workload3-0-sg-x-0-pc-b");
  expect(pod?.spec?.initContainers?.[0]).toMatchObject({ name: "grove-initc", image: "registry/initc:1" });
  expect(pod?.metadata.annotations?.["sim.muster.dev/run-duration.grove-initc"]).toBeUndefined();
});
