import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { type GangRow, gangTree } from "../../decide/gang/gangTree.ts";
import { formatGangDuration } from "../../model/gang/gangDuration.ts";
import { places } from "../../model/gang/keys.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi, ListOptions } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";

export interface GangsFlags extends ClusterFlags {
  readonly namespace?: string;
  readonly output: "text" | "json";
}

/** The tree of gangs with minimum, scheduled, ready, breach and the time left, all at one revision. */
export async function showGangs(flags: GangsFlags): Promise<void> {
  const clock = systemClock();
  const kube = kubeHttp(
    await findCluster(flags),
    { clock, log: pinoLog({ level: "error" }) },
    { fieldManager: "muster" },
  );
  try {
    const read = await readGangs(kube, flags.namespace);
    if (!read.ok) {
      if (read.reason !== "NotFound")
        throw new UserError("gangs-unreadable", read.message, "look at the address and the rights of the kubeconfig");
      throw new UserError(
        "gangs-unknown",
        "the cluster does not know PodCliqueSets",
        "run `muster up`, or `muster run --controllers gang` on this cluster",
      );
    }
    const { revision, objects } = read.value;
    const rows = gangTree(objects, clock.nowMs());
    process.stdout.write(
      flags.output === "json" ? `${JSON.stringify({ revision, gangs: rows })}\n` : gangText(rows, revision),
    );
  } finally {
    kube.close();
  }
}

type GangObjects = Parameters<typeof gangTree>[0];

/**
 * Cliques as they are now, then sets and groups exactly as they were at that revision; begun again if that is
 * forgotten.
 */
async function readGangs(
  kube: KubeApi,
  namespace: string | undefined,
): Promise<Outcome<{ revision: string; objects: GangObjects }>> {
  const place = namespace === undefined ? {} : { namespace };
  for (let round = 0; round < 5; round++) {
    const cliques = await readAll(kube, places.PodClique, place);
    if (!cliques.ok) return cliques;
    const { revision } = cliques.value;
    const then = { ...place, resourceVersion: revision, resourceVersionMatch: "Exact" } as const;
    const [groups, sets] = [
      await readAll(kube, places.PodCliqueScalingGroup, then),
      await readAll(kube, places.PodCliqueSet, then),
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
  return refused("Expired", "the cluster changes faster than it can be read");
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
