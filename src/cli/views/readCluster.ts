import { readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import type { ClusterObjects } from "../../decide/schedule/model/clusterOf.ts";
import { savedObjects } from "../../decide/schedule/savedObjects.ts";
import type { ClusterSnapshot } from "../../decide/verify/clusterSnapshot.ts";
import { parseSnapshot } from "../../decide/verify/snapshotFile.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { refusedError } from "../cluster/mustSucceed.ts";
import { schedulingObjects, type UnknownKind } from "../cluster/schedulingObjects.ts";

export interface ReadFlags extends ClusterFlags {
  readonly output: "text" | "json";
  /** A file of `muster snapshot save` instead of a cluster. */
  readonly snapshot?: string;
}

/** Text, or an object to print as JSON. */
export type Answer = string | object;

/** The objects that the scheduler reads, at one revision. */
export interface ReadCluster {
  readonly objects: ClusterObjects;
  readonly shards: readonly SchedulingShard[];
  readonly nowMs: number;
  readonly revision: string;
  /** Undefined for a saved snapshot. */
  readonly kube: KubeApi | undefined;
}

/** Reads a cluster or a snapshot file and prints the answer. */
export async function withObjects(
  flags: ReadFlags,
  answer: (read: ReadCluster) => Answer | Promise<Answer>,
): Promise<void> {
  if (flags.snapshot !== undefined) {
    const { takenAtMs, revision, ...rest } = await readSnapshot(flags.snapshot);
    const saved = savedObjects({ takenAtMs, revision, ...rest });
    say(await answer({ ...saved, nowMs: takenAtMs, revision, kube: undefined }));
    return;
  }
  const connection = await findCluster(flags);
  const clock = systemClock();
  const kube = kubeHttp(connection, { clock, log: pinoLog({ level: "error" }) }, { fieldManager: "muster-view" });
  try {
    const read = await schedulingObjects(kube, () => clock.nowMs());
    if ("ok" in read) throw refusedError(read.refusal, `${read.kind} could not be listed`);
    const { objects, shards, revision, unknown } = read;
    const said = await answer({ objects, shards, nowMs: clock.nowMs(), revision, kube });
    say(typeof said === "string" ? `${said}${unknownText(unknown)}` : { ...said, unknown });
  } finally {
    kube.close();
  }
}

export async function readSnapshot(file: string): Promise<ClusterSnapshot> {
  try {
    const bytes = await readFile(file);
    return parseSnapshot((file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8"), file);
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UserError(
      "snapshot-unreadable",
      `cannot read the snapshot ${file}: ${why}`,
      "create one with `muster snapshot save FILE`",
      {
        cause,
      },
    );
  }
}

/** Warns about kinds that could not be read: an answer without them may be wrong. */
function unknownText(unknown: readonly UnknownKind[]): string {
  return unknown
    .map(({ resource, why }) => `warning: ${resource} could not be listed (${why}); this answer ignores them\n`)
    .join("");
}

function say(result: Answer): void {
  process.stdout.write(typeof result === "string" ? result : `${JSON.stringify(result)}\n`);
}
