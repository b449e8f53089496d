/** `muster inventory cloud`: serves the simulated cloud until a signal. */
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { StandInCloud } from "../../standin/cloud.ts";
import { addDemoGroups, addDemoVolumes } from "../../standin/demoCloud.ts";
import { applyScenario } from "../../standin/scenario.ts";
import { startStandIn } from "../../standin/server.ts";
import { parsePort } from "../cluster/parsePort.ts";
import { untilSignal } from "../cluster/untilSignal.ts";

export interface CloudFlags {
  readonly scenario?: string;
  readonly port: string;
  readonly host: string;
  readonly output: "text" | "json";
}

export async function serveCloud(flags: CloudFlags): Promise<void> {
  const port = parsePort(flags.port);
  const cloud = new StandInCloud({ clock: systemClock(), random: systemRandom() });
  if (flags.scenario === undefined) {
    addDemoGroups(cloud, []);
    addDemoVolumes(cloud);
  } else applyScenario(cloud, await readScenario(flags.scenario));
  const server = await startStandIn(cloud, { port, host: flags.host }).catch((cause: NodeJS.ErrnoException) => {
    const cure = "pass --port 0 for a free port, or stop the program that uses this one";
    throw new UserError("port-in-use", `cannot listen on ${flags.host}:${port}: ${cause.code ?? cause.message}`, cure, {
      cause,
    });
  });
  const { url } = server;
  process.stdout.write(
    flags.output === "json"
      ? `${JSON.stringify({ ready: true, url, region: cloud.region })}\n`
      : `ready: AWS_ENDPOINT_URL=${url} AWS_REGION=${cloud.region} AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x\n`,
  );
  await untilSignal();
  await server.stop();
}

async function readScenario(file: string): Promise<unknown> {
  try {
    return parse(await readFile(file, "utf8"));
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(
      "cloud-scenario-invalid",
      `${file}: ${problem}`,
      "pass a YAML file such as examples/inventory/cloud.yaml",
      { cause },
    );
  }
}
