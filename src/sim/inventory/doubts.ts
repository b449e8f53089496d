/**
 * Sources that answer wrongly without an error: a cloud that lists few volumes or denies access to snapshots; an API
 * without nodes; a database whose clock is wrong, or that hangs; a cloud that does not support days in a filter. The
 * true state hardly changes, so the writes of the inventory can be compared with it.
 */
import type { InventoryOptions } from "../../control/inventory/runInventory.ts";
import type { InventorySnapshot } from "../../decide/inventory/inventorySnapshot.ts";
import type { CloudSnapshot } from "../../model/inventory/cloud.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { ActorSpec } from "../actor.ts";
import type { Scenario } from "../scenario.ts";
import { at, kinds, plain } from "../sceneKit.ts";
import { believedVolumesStay, countsAreTrue, deadlineMs, freshIsTrue, runsEnd } from "./doubtInvariants.ts";
import { type Mistake, reconciler, simSettings } from "./reconciler.ts";
import { gpuNode, methodsOf, wrapCloud, wrapRuns } from "./scenario.ts";
import { Stage, user } from "./stage.ts";

const heartbeatMs = 60_000;
const skewMs = 120_000;

const settings: InventoryOptions = {
  ...simSettings,
  nodeRules: { toleratedTaints: [], heartbeatMsMax: heartbeatMs },
  deadlineMs,
  margins: { stopMs: 1_500, giveUpMs: 600 },
  disks: { ...simSettings.disks, trust: { dropMax: 0.3, dropCountMin: 1 }, acceptDrop: false },
};

/** The faults that are active. */
class SourceFaults {
  fewVolumes = false;
  snapshotsDenied = false;
  noNodes = false;
  literalTimes = false;
}

const diskCount = 8;

export interface DoubtMistake {
  readonly name: string;
  readonly make: Mistake;
  readonly invariant: string;
}

/** `inventory-doubts`, or `inventory-doubts/<mistake>` with one bug of an earlier version. */
export function doubtsScenario(mistake?: DoubtMistake): Scenario {
  return {
    name: mistake === undefined ? "inventory-doubts" : `inventory-doubts/${mistake.name}`,
    about: "the cloud, the cluster and the database answer wrongly without an error, or do not answer at all",
    faults: ["slow-call", "busy", "restart", "slow-timer"],
    invariants: [runsEnd, believedVolumesStay, countsAreTrue, freshIsTrue],
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
      for (const name of ["n1", "n2"]) await kube.create(kinds.nodes, gpuNode(name, "True"));
    },
    actors: () => {
      const stage = new Stage();
      const sourceFaults = new SourceFaults();
      const options = mistake === undefined ? {} : { mistake: mistake.make };
      return [
        stage.host(),
        reconciler("reconciler", stage, {
          ...options,
          settings,
          surroundings: surroundings(sourceFaults),
          everyMs: 300,
        }),
        sourceFaultInjector(stage, sourceFaults),
        backups(stage),
        kubelets(),
      ];
    },
    faultPhaseMs: 9_000,
    settleMs: 60_000,
    quietMs: 9_000,
  };
}

/** The ports as the reconciler sees them, with the current faults. */
function surroundings(sourceFaults: SourceFaults): Mistake {
  return (ports) => ({
    ...ports,
    cloud: wrapCloud(ports.cloud, {
      volumes: (cloud, which, onPage, options) => {
        const isShort = sourceFaults.fewVolumes;
        return cloud.volumes(
          which,
          (page) => onPage(isShort ? page.filter(({ id }) => id === "vol-d0") : page),
          options,
        );
      },
      snapshots: async (cloud, which, onPage, options) => {
        if (sourceFaults.snapshotsDenied) return { ok: false, reason: "Denied", why: "snapshots: not authorized" };
        if (sourceFaults.literalTimes && which.type === "startedOn") return { ok: true, value: undefined };
        return cloud.snapshots(which, onPage, options);
      },
    }),
    cluster: async (cancel) => {
      const read = await ports.cluster(cancel);
      return read.ok && sourceFaults.noNodes ? { ok: true, value: { ...read.value, nodes: [] } } : read;
    },
  });
}

function sourceFaultInjector(stage: Stage, sourceFaults: SourceFaults): ActorSpec {
  return {
    name: "weather",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let n = 0; n < diskCount; n++) {
        const tags = { "gpu-dev-user": user, disk_name: `d${n}` };
        stage.cloud.createVolume({ id: `vol-d${n}`, tags });
      }
      stage.cloud.attach("vol-d1", "i-n1");
      stage.cloud.attach("vol-d2", "i-n2");
      const turn = (what: string, perMille: number): boolean =>
        ports.choose(what, (dice) => (dice.perMille(perMille) ? 1 : 0)) > 0;
      sourceFaults.literalTimes = turn("days are not understood", 150);
      sourceFaults.snapshotsDenied = turn("snapshots denied from the start", 200);
      stage.mutePerMille = turn("the database stands still at times", 300) ? 15 : 0;
      for (let step = 0; step < 10; step++) {
        await ports.sleep(300 + (ports.random.uint32() % 900));
        sourceFaults.fewVolumes = turn("few volumes", 250);
        sourceFaults.snapshotsDenied = turn("snapshots denied", 250);
        sourceFaults.noNodes = turn("no nodes", 200);
        stage.databaseSkewMs = turn("clock ahead", 350) ? skewMs : turn("clock behind", 100) ? -skewMs : 0;
        if (turn("an idle volume is deleted", 150)) stage.cloud.deleteVolume("vol-d7");
      }
      sourceFaults.fewVolumes = false;
      sourceFaults.snapshotsDenied = false;
      sourceFaults.noNodes = false;
      stage.databaseSkewMs = 0;
      stage.mutePerMille = 0;
    },
  };
}

/** Creates snapshots of volumes: with tags, as the application does, and without, as a backup service does. */
function backups(stage: Stage): ActorSpec {
  return {
    name: "backups",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let step = 0; step < 8; step++) {
        await ports.sleep(200 + (ports.random.uint32() % 900));
        const n = 3 + (ports.random.uint32() % 3);
        const tags = ports.random.uint32() % 2 === 0 ? { "gpu-dev-user": user, disk_name: `d${n}` } : {};
        stage.cloud.putSnapshot({ id: `snap-${step}`, volumeId: `vol-d${n}`, tags });
      }
    },
  };
}

/** Both nodes are always ready and report it. */
function kubelets(): ActorSpec {
  return {
    name: "kubelet",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let step = 0; step < 24; step++) {
        for (const name of ["n1", "n2"]) {
          const nowText = formatTime(ports.clock.nowMs());
          const ready = { type: "Ready", status: "True", reason: "x", message: "x", lastHeartbeatTime: nowText };
          const body = { status: { conditions: [{ ...ready, lastTransitionTime: nowText }] } };
          await ports.kube.patch({ ...at(kinds.nodes, name), subresource: "status" }, { type: "strategic", body });
        }
        await ports.sleep(400);
      }
    },
  };
}

// --- bugs of earlier versions, each injected around the product

/** Only snapshots with our tag are listed between full passes. */
const taggedOnly: Mistake = (ports) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    snapshots: (cloud, which, onPage, options) => {
      const isWide = which.type === "startedOn" || which.type === "pending";
      const own = (page: readonly CloudSnapshot[]) => page.filter(({ tags }) => tags["gpu-dev-user"] !== undefined);
      return cloud.snapshots(which, (page) => onPage(isWide ? own(page) : page), options);
    },
  }),
});

/** The list of volumes is compared only with that of the last fully successful run, and not at all before one. */
const cleanRunsOnly: Mistake = (ports, stage) => ({
  ...ports,
  database: wrapRuns(ports.database, (run) => ({
    ...methodsOf(run),
    disks: async () => {
      const read = await run.disks();
      if (!read.ok) return read;
      const clean = stage.tables.runs.findLast(({ status }) => status === "ok");
      const volumes = clean?.counters["volumes_read"];
      const lastReading =
        clean?.identity == null || volumes === undefined
          ? undefined
          : { volumes: Number(volumes), identity: clean.identity };
      return { ok: true, value: { ...read.value, lastReading } };
    },
  })),
});

/** Heartbeats are compared with the database's clock, whatever the cluster's own says. */
const databaseClock: Mistake = (ports, stage) => ({
  ...ports,
  cluster: async (cancel) => {
    const read = await ports.cluster(cancel);
    if (!read.ok) return read;
    return { ok: true, value: withNodes(read.value, (node) => closeIf(isSilent(node, stage.tables.nowMs()), node)) };
  },
});

/** A list without nodes is accepted: no node is schedulable. */
const noNodesIsZero: Mistake = (ports) => ({
  ...ports,
  cluster: async (cancel) => {
    const read = await ports.cluster(cancel);
    if (!read.ok || read.value.nodes.length > 0) return read;
    const nodes = ["n1", "n2"].map((name) => ({ ...gpuNode(name, "False") }) as Node);
    return { ok: true, value: { ...read.value, nodes } };
  },
});

/** A filter that the cloud accepts without an error is assumed to work. */
const trustsTheFilter: Mistake = (ports) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    snapshots: async (cloud, which, onPage, options) => {
      if (which.type !== "startedOn") return cloud.snapshots(which, onPage, options);
      const isTrial = which.prefixes.length === 1;
      const read = await cloud.snapshots(isTrial ? { type: "all" } : which, onPage, options);
      if (!isTrial) onPage([{ id: "x", volumeId: "x", state: "completed", startedMs: 0, description: "", tags: {} }]);
      return read;
    },
  }),
});

/** The deadline is only checked between calls, and a call without a response never ends. */
const startWaitPending: Mistake = (ports) => ({
  ...ports,
  clock: { nowMs: () => ports.clock.nowMs(), monotonicMs: () => ports.clock.monotonicMs(), after: () => () => {} },
});

export const doubtMistakes: readonly DoubtMistake[] = [
  { name: "tagged-only", make: taggedOnly, invariant: "I21" },
  { name: "clean-runs-only", make: cleanRunsOnly, invariant: "I14" },
  { name: "database-clock", make: databaseClock, invariant: "I15" },
  { name: "no-nodes-is-zero", make: noNodesIsZero, invariant: "I15" },
  { name: "trusts-the-filter", make: trustsTheFilter, invariant: "I21" },
  { name: "waits-for-ever", make: startWaitPending, invariant: "I17" },
];

function withNodes(picture: InventorySnapshot, change: (node: Node) => Node): InventorySnapshot {
  return { ...picture, nodes: picture.nodes.map(change) };
}

function isSilent({ status }: Node, nowMs: number): boolean {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return nowMs - (timeToMs(ready?.lastHeartbeatTime) ?? nowMs) > heartbeatMs;
}

/** Marks the node as not schedulable and removes its heartbeat, which would make the product doubt the list. */
function closeIf(isClosed: boolean, node: Node): Node {
  if (!isClosed) return node;
  const conditions = (node.status?.conditions ?? []).map(({ lastHeartbeatTime: _, ...condition }) => condition);
  return { ...node, spec: { ...node.spec, unschedulable: true }, status: { ...node.status, conditions } };
}
