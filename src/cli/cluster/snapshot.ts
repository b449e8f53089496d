import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { takeSnapshot } from "../../control/verify/takeSnapshot.ts";
import { allKinds, auditKinds } from "../../decide/verify/readKinds.ts";
import { snapshotText } from "../../decide/verify/snapshotFile.ts";
import { UserError } from "../../model/userError.ts";
import { type ClusterFlags, findCluster } from "./findCluster.ts";
import { refusedError } from "./mustSucceed.ts";

export interface SnapshotFlags extends ClusterFlags {
  readonly output: "text" | "json";
}

/** Writes the cluster at one revision to a file, which `muster verify --snapshot` reads. A name in `.gz` is packed. */
export async function saveSnapshot(file: string, flags: SnapshotFlags): Promise<void> {
  const connection = await findCluster(flags);
  const clock = systemClock();
  const kube = kubeHttp(connection, { clock, log: pinoLog({ level: "error" }) }, { fieldManager: "muster-snapshot" });
  try {
    const taken = await takeSnapshot(kube, allKinds, {
      nowMs: () => clock.nowMs(),
      mayLack: (kind) => auditKinds.has(kind),
    });
    if (!taken.ok) throw refusedError(taken.refusal, `${taken.kind} could not be listed`);
    const { snapshot } = taken;
    const source = Readable.from(snapshotText(snapshot));
    const target = createWriteStream(file, { flush: true, mode: 0o600 });
    try {
      await (file.endsWith(".gz") ? pipeline(source, createGzip(), target) : pipeline(source, target));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new UserError(
        "snapshot-unwritable",
        `cannot write ${file}: ${why}`,
        "name a file in a folder that this user may write",
        { cause },
      );
    }
    const counts: Record<string, number | null> = {};
    for (const [name, kind] of snapshot.kinds) counts[name] = kind.served ? kind.objects.length : null;
    const objects = Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0);
    const { revision, coherent, incoherent } = snapshot;
    if (flags.output === "json") {
      process.stdout.write(`${JSON.stringify({ file, revision, coherent, incoherent, objects, counts })}\n`);
      return;
    }
    const how = coherent ? "all at one revision" : `not all at one revision: ${incoherent.join("; ")}`;
    process.stdout.write(`saved ${file}: revision ${revision}, ${objects} objects, ${how}\n`);
  } finally {
    kube.close();
  }
}
