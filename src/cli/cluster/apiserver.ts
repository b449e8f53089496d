import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { type EmbeddedServerFlags, startEmbeddedServer } from "./embeddedServer.ts";
import { forgetRunning, recordRunning } from "./runningCluster.ts";
import { untilSignal } from "./untilSignal.ts";

interface ApiServerFlags extends EmbeddedServerFlags {
  readonly output: "text" | "json";
}

/** Runs the API server until a signal. */
export async function runApiServer(flags: ApiServerFlags): Promise<void> {
  const embedded = await startEmbeddedServer(flags, { clock: systemClock(), random: systemRandom() });
  const { server, kubeconfig, context, dataDir } = embedded;
  if (flags.memory !== true) {
    const startedMs = systemClock().nowMs();
    await recordRunning(dataDir, {
      pid: process.pid,
      command: "apiserver",
      api: server.url,
      kubeconfig,
      context,
      startedMs,
    });
  }
  if (flags.output === "json") {
    process.stdout.write(`${JSON.stringify({ ready: true, api: server.url, kubeconfig, context })}\n`);
  } else {
    process.stdout.write(`ready: api ${server.url}, kubeconfig ${kubeconfig}\n`);
    process.stdout.write(`try: kubectl --kubeconfig ${kubeconfig} get namespaces\n`);
  }
  const problem = await Promise.race([untilSignal(), embedded.diskFailure]);
  await forgetRunning(dataDir);
  await embedded.stop().catch(() => {});
  if (problem instanceof Error) throw problem;
}
