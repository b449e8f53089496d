import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { type GangObjects, type GangRow, gangTree } from "../../decide/gang/gangTree.ts";
import { isServed } from "../../decide/verify/clusterSnapshot.ts";
import { gangsIn } from "../../decide/verify/gangsIn.ts";
import { formatGangDuration } from "../../model/gang/gangDuration.ts";
import { gangResources } from "../../model/gang/keys.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi, ListOptions } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { readSnapshot } from "./readCluster.ts";

export interface GangsFlags extends ClusterFlags {
  readonly namespace?: string;
  /** A file of `muster snapshot save` instead of a cluster. */
  readonly snapshot?: string;
  readonly output: "text" | "json";
}

/** Prints the gangs as a tree, all at one revision. */
export async function showGangs(flags: GangsFlags): Promise<void> {
  const { revision, objects, nowMs } = flags.snapshot === undefined ? await liveGangs(flags) : await savedGangs(flags);
  const rows = gangTree(objects, nowMs);
  process.stdout.write(
    flags.output === "json" ? `${JSON.stringify({ revision, gangs: rows })}\n` : gangText(rows, revision),
  );
}

interface Gangs {
  readonly revision: string;
  readonly objects: GangObjects;
  readonly nowMs: number;
}

async function savedGangs({ snapshot: file = "", namespace }: GangsFlags): Promise<Gangs> {
  const snapshot = await readSnapshot(file);
  if (!isServed(snapshot, "podcliquesets")) {
    throw new UserError(
      "gangs-unknown",
      `${file} has no PodCliqueSets: its cluster did not serve them, or an older version of Muster wrote it`,
      "save a snapshot of a cluster that has them, with `muster snapshot save FILE`",
    );
  }
  const all = gangsIn(snapshot);
  const isShown = ({ metadata }: KubeObject): boolean => namespace === undefined || metadata.namespace === namespace;
  const objects = {
    sets: all.sets.filter(isShown),
    groups: all.groups.filter(isShown),
    cliques: all.cliques.filter(isShown),
  };
  return { revision: snapshot.revision, objects, nowMs: snapshot.takenAtMs };
}

async function liveGangs(flags: GangsFlags): Promise<Gangs> {
  const clock = systemClock();
  const kube = kubeHttp(
    await findCluster(flags),
    { clock, log: pinoLog({ level: "error" }) },
    { fieldManager: "muster" },
  );
  try {
    const read = await readGangs(kube, flags.namespace);
    if (read.ok) return { ...read.value, nowMs: clock.nowMs() };
    if (read.reason !== "NotFound")
      throw new UserError(
        "gangs-unreadable",
        read.message,
        "check the server address and the permissions of the kubeconfig",
      );
    throw new UserError(
      "gangs-unknown",
      "the cluster does not serve PodCliqueSets",
      "run `muster up`, or `muster run --controllers gang` on this cluster",
    );
  } finally {
    kube.close();
  }
}

/**
 * Lists cliques, then scaling groups and sets at exactly the revision of that list. Starts again when the revision has
 * been compacted.
 */
async function readGangs(
  kube: KubeApi,
  namespace: string | undefined,
): Promise<Outcome<{ revision: string; objects: GangObjects }>> {
  const place = namespace === undefined ? {} : { namespace };
  for (let round = 0; round < 5; round++) {
    const cliques = await readAll(kube, gangResources.PodClique, place);
    if (!cliques.ok) return cliques;
    const { revision } = cliques.value;
    const then = { ...place, resourceVersion: revision, resourceVersionMatch: "Exact" } as const;
    const [groups, sets] = [
      await readAll(kube, gangResources.PodCliqueScalingGroup, then),
      await readAll(kube, gangResources.PodCliqueSet, then),
    ];
    const failed = [groups, sets].find((each) => !each.ok);
    if (failed !== undefined && !failed.ok && failed.reason !== "Expired") return failed;
    if (!groups.ok || !sets.ok) continue;
    const objects = {
      cliques: cliques.value.items,
      groups: groups.value.items,
      sets: sets.value.items,
    };
    return { ok: true, value: { revision, objects } };
  }
  return refused("Expired", "the API server compacts revisions faster than gangs can be listed");
}

async function readAll<T extends KubeObject>(
  kube: KubeApi,
  place: Resource<T>,
  options: ListOptions,
): Promise<Outcome<{ revision: string; items: T[] }>> {
  const outcome = await kube.list(place, options);
  return outcome.ok
    ? { ok: true, value: { revision: outcome.value.revision, items: [...outcome.value.items] } }
    : outcome;
}

export function gangText(rows: readonly GangRow[], revision: string): string {
  if (rows.length === 0) return `no gangs at revision ${revision}\n`;
  const head = ["GANG", "MIN", "REPLICAS", "SCHEDULED", "READY", "BREACH", "LEFT"];
  const lines = rows.map((row) => [
    `${"  ".repeat(row.depth)}${row.depth === 0 ? `${row.namespace}/` : ""}${row.name}`,
    String(row.minimum),
    String(row.replicas),
    String(row.scheduled),
    String(row.ready),
    row.ending === "" ? row.breach || "-" : "ending",
    row.leftMs === undefined ? "-" : formatGangDuration(row.leftMs),
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...lines.map((line) => line[at]?.length ?? 0)));
  const text = [head, ...lines].map((line) =>
    line
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  return `${text.join("\n")}\nat revision ${revision}\n`;
}
