/** `muster avail` and `muster disks`. */
import { UserError } from "../../model/userError.ts";
import type { AvailabilityView } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import { untilSignal } from "../cluster/untilSignal.ts";
import { mustAnswer } from "./inventory.ts";
import { type DatabaseFlags, openExistingDatabase } from "./openInventory.ts";
import { spanOf } from "./settings.ts";
import { availabilityRows, availabilityTable, diskState, diskTable } from "./show.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export interface AvailFlags extends DatabaseFlags {
  /** Only this type. */
  readonly type?: string;
  readonly watch?: boolean;
  readonly interval: string;
  readonly output: "text" | "json";
}

export async function showAvailability(flags: AvailFlags): Promise<void> {
  const intervalMs = spanOf("--interval", flags.interval);
  const { database, close } = await openExistingDatabase(flags, process.env, quiet);
  const isScreen = process.stdout.isTTY === true && process.env["NO_COLOR"] === undefined;
  let isOver = false;
  const signal =
    flags.watch === true
      ? untilSignal().then(() => {
          isOver = true;
        })
      : Promise.resolve();
  try {
    for (;;) {
      const view = onlyType(mustAnswer(await database.reader.availability()), flags.type);
      if (flags.output === "json") {
        const shown = { read_at: new Date(view.readMs).toISOString(), types: availabilityRows(view) };
        process.stdout.write(`${JSON.stringify(shown)}\n`);
      } else {
        // Redrawn in place, so that rows do not move between two refreshes.
        if (flags.watch === true && isScreen) process.stdout.write("\u001b[H\u001b[J");
        process.stdout.write(`${availabilityTable(view, isScreen)}\n`);
      }
      if (flags.watch !== true) return;
      await Promise.race([signal, new Promise((done) => setTimeout(done, intervalMs))]);
      if (isOver) return;
    }
  } finally {
    await close();
  }
}

/** Some writers of reservations store `H100`, so types are compared without case. */
function onlyType(view: AvailabilityView, wanted: string | undefined): AvailabilityView {
  if (wanted === undefined) return view;
  const types = view.types.filter(({ gpuType }) => gpuType.toLowerCase() === wanted.toLowerCase());
  if (types.length > 0) return { ...view, types };
  const known = view.types.map(({ gpuType }) => gpuType).join(", ");
  throw new UserError(
    "gpu-type-unknown",
    `there is no active GPU type ${wanted}`,
    known === "" ? "add it to gpu_types" : `choose one of ${known}`,
  );
}

export interface DisksFlags extends DatabaseFlags {
  readonly user?: string;
  readonly deleted?: boolean;
  readonly output: "text" | "json";
}

export async function showDisks(flags: DisksFlags): Promise<void> {
  const { database, close } = await openExistingDatabase(flags, process.env, quiet);
  try {
    const filter = { deleted: flags.deleted ?? false, ...(flags.user === undefined ? {} : { user: flags.user }) };
    const disks = mustAnswer(await database.reader.disks(filter));
    const text =
      flags.output === "json"
        ? JSON.stringify({ disks: disks.map((disk) => ({ ...disk, state: diskState(disk) })) })
        : diskTable(disks, Date.now());
    process.stdout.write(`${text}\n`);
  } finally {
    await close();
  }
}
