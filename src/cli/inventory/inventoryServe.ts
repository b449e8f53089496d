/** `muster inventory serve`: serves the inventory API until a signal. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { serve } from "@hono/node-server";
import { writePrivateFile } from "../../adapters/disk/privateFile.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { runInventory } from "../../control/inventory/runInventory.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import { parsePort } from "../cluster/parsePort.ts";
import { untilSignal } from "../cluster/untilSignal.ts";
import { inventoryApi } from "./api.ts";
import type { InventoryRunFlags } from "./inventory.ts";
import { openInventory } from "./openInventory.ts";
import { runOptions } from "./settings.ts";

export interface ServeFlags extends InventoryRunFlags {
  readonly port: string;
  readonly host: string;
  readonly tokenFile?: string;
}

export async function serveInventory(flags: ServeFlags): Promise<void> {
  const port = parsePort(flags.port);
  runOptions(flags, process.env);
  const log = pinoLog({ level: flags.logLevel, levelCase: "upper" });
  const token = await tokenOf(flags);
  const world = openInventory(flags, process.env, { log, metrics: prometheus() });
  const { reader } = await world.database.mustOpen();
  const app = inventoryApi({
    reader,
    token,
    run: ({ dryRun, phase }) => runInventory(world.ports, runOptions({ ...flags, dryRun, phase }, process.env)),
    cluster: () => world.ports.cluster(new CancelSource()),
    nowMs: () => Date.now(),
  });
  try {
    await new Promise<void>((done, fail) => {
      const server = serve({ fetch: app.fetch, port, hostname: flags.host }, ({ port: chosen }) => {
        const url = `http://${flags.host}:${chosen}`;
        process.stdout.write(flags.output === "json" ? `${JSON.stringify({ ready: true, url })}\n` : `ready: ${url}\n`);
      });
      server.once("error", (cause: NodeJS.ErrnoException) => {
        const cure = "pass --port 0 for a free port, or stop the program that uses this one";
        fail(new UserError("port-in-use", `port ${port} of ${flags.host} is in use`, cure, { cause }));
      });
      void untilSignal().then(() => {
        server.close(() => done());
        if ("closeAllConnections" in server) server.closeAllConnections();
      });
    });
  } finally {
    await world.close();
  }
}

/** The token from the flag's file or the environment, else a generated one in a file that only this user can read. */
async function tokenOf(flags: ServeFlags): Promise<string> {
  const given = process.env["MUSTER_API_TOKEN"];
  if (flags.tokenFile === undefined && given !== undefined && given !== "") return given;
  const file = flags.tokenFile ?? join(resolve(flags.dataDir ?? ".muster"), "inventory-token");
  const known = await readFile(file, "utf8").catch(() => "");
  if (known.trim() !== "") return known.trim();
  if (flags.tokenFile !== undefined) {
    throw new UsageError(
      "inventory-setting-invalid",
      `--token-file ${file} is missing or empty`,
      "pass a file that contains the token",
    );
  }
  const made = randomBytes(24).toString("base64url");
  await writePrivateFile(file, `${made}\n`);
  process.stderr.write(`muster: the token is in ${file}\n`);
  return made;
}
