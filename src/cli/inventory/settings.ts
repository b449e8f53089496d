/** The settings of a run from environment and flags. Invalid settings are rejected before anything is opened. */

import { inventoryDefaults } from "../../control/inventory/inventoryDefaults.ts";
import type { InventoryOptions } from "../../control/inventory/runInventory.ts";
import { nodeRulesDefault } from "../../decide/inventory/schedulableNode.ts";
import { durationMs } from "../../kubelet/node/faults.ts";
import { UsageError, type UserError } from "../../model/userError.ts";
import type { RunKind } from "../../ports/database.ts";

export type Env = Readonly<Record<string, string | undefined>>;

export interface RunFlags {
  readonly dryRun?: boolean;
  readonly phase?: string;
  readonly acceptDrop?: boolean;
  readonly failIfLocked?: boolean;
  readonly evenIfPaused?: boolean;
  readonly fullSnapshots?: boolean;
  readonly snapshotScope?: string;
  readonly nameFallback?: boolean;
  readonly deadline?: string;
}

export function runOptions(flags: RunFlags, env: Env): InventoryOptions {
  const { disks } = inventoryDefaults;
  const kinds: Readonly<Record<string, RunKind>> = { gpu: "gpu", disks: "disks", all: "all" };
  const phase = wordOf("--phase", flags.phase, "MUSTER_PHASE", env) ?? { name: "--phase", text: "all" };
  const kind = kinds[phase.text];
  if (kind === undefined) throw usage(phase.name, phase.text, "gpu, disks, or leave it out for both");
  const given = wordOf("--snapshot-scope", flags.snapshotScope, "MUSTER_SNAPSHOT_SCOPE", env);
  const scope = given?.text ?? "disk";
  if (scope !== "disk" && scope !== "volume") throw usage(given?.name ?? "", scope, "disk or volume");
  const seconds = (name: string, fallbackMs: number): number => {
    const text = env[name];
    if (text === undefined || text === "") return fallbackMs;
    if (!/^[0-9]+(\.[0-9]+)?$/.test(text)) throw usage(name, text, "a number of seconds");
    return Number(text) * 1000;
  };
  const tolerated = env["MUSTER_TOLERATED_TAINTS"];
  return {
    ...inventoryDefaults,
    kind,
    dryRun: flags.dryRun ?? switchOf("MUSTER_DRY_RUN", env, false),
    updatedBy: env["HOSTNAME"] || env["POD_NAME"] || "availability-updater",
    names: {
      prefix: env["MUSTER_ASG_PREFIX"] || inventoryDefaults.names.prefix,
      aliases: { ...inventoryDefaults.names.aliases, ...pairsOf("MUSTER_GPU_TYPE_ALIASES", env) },
    },
    nodeRules: {
      toleratedTaints:
        tolerated === undefined ? nodeRulesDefault.toleratedTaints : tolerated.split(",").filter(Boolean),
      heartbeatMsMax: seconds("MUSTER_NODE_HEARTBEAT_SECONDS", nodeRulesDefault.heartbeatMsMax),
    },
    disks: {
      ...disks,
      disks: {
        ...disks.disks,
        leaseMs: seconds("MUSTER_CLAIM_LEASE_SECONDS", disks.disks.leaseMs),
        staleClaimMs: seconds("MUSTER_STALE_CLAIM_SECONDS", disks.disks.staleClaimMs),
        missingMs: seconds("MUSTER_MISSING_GRACE_SECONDS", disks.disks.missingMs),
      },
      snapshots: { ...disks.snapshots, scope },
      trust: { ...disks.trust, dropMax: shareOf("MUSTER_DROP_THRESHOLD", env, disks.trust.dropMax) },
      acceptDrop: flags.acceptDrop ?? false,
      nameFallback: flags.nameFallback ?? switchOf("MUSTER_NAME_TAG_FALLBACK", env, false),
      snapshotsFullEveryMs:
        flags.fullSnapshots === true ? 0 : seconds("MUSTER_SNAPSHOT_FULL_SECONDS", disks.snapshotsFullEveryMs),
    },
    deadlineMs:
      flags.deadline === undefined ? seconds("MUSTER_DEADLINE_SECONDS", 600_000) : spanOf("--deadline", flags.deadline),
    failIfLocked: flags.failIfLocked ?? false,
    evenIfPaused: flags.evenIfPaused ?? false,
  };
}

/** The value of a flag or else of a variable, with the name of its source. */
function wordOf(
  flag: string,
  given: string | undefined,
  variable: string,
  env: Env,
): { readonly name: string; readonly text: string } | undefined {
  if (given !== undefined) return { name: flag, text: given };
  const text = env[variable] ?? "";
  return text === "" ? undefined : { name: variable, text };
}

/** Parses a boolean variable. Other values are rejected: a misspelled dry run must not become a real run. */
export function switchOf(name: string, env: Env, fallback: boolean): boolean {
  const text = env[name] ?? "";
  if (text === "") return fallback;
  const word = text.toLowerCase();
  if (["1", "true", "yes"].includes(word)) return true;
  if (["0", "false", "no"].includes(word)) return false;
  throw usage(name, text, "true or false");
}

const historyDaysDefault = 90;

/** The retention of runs and drift events in days; 0 keeps all. */
export function historyDaysOf(env: Env): number {
  const text = env["MUSTER_HISTORY_DAYS"] ?? "";
  if (text === "") return historyDaysDefault;
  const days = Number(text);
  if (!/^[0-9]+$/.test(text) || days > 36_500) throw usage("MUSTER_HISTORY_DAYS", text, "an integer number of days");
  return days;
}

/** Parses a duration: 5m, 90s. */
export function spanOf(flag: string, text: string): number {
  const ms = durationMs(text);
  if (ms === undefined || ms <= 0) throw usage(flag, text, "a duration such as 5m or 90s");
  return ms;
}

/** The URL of the database: the flag, then DATABASE_URL, then POSTGRES_*; undefined for the embedded one. */
export function databaseUrl(flag: string | undefined, env: Env): string | undefined {
  const url = flag ?? (env["DATABASE_URL"] === "" ? undefined : env["DATABASE_URL"]);
  if (url !== undefined) {
    if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) {
      const name = flag === undefined ? "DATABASE_URL" : "--database-url";
      throw usage(name, "(not shown: it may hold a password)", "postgresql://user:password@host:5432/name");
    }
    return url;
  }
  const names = ["POSTGRES_HOST", "POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"];
  const missing = names.filter((name) => (env[name] ?? "") === "");
  if (missing.length === names.length) return undefined;
  if (missing.length > 0) {
    throw new UsageError(
      "database-settings-incomplete",
      `the environment names a database, but lacks ${missing.join(", ")}`,
      "set all of POSTGRES_HOST, POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, or none of them",
    );
  }
  const [host, user, password, name] = names.map((each) => encodeURIComponent(env[each] ?? ""));
  const port = env["POSTGRES_PORT"] || "5432";
  if (!/^[0-9]+$/.test(port) || Number(port) < 1 || Number(port) > 65_535)
    throw usage("POSTGRES_PORT", port, "a port from 1 to 65535");
  return `postgresql://${user}:${password}@${host}:${port}/${name}`;
}

/** The page size of listings, within the limits of AWS. */
export function pageSize(name: string, env: Env): number | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  const size = Number(text);
  if (!Number.isInteger(size) || size < 5 || size > 1000) throw usage(name, text, "an integer from 5 to 1000");
  return size;
}

function pairsOf(name: string, env: Env): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const part of (env[name] ?? "").split(",").filter(Boolean)) {
    const [from = "", to = "", more] = part.split("=");
    if (from === "" || to === "" || more !== undefined) throw usage(name, part, "name=type pairs, separated by commas");
    pairs[from] = to;
  }
  return pairs;
}

function shareOf(name: string, env: Env, fallback: number): number {
  const text = env[name];
  if (text === undefined || text === "") return fallback;
  const share = Number(text);
  if (!(share >= 0 && share <= 1)) throw usage(name, text, "a share from 0 to 1, such as 0.3");
  return share;
}

function usage(what: string, given: string, wanted: string): UserError {
  return new UsageError("inventory-setting-invalid", `invalid value of ${what}: ${given}`, `pass ${wanted}`);
}
