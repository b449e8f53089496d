/** Connects a run to the database, the cloud and the cluster that flags and environment select. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Aws, awsCloud } from "../../adapters/aws.ts";
import { openEmbeddedPostgres } from "../../adapters/disk/embeddedPostgres.ts";
import { isInCluster } from "../../adapters/kubernetes/inCluster.ts";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { openPostgres, type Postgres } from "../../adapters/postgres.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { readCluster } from "../../control/inventory/readCluster.ts";
import type { InventoryPorts } from "../../control/inventory/runInventory.ts";
import type { Read } from "../../decide/inventory/planAvailability.ts";
import { UserError } from "../../model/userError.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { type ClusterFlags, findCluster, hasCluster } from "../cluster/findCluster.ts";
import { LateDatabase } from "./lateDatabase.ts";
import { databaseUrl, type Env, historyDaysOf, pageSize, switchOf } from "./settings.ts";

export interface DatabaseFlags {
  readonly databaseUrl?: string;
  readonly dataDir?: string;
}

export interface OpenDatabase {
  readonly database: Postgres;
  close(): Promise<void>;
}

/**
 * Opens the selected database for reading. None is created in a folder that has none: the zeros of an empty database
 * would look like figures.
 */
export async function openExistingDatabase(flags: DatabaseFlags, env: Env, log: Log): Promise<OpenDatabase> {
  const dataDir = resolve(flags.dataDir ?? ".muster");
  if (databaseUrl(flags.databaseUrl, env) === undefined && !existsSync(join(dataDir, "postgres"))) {
    throw new UserError(
      "database-none",
      `there is no inventory in ${dataDir}`,
      "pass --data-dir with the folder of `muster up`, or select a database with --database-url or POSTGRES_*; `muster inventory run --once` creates one",
    );
  }
  return openDatabase(flags, env, log);
}

/** Opens and migrates the selected database; the embedded one is created and started if needed. */
export async function openDatabase(
  flags: DatabaseFlags,
  env: Env,
  log: Log,
  timeLeft: () => number | undefined = () => undefined,
): Promise<OpenDatabase> {
  const given = databaseUrl(flags.databaseUrl, env);
  const embedded = given === undefined ? await openEmbeddedPostgres(resolve(flags.dataDir ?? ".muster")) : undefined;
  const url = given ?? embedded?.url ?? "";
  const applicationName = env["APP_NAME"] || "muster-inventory";
  const healthCheck = switchOf("DB_POOL_HEALTH_CHECK", env, true);
  const historyDays = historyDaysOf(env);
  const options = { url, applicationName, healthCheck, ...(historyDays === 0 ? {} : { historyDays }) };
  let database: Postgres | undefined;
  try {
    database = await openPostgres(options, { log }, timeLeft);
    const { applied, blocked } = await database.migrate(timeLeft);
    if (applied.length > 0) log.info({ applied }, "the schema was migrated");
    for (const { name, by } of blocked) log.warn({ name, by }, "a migration is blocked and needs an operator");
    const opened = database;
    return {
      database: opened,
      close: async () => {
        await opened.close();
        await embedded?.stop();
      },
    };
  } catch (error) {
    await database?.close();
    await embedded?.stop();
    throw error;
  }
}

export interface InventoryConnections {
  readonly ports: InventoryPorts;
  readonly database: LateDatabase;
  /** Undefined until the cluster's API was found. */
  kube(): KubeApi | undefined;
  close(): Promise<void>;
}

/** Validates the settings and opens nothing: each run opens what it needs, also what an earlier run could not open. */
export function openInventory(
  flags: DatabaseFlags & ClusterFlags,
  env: Env,
  tools: { readonly log: Log; readonly metrics: Metrics },
): InventoryConnections {
  const { log, metrics } = tools;
  const clock = systemClock();
  const random = systemRandom();
  databaseUrl(flags.databaseUrl, env);
  switchOf("DB_POOL_HEALTH_CHECK", env, true);
  historyDaysOf(env);
  const cloud = openCloud(flags, env, { clock, random, log, metrics });
  // The SDK is large, so it is loaded while the database is opened.
  cloud?.prepare();
  const database = new LateDatabase((timeLeft) => openDatabase(flags, env, log, timeLeft), log);
  let kube: ReturnType<typeof kubeHttp> | undefined;
  return {
    kube: () => kube,
    database,
    ports: {
      clock,
      log,
      metrics,
      database,
      cloud,
      cluster: async (cancel) => {
        if (kube === undefined) {
          const found = await openCluster(flags, env, cloud, { clock, log }, cancel);
          if (!found.ok) return found;
          kube = found.value;
        }
        return readCluster(kube, cancel);
      },
    },
    close: async () => {
      kube?.close();
      cloud?.close();
      await database.close();
    },
  };
}

/** Written by `muster up --demo`, so that other commands find its cloud. */
export const cloudFile = "cloud.json";

function openCloud(flags: DatabaseFlags, env: Env, ports: Parameters<typeof awsCloud>[1]): Aws | undefined {
  if ((env["CLOUD_PROVIDER"] || "aws") !== "aws") return undefined;
  const volumePage = pageSize("MUSTER_VOLUME_PAGE", env);
  const snapshotPage = pageSize("MUSTER_SNAPSHOT_PAGE", env);
  const numbers = {
    ...(volumePage === undefined ? {} : { volumePage }),
    ...(snapshotPage === undefined ? {} : { snapshotPage }),
  };
  const played = demoCloudOf(flags, env);
  if (played !== undefined) {
    const credentials = { accessKeyId: "standin", secretAccessKey: "standin" };
    return awsCloud({ region: played.region, endpoint: played.url, credentials, ...numbers }, ports);
  }
  return awsCloud({ region: env["AWS_REGION"] || "us-east-2", ...numbers }, ports);
}

/** Settings that select an AWS account. A region alone does not. */
const awsSettings =
  /^AWS_(ENDPOINT_URL.*|ACCESS_KEY_ID|PROFILE|DEFAULT_PROFILE|ROLE_ARN|WEB_IDENTITY_TOKEN_FILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|CONTAINER_CREDENTIALS_.*)$/;

/**
 * The simulated cloud of the demo, used only with the demo's database. AWS settings or another database select a real
 * cloud.
 */
export function demoCloudOf(
  flags: DatabaseFlags,
  env: Env,
): { readonly url: string; readonly region: string } | undefined {
  const isSaid = Object.entries(env).some(([name, value]) => awsSettings.test(name) && (value ?? "") !== "");
  if (isSaid || isInCluster(env)) return undefined;
  const file = join(resolve(flags.dataDir ?? ".muster"), cloudFile);
  if (!existsSync(file)) return undefined;
  const played = readCloudFile(file);
  const named = databaseUrl(flags.databaseUrl, env);
  return named === undefined || databaseAddress(named) === played.database ? played : undefined;
}

function readCloudFile(file: string): { url: string; region: string; database?: string } {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as { url: string; region: string; database?: string };
  } catch (error) {
    throw new UserError(
      "cloud-file-damaged",
      `${file} is not JSON`,
      "remove it; `muster up --demo` writes it again at its next start",
      { cause: error },
    );
  }
}

/** The database of an URL, without its password. */
export function databaseAddress(url: string): string {
  const { username, hostname, port, pathname } = new URL(url);
  return `${username}@${hostname}:${port || "5432"}${pathname}`;
}

/** The API of the cluster, or why there is none: a run without a cluster still has the numbers of the cloud. */
async function openCluster(
  flags: ClusterFlags,
  env: Env,
  cloud: Aws | undefined,
  ports: { readonly clock: InventoryPorts["clock"]; readonly log: Log },
  cancel: Cancel,
): Promise<Read<ReturnType<typeof kubeHttp>>> {
  try {
    const isNamed = flags.kubeconfig !== undefined || flags.context !== undefined;
    const eks = env["EKS_CLUSTER_NAME"] || undefined;
    const outside = !isNamed && !isInCluster(env) && eks !== undefined && cloud !== undefined;
    // Its data folder may be that of the database alone.
    const { dataDir: _, ...others } = flags;
    const chosen = hasCluster(flags) ? flags : others;
    const connection = outside ? await cloud.cluster(eks, { cancel }) : await findCluster(chosen);
    return { ok: true, value: kubeHttp(connection, ports, { fieldManager: "muster-inventory" }) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    ports.log.error({ why }, "Failed to setup Kubernetes client");
    return { ok: false, why };
  }
}
