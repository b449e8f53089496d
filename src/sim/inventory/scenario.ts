/** The race matrix of the inventory: changes happen before, between and after the reads of a run. */

import type { CloudVolume, ScalingGroup } from "../../model/inventory/cloud.ts";
import type { Cloud } from "../../ports/cloud.ts";
import type { InventoryDatabase, InventoryRun } from "../../ports/database.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Scenario } from "../scenario.ts";
import { at, kinds, plain } from "../sceneKit.ts";
import { comesToRest, oneHolder, sumsClose, unknownIsNotZero } from "./invariants.ts";
import { type Mistake, reconciler } from "./reconciler.ts";
import { Stage, session, usualPace } from "./stage.ts";

const faults = ["slow-call", "busy", "timeout-before", "partial-page", "restart", "pause", "two-leaders", "slow-timer"];
const diskNames = ["a", "b", "c"];

/** `inventory`, or `inventory/<mistake>` with one bug of the original service. */
export function inventoryScenario(mistake?: { readonly name: string; readonly make: Mistake }): Scenario {
  return {
    name: mistake === undefined ? "inventory" : `inventory/${mistake.name}`,
    about:
      "sessions claim, attach, detach, snapshot and rename disks, nodes flap, groups grow, while two reconcilers look",
    faults,
    invariants: [oneHolder, unknownIsNotZero, sumsClose, comesToRest],
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
      for (const name of ["n1", "n2"]) await kube.create(kinds.nodes, gpuNode(name, "True"));
    },
    actors: () => {
      const stage = new Stage();
      const options = mistake === undefined ? {} : { mistake: mistake.make };
      return [
        stage.host(),
        reconciler("reconciler", stage, options),
        reconciler("other", stage, { ...options, everyMs: 1_700 }),
        ...diskNames.map((name) => sessionsOf(stage, name, "x")),
        // A second client for the same disks, which claims a disk as soon as it seems free.
        ...diskNames.slice(0, 2).map((name) => sessionsOf(stage, name, "y")),
        mutator(stage),
        flapper(),
      ];
    },
    faultPhaseMs: 9_000,
    settleMs: 90_000,
    quietMs: 9_000,
  };
}

export function gpuNode(name: string, ready: string) {
  const amounts = { "nvidia.com/gpu": "8", cpu: "64", memory: "1Ti", pods: "110" };
  return plain("v1", "Node", "", name, {
    metadata: { labels: { GpuType: "h100" } },
    spec: { providerID: `aws:///us-east-2a/i-${name}` },
    status: {
      allocatable: amounts,
      capacity: amounts,
      conditions: [
        {
          type: "Ready",
          status: ready,
          reason: "x",
          message: "x",
          lastHeartbeatTime: "2026-01-01T00:00:00Z",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    },
  });
}

function sessionsOf(stage: Stage, name: string, client: string): ActorSpec {
  return {
    name: `session-${name}-${client}`,
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      if (client === "x") stage.addDisk(name);
      for (let round = 1; round <= 3; round++) {
        await session(stage, ports, name, `r-${name}-${client}-${round}`, usualPace);
        await ports.sleep(ports.random.uint32() % (client === "x" ? 1_200 : 500));
      }
    },
  };
}

/**
 * Other actions of the application, operators and the cloud, at random times.
 */
function mutator(stage: Stage): ActorSpec {
  return {
    name: "mutator",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      const maybe = (what: string, run: () => void): void => {
        if (ports.choose(what, (dice) => (dice.perMille(250) ? 1 : 0)) > 0) run();
      };
      for (let step = 0; step < 14; step++) {
        await ports.sleep(100 + (ports.random.uint32() % 900));
        maybe("scale", () => {
          const wide = stage.cloud.groups.get("pytorch-gpu-dev-gpu-nodes-h100")?.instances.length === 2;
          stage.putGroup("h100", wide ? ["i-n1", "i-n2", "i-n3"] : ["i-n1", "i-n2"]);
        });
        maybe("rename", () => rename(stage, "c", "c2"));
        maybe("rename back", () => rename(stage, "c2", "c"));
        maybe("untracked volume", () => {
          const tags = { "gpu-dev-user": "eve", disk_name: `lost-${step}` };
          stage.cloud.createVolume({ id: stage.nextVolume(), tags });
        });
        maybe("duplicate volume", () => {
          stage.cloud.createVolume({ id: stage.nextVolume(), tags: { "gpu-dev-user": "ada", disk_name: "b" } });
        });
        maybe("resize", () => {
          const [first] = stage.cloud.volumes.values();
          if (first !== undefined) stage.cloud.changeVolume(first.id, { sizeGb: first.sizeGb + 10 });
        });
        maybe("untagged snapshot", () => {
          // As a backup service takes it: of a volume, without any tag of ours.
          const [first] = stage.cloud.volumes.values();
          if (first !== undefined) stage.cloud.putSnapshot({ id: `snap-backup-${step}`, volumeId: first.id });
        });
        maybe("lock lost", () => stage.forgetLocks());
        maybe("stale reads", () => stage.cloud.setFaults({ staleMs: 400, shuffle: true, repeatItems: true }));
        maybe("fresh reads", () => stage.cloud.setFaults({}));
        maybe("untagged disk", () => stage.addDisk(`fresh-${step}`));
      }
      stage.cloud.setFaults({});
    },
  };
}

function rename(stage: Stage, from: string, to: string): void {
  const row = stage.tables.disk("ada", from);
  if (row === undefined || row.inUse || stage.tables.disk("ada", to) !== undefined) return;
  stage.tables.updateDisk(row.diskId, { diskName: to }, "app");
  for (const snapshot of stage.cloud.snapshots.values()) {
    if (snapshot.tags["disk_name"] !== from) continue;
    stage.cloud.putSnapshot({ ...snapshot, tags: { ...snapshot.tags, disk_name: to } });
  }
}

/** Nodes become ready and unready, and a pod is created and deleted. */
function flapper(): ActorSpec {
  return {
    name: "kubelet",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let step = 0; step < 8; step++) {
        await ports.sleep(200 + (ports.random.uint32() % 800));
        const name = step % 2 === 0 ? "n1" : "n2";
        await setReady(
          ports,
          name,
          ports.choose("flap", (dice) => (dice.perMille(500) ? 1 : 0)) > 0 ? "False" : "True",
        );
      }
      for (const name of ["n1", "n2"]) while (!(await setReady(ports, name, "True"))) await ports.sleep(50);
    },
  };
}

async function setReady(ports: ActorPorts, name: string, status: string): Promise<boolean> {
  const body = {
    status: {
      conditions: [
        {
          type: "Ready",
          status,
          reason: "x",
          message: "x",
          lastHeartbeatTime: "2026-01-01T00:00:00Z",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    },
  };
  const outcome = await ports.kube.patch(
    { ...at(kinds.nodes, name), subresource: "status" },
    { type: "strategic", body },
  );
  return outcome.ok;
}

// --- bugs of the original service that lose data, each injected around the product

const onlyFirstPage: Mistake = (ports) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    scalingGroups: async (cloud, onPage, options) => {
      let isFirst = true;
      return cloud.scalingGroups((page: readonly ScalingGroup[]) => {
        if (isFirst) onPage(page);
        isFirst = false;
      }, options);
    },
  }),
  // As in the original, a volume that is not listed does not exist: it is not read again.
  cluster: async () => ({
    ok: true,
    value: { nodes: [], pods: [], devicesByPod: new Map(), devicesByNode: new Map(), revision: "0" },
  }),
});

/** A database that cannot be read looks empty, and everything is written without a check of versions. */
const failedReadIsEmpty: Mistake = (ports, stage) => ({
  ...ports,
  database: wrapRuns(ports.database, (run) => ({
    ...methodsOf(run),
    disks: async () => {
      const read = await run.disks();
      if (read.ok) return read;
      const nothing = {
        rows: [],
        reservations: [],
        knownUsers: undefined,
        lastReading: undefined,
        snapshotPass: undefined,
        nowMs: 0,
      };
      return { ok: true, value: nothing };
    },
    // The original did not record earlier lists.
    recordReading: async () => ({ ok: true, value: undefined }),
    // The upsert of the original, over any connection of the pool: a row that has the name is overwritten.
    writeDisks: async (writes) => {
      for (const write of writes) {
        if (write.kind !== "insert") continue;
        const { userId, diskName, volumeId, inUse, snapshotCount, volumeState } = write.row;
        const row = stage.tables.disk(userId, diskName);
        if (row === undefined) stage.tables.apply(write, "reconciler");
        else {
          const change = { inUse, snapshotCount, volumeState, reservationId: null, operationStatus: null };
          const isFree = [...stage.tables.disks.values()].every(
            (other) => other === row || other.volumeId !== volumeId,
          );
          stage.tables.updateDisk(row.diskId, isFree ? { ...change, volumeId } : change, "reconciler");
        }
      }
      return run.writeDisks(writes.filter((write) => write.kind === "update"));
    },
  })),
});

const snapshotErrorIsZero: Mistake = (ports, _stage, actor) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    snapshots: async (cloud, which, onPage, options) => {
      // The question about each volume that the original asked was throttled far more often than one listing is.
      if (actor.choose("snapshots throttled", (dice) => (dice.perMille(60) ? 1 : 0)) > 0) {
        return { ok: true, value: undefined };
      }
      const read = await cloud.snapshots(which, onPage, options);
      return read.ok ? read : { ok: true, value: undefined };
    },
  }),
});

/** The cloud first, then the database, and a missing volume frees its disk at once by name. */
const cloudBeforeDatabase: Mistake = (ports, stage, actor) => ({
  ...ports,
  database: {
    look: () => ports.database.look(),
    begin: async (start) => {
      const seen = new Set<string>();
      const read = await ports.cloud?.volumes({ type: "tagged" }, (page: readonly CloudVolume[]) => {
        for (const { id, attachments } of page) if (attachments.length > 0) seen.add(id);
      });
      await actor.sleep(30);
      if (read?.ok === true) {
        for (const row of [...stage.tables.disks.values()]) {
          if (!row.inUse || (row.volumeId !== null && seen.has(row.volumeId))) continue;
          stage.tables.updateDisk(row.diskId, { inUse: false }, "reconciler");
        }
      }
      return ports.database.begin(start);
    },
  },
});

export const inventoryMistakes: readonly { readonly name: string; readonly make: Mistake }[] = [
  { name: "first-page-only", make: onlyFirstPage },
  { name: "failed-read-is-empty", make: failedReadIsEmpty },
  { name: "snapshot-error-is-zero", make: snapshotErrorIsZero },
  { name: "cloud-before-database", make: cloudBeforeDatabase },
];

type CloudChanges = {
  scalingGroups?: (cloud: Cloud, ...args: Parameters<Cloud["scalingGroups"]>) => ReturnType<Cloud["scalingGroups"]>;
  volumes?: (cloud: Cloud, ...args: Parameters<Cloud["volumes"]>) => ReturnType<Cloud["volumes"]>;
  snapshots?: (cloud: Cloud, ...args: Parameters<Cloud["snapshots"]>) => ReturnType<Cloud["snapshots"]>;
};

export function wrapCloud(cloud: Cloud | undefined, changes: CloudChanges): Cloud | undefined {
  if (cloud === undefined) return undefined;
  return {
    identity: (options) => cloud.identity(options),
    scalingGroups: (onPage, options) =>
      changes.scalingGroups?.(cloud, onPage, options) ?? cloud.scalingGroups(onPage, options),
    volumes: (which, onPage, options) =>
      changes.volumes?.(cloud, which, onPage, options) ?? cloud.volumes(which, onPage, options),
    snapshots: (which, onPage, options) =>
      changes.snapshots?.(cloud, which, onPage, options) ?? cloud.snapshots(which, onPage, options),
    modifications: (ids, options) => cloud.modifications(ids, options),
    usage: () => cloud.usage(),
  };
}

export function wrapRuns(database: InventoryDatabase, wrap: (run: InventoryRun) => InventoryRun): InventoryDatabase {
  return {
    look: () => database.look(),
    begin: async (start) => {
      const answer = await database.begin(start);
      if (!answer.ok || answer.value.status !== "begun") return answer;
      return { ok: true, value: { status: "begun", run: wrap(answer.value.run) } };
    },
  };
}

export function methodsOf(run: InventoryRun): InventoryRun {
  return {
    runId: run.runId,
    fence: run.fence,
    types: () => run.types(),
    disks: () => run.disks(),
    recordReading: (reading) => run.recordReading(reading),
    writeTypes: (types, drift) => run.writeTypes(types, drift),
    writeDisks: (writes) => run.writeDisks(writes),
    report: (phase, reports) => run.report(phase, reports),
    rememberSnapshots: (memory) => run.rememberSnapshots(memory),
    finish: (end) => run.finish(end),
    release: () => run.release(),
  };
}
