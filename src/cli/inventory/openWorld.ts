/** Opens what a run needs, from flags and environment: the database, the cloud and the cluster. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Aws, awsCloud } from "../../adapters/aws.ts";
import { openEmbeddedPostgres } from "../../adapters/embeddedPostgres.ts";
import { isInCluster } from "../../adapters/inCluster.ts";
import { kubeHttp } from "../../adapters/kubeHttp.ts";
import { openPostgres, type Postgres } from "../../adapters/postgres.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { readCluster } from "../../control/inventory/readCluster.ts";
import type { InventoryPorts } from "../../control/inventory/runInventory.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { type ClusterFlags, findCluster } from "../findCluster.ts";
import { databaseUrl, type Env, pageSize } from "./settings.ts";

export interface DatabaseFlags {
  readonly databaseUrl?: string;
  readonly dataDir?: string;
}

export interface OpenDatabase {
  readonly database: Postgres;
  close(): Promise<void>;
}

/**
 * The database of the flags, for who wants to look at it. In a folder without one nothing is made: the zeros of a database that
 * nobody has ever filled would be read as numbers.
 */
export async function openDatabaseThatIs(flags: DatabaseFlags, env: Env, log: Log): Promise<OpenDatabase> {
  const dataDir = resolve(flags.dataDir ?? ".muster");
  if (databaseUrl(flags.databaseUrl, env) === undefined && !existsSync(join(dataDir, "postgres"))) {
    throw new UserError(
      "database-none",
      `there is no inventory in ${dataDir}`,
      "pass --data-dir with the folder of `muster up`, or name a database with --database-url or POSTGRES_*; `muster inventory run --once` begins one",
    );
  }
  return openDatabase(flags, env, log);
}

/** The database of the flags, migrated; the embedded one is made and started where nobody runs it yet. */
export async function openDatabase(flags: DatabaseFlags, env: Env, log: Log): Promise<OpenDatabase> {
  const given = databaseUrl(flags.databaseUrl, env);
  const embedded = given === undefined ? await openEmbeddedPostgres(resolve(flags.dataDir ?? ".muster")) : undefined;
  const url = given ?? embedded?.url ?? "";
  const applicationName = env["APP_NAME"] || "muster-inventory";
  const healthCheck = env["DB_POOL_HEALTH_CHECK"] !== "false";
  try {
    const database = await openPostgres({ url, applicationName, healthCheck }, { log });
    const { applied, blocked } = await database.migrate();
    if (applied.length > 0) log.info({ applied }, "the schema was brought up to date");
    for (const { name, by } of blocked) log.warn({ name, by }, "a step of the schema waits for a person");
    return {
      database,
      close: async () => {
        await database.close();
        await embedded?.stop();
      },
    };
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}

export interface OpenWorld {
  readonly ports: InventoryPorts;
  /** Undefined where the cluster's API could not be found. */
  readonly kube: KubeApi | undefined;
  close(): Promise<void>;
}

export async function openWorld(
  flags: DatabaseFlags & ClusterFlags,
  env: Env,
  tools: { readonly log: Log; readonly metrics: Metrics },
): Promise<OpenWorld> {
  const { log, metrics } = tools;
  const clock = systemClock();
  const random = systemRandom();
  const cloud = openCloud(flags, env, { clock, random, log, metrics });
  // The SDK is large: it is read from disk while the database is opened.
  cloud?.prepare();
  const { database, close } = await openDatabase(flags, env, log);
  const kube = await openCluster(flags, env, cloud, { clock, log });
  return {
    kube: typeof kube === "string" ? undefined : kube.api,
    ports: {
      clock,
      log,
      metrics,
      database,
      cloud,
      cluster:
        typeof kube === "string" ? async () => ({ ok: false, why: kube }) : (cancel) => readCluster(kube.api, cancel),
    },
    close: async () => {
      if (typeof kube !== "string") kube.api.close();
      cloud?.close();
      await close();
    },
  };
}

/** What `muster up --demo` leaves behind, so that other commands find its cloud. */
export const cloudFile = "cloud.json";

function openCloud(flags: DatabaseFlags, env: Env, ports: Parameters<typeof awsCloud>[1]): Aws | undefined {
  if ((env["CLOUD_PROVIDER"] || "aws") !== "aws") return undefined;
  const volumePage = pageSize("MUSTER_VOLUME_PAGE", env);
  const snapshotPage = pageSize("MUSTER_SNAPSHOT_PAGE", env);
  const numbers = {
    ...(volumePage === undefined ? {} : { volumePage }),
    ...(snapshotPage === undefined ? {} : { snapshotPage }),
  };
  const played = join(resolve(flags.dataDir ?? ".muster"), cloudFile);
  const isSaid = env["AWS_ENDPOINT_URL"] !== undefined || env["AWS_ACCESS_KEY_ID"] !== undefined || isInCluster(env);
  if (!isSaid && existsSync(played)) {
    const { url, region } = JSON.parse(readFileSync(played, "utf8")) as { url: string; region: string };
    const credentials = { accessKeyId: "standin", secretAccessKey: "standin" };
    return awsCloud({ region, endpoint: url, credentials, ...numbers }, ports);
  }
  return awsCloud({ region: env["AWS_REGION"] || "us-east-2", ...numbers }, ports);
}

/** The API of the cluster, or why there is none: a run without it still knows what the cloud says. */
async function openCluster(
  flags: ClusterFlags,
  env: Env,
  cloud: Aws | undefined,
  ports: { readonly clock: InventoryPorts["clock"]; readonly log: Log },
): Promise<{ readonly api: ReturnType<typeof kubeHttp> } | string> {
  try {
    const isNamed = flags.kubeconfig !== undefined || flags.context !== undefined;
    const eks = env["EKS_CLUSTER_NAME"] || undefined;
    const outside = !isNamed && !isInCluster(env) && eks !== undefined && cloud !== undefined;
    const connection = outside ? await cloud.cluster(eks) : await findCluster(flags);
    return { api: kubeHttp(connection, ports, { fieldManager: "muster-inventory" }) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    ports.log.error({ why }, "Failed to setup Kubernetes client");
    return why;
  }
}
