/**
 * The read-only AWS adapter, on the AWS SDK. The clients are large and loaded when they are first used. Retries are
 * made here and not by the SDK, so that each is counted, waits by the injected clock, and slows down other calls of the
 * same operation.
 */
import type { AutoScalingClient } from "@aws-sdk/client-auto-scaling";
import type { EC2Client } from "@aws-sdk/client-ec2";
import type { EKSClient } from "@aws-sdk/client-eks";
import type { STSClient } from "@aws-sdk/client-sts";
import type {
  CloudIdentity,
  CloudSnapshot,
  CloudVolume,
  ScalingGroup,
  VolumeModification,
} from "../model/inventory/cloud.ts";
import { UserError } from "../model/userError.ts";
import type { Clock } from "../ports/clock.ts";
import type { Cloud, CloudCallOptions, CloudRead, CloudUsage, SnapshotFilter, VolumeFilter } from "../ports/cloud.ts";
import type { Log } from "../ports/log.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Random } from "../ports/random.ts";
import { groupOf, modificationOf, snapshotOf, volumeOf } from "./aws/convert.ts";
import { eksToken } from "./aws/eksToken.ts";
import { type Failure, failureOf, MalformedResponse } from "./aws/failure.ts";
import { type BucketSize, TokenBucket } from "./aws/tokenBucket.ts";
import type { KubeConnection } from "./kubeHttp/connection.ts";

export interface AwsOptions {
  readonly region: string;
  /** The endpoint of the services, if not AWS's own; `AWS_ENDPOINT_URL*` does the same. */
  readonly endpoint?: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly volumePage?: number;
  readonly snapshotPage?: number;
  readonly attemptsMax?: number;
  readonly bucket?: BucketSize;
  /** The time-out of a request. */
  readonly requestMs?: number;
}

export interface AwsPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

export interface Aws extends Cloud {
  /** Starts loading the clients, so that the first call does not wait for them. */
  prepare(): void;
  /** How to reach the API of an EKS cluster from outside of it. */
  cluster(name: string, options?: CloudCallOptions): Promise<KubeConnection>;
  close(): void;
}

const bucketDefault: BucketSize = { size: 90, perSecond: 18 };
const attemptsDefault = 8;
/** A malformed response is retried fewer times than a throttled or unavailable one. */
const malformedAttemptsMax = 3;
const groupPage = 100;
/** EC2 allows 200 values in a filter. */
const filterValuesMax = 200;
const pagesMax = 100_000;

export function awsCloud(options: AwsOptions, ports: AwsPorts): Aws {
  return new AwsCloud(options, ports);
}

class AwsCloud implements Aws {
  private readonly options: AwsOptions;
  private readonly ports: AwsPorts;
  private readonly buckets = new Map<string, TokenBucket>();
  private readonly calls: Record<string, number> = {};
  private retries = 0;
  private throttles = 0;
  private clients: Promise<Clients> | undefined;
  private eks: Promise<EKSClient> | undefined;

  constructor(options: AwsOptions, ports: AwsPorts) {
    this.options = options;
    this.ports = ports;
  }

  prepare(): void {
    // A failure is reported when the clients are first used.
    void this.load().catch(() => {});
  }

  usage(): CloudUsage {
    return { calls: { ...this.calls }, retries: this.retries, throttles: this.throttles };
  }

  async identity(options: CloudCallOptions = {}): Promise<CloudRead<CloudIdentity>> {
    const { sts, GetCallerIdentityCommand } = await this.load();
    return this.call("GetCallerIdentity", options, async () => {
      const { Account } = await sts.send(new GetCallerIdentityCommand({}));
      if (Account === undefined) throw new MalformedResponse("the response to GetCallerIdentity has no account");
      return { account: Account, region: this.options.region };
    });
  }

  async scalingGroups(
    onPage: (groups: readonly ScalingGroup[]) => void,
    options: CloudCallOptions = {},
  ): Promise<CloudRead<undefined>> {
    const { autoScaling, DescribeAutoScalingGroupsCommand } = await this.load();
    return this.pages("DescribeAutoScalingGroups", options, async (token) => {
      const page = { MaxRecords: groupPage, ...(token === undefined ? {} : { NextToken: token }) };
      const answer = await autoScaling.send(new DescribeAutoScalingGroupsCommand(page));
      const items = expectList(answer.AutoScalingGroups, "AutoScalingGroups").map(groupOf);
      return { token: answer.NextToken, deliver: () => onPage(items) };
    });
  }

  async volumes(
    which: VolumeFilter,
    onPage: (volumes: readonly CloudVolume[]) => void,
    options: CloudCallOptions = {},
  ): Promise<CloudRead<undefined>> {
    const { ec2, DescribeVolumesCommand } = await this.load();
    const { volumePage = 500 } = this.options;
    return this.each(volumeFilters(which), options, (Filters) =>
      this.pages("DescribeVolumes", options, async (token) => {
        const page = { Filters, MaxResults: volumePage, ...(token === undefined ? {} : { NextToken: token }) };
        const answer = await ec2.send(new DescribeVolumesCommand(page));
        const items = expectList(answer.Volumes, "Volumes").map(volumeOf);
        return { token: answer.NextToken, deliver: () => onPage(items) };
      }),
    );
  }

  async snapshots(
    which: SnapshotFilter,
    onPage: (snapshots: readonly CloudSnapshot[]) => void,
    options: CloudCallOptions = {},
  ): Promise<CloudRead<undefined>> {
    const { ec2, DescribeSnapshotsCommand } = await this.load();
    const { snapshotPage = 1000 } = this.options;
    return this.each(snapshotFilters(which), options, (Filters) =>
      this.pages("DescribeSnapshots", options, async (token) => {
        const page = {
          OwnerIds: ["self"],
          Filters,
          MaxResults: snapshotPage,
          ...(token === undefined ? {} : { NextToken: token }),
        };
        const answer = await ec2.send(new DescribeSnapshotsCommand(page));
        const items = expectList(answer.Snapshots, "Snapshots").map(snapshotOf);
        return { token: answer.NextToken, deliver: () => onPage(items) };
      }),
    );
  }

  async modifications(
    volumeIds: readonly string[],
    options: CloudCallOptions = {},
  ): Promise<CloudRead<readonly VolumeModification[]>> {
    const { ec2, DescribeVolumesModificationsCommand } = await this.load();
    const found: VolumeModification[] = [];
    const filters = batches(volumeIds).map((ids) => [{ Name: "volume-id", Values: ids }]);
    const read = await this.each(filters, options, (Filters) =>
      this.pages("DescribeVolumesModifications", options, async (token) => {
        const page = { Filters, MaxResults: 500, ...(token === undefined ? {} : { NextToken: token }) };
        const answer = await ec2.send(new DescribeVolumesModificationsCommand(page));
        const items = expectList(answer.VolumesModifications, "VolumesModifications").map(modificationOf);
        return { token: answer.NextToken, deliver: () => found.push(...items) };
      }),
    );
    return read.ok ? { ok: true, value: found } : read;
  }

  async cluster(name: string, options: CloudCallOptions = {}): Promise<KubeConnection> {
    this.eks ??= import("@aws-sdk/client-eks").then(({ EKSClient }) => new EKSClient(this.config()));
    const { DescribeClusterCommand } = await import("@aws-sdk/client-eks");
    const eks = await this.eks;
    const answer = await this.call("DescribeCluster", options, async () => {
      const { cluster } = await eks.send(new DescribeClusterCommand({ name }));
      if (cluster === undefined) throw new MalformedResponse("the response to DescribeCluster has no cluster");
      return cluster;
    });
    if (!answer.ok) {
      throw new UserError(
        "cluster-unreachable",
        `Failed to setup Kubernetes client: EKS cluster ${name}: ${answer.why}`,
        "set EKS_CLUSTER_NAME and AWS_REGION to an existing cluster, or pass --kubeconfig",
      );
    }
    const { endpoint = "", certificateAuthority } = answer.value;
    const { sts } = await this.load();
    return {
      server: endpoint,
      namespace: "default",
      authority: Buffer.from(certificateAuthority?.data ?? "", "base64").toString("utf8"),
      credentials: async () => {
        const credentials = await sts.config.credentials();
        const { region } = this.options;
        const where = this.options.endpoint ?? process.env["AWS_ENDPOINT_URL_STS"] ?? process.env["AWS_ENDPOINT_URL"];
        const token = eksToken({
          cluster: name,
          region,
          credentials,
          // The cluster checks the date of the signature, and this machine's clock may be wrong.
          nowMs: this.ports.clock.nowMs() + (sts.config.systemClockOffset ?? 0),
          ...(where === undefined ? {} : { endpoint: where }),
        });
        // EKS accepts the token for 15 minutes; it is replaced after 13.
        return { authorization: `Bearer ${token}`, goodForMs: 13 * 60_000 };
      },
    };
  }

  close(): void {
    void this.clients?.then(({ ec2, autoScaling, sts }) => {
      ec2.destroy();
      autoScaling.destroy();
      sts.destroy();
    });
    void this.eks?.then((eks) => eks.destroy());
  }

  // --- calls

  /** Reads several lists one after the other; the first failure is returned. */
  private async each<F>(
    filters: readonly F[],
    options: CloudCallOptions,
    read: (filter: F) => Promise<CloudRead<undefined>>,
  ): Promise<CloudRead<undefined>> {
    for (const filter of filters) {
      if (options.cancel?.cancelled === true) return cancelled;
      const answer = await read(filter);
      if (!answer.ok) return answer;
    }
    return { ok: true, value: undefined };
  }

  /** Reads every page until there is no token. A page may be empty; if a page fails, the list fails. */
  private async pages(
    operation: string,
    options: CloudCallOptions,
    read: (token: string | undefined) => Promise<{ token: string | undefined; deliver: () => void }>,
  ): Promise<CloudRead<undefined>> {
    let token: string | undefined;
    for (let count = 1; count <= pagesMax; count++) {
      const answer = await this.call(operation, options, () => read(token));
      if (!answer.ok) return answer;
      answer.value.deliver();
      const next = answer.value.token;
      if (next === undefined || next === "") return { ok: true, value: undefined };
      if (next === token) {
        return { ok: false, reason: "Malformed", why: `${operation}: page ${count} has its own token as NextToken` };
      }
      token = next;
    }
    return { ok: false, reason: "Malformed", why: `${operation}: more than ${pagesMax} pages` };
  }

  private async call<T>(operation: string, options: CloudCallOptions, call: () => Promise<T>): Promise<CloudRead<T>> {
    const bucket = this.bucketOf(operation);
    const { attemptsMax = attemptsDefault } = this.options;
    const { log, metrics, random } = this.ports;
    let clockCorrected = false;
    for (let attempt = 1; ; attempt++) {
      await this.wait(bucket.take(), options);
      if (options.cancel?.cancelled === true) return cancelled;
      this.calls[operation] = (this.calls[operation] ?? 0) + 1;
      metrics.count("muster_inventory_aws_calls_total", { operation });
      let failure: Failure;
      try {
        const value = await this.unlessCancelled(call(), options);
        if (value === stopped) return cancelled;
        bucket.accepted();
        return { ok: true, value };
      } catch (error) {
        failure = failureOf(error);
      }
      if (failure.reason === "Throttled") {
        this.throttles++;
        bucket.refused();
        metrics.count("muster_inventory_aws_throttles_total", { operation });
      }
      const most = failure.reason === "Malformed" ? Math.min(malformedAttemptsMax, attemptsMax) : attemptsMax;
      const isFirstSkew: boolean = failure.clockCorrected === true && !clockCorrected;
      clockCorrected ||= isFirstSkew;
      if (!(failure.retry || isFirstSkew) || attempt >= most) {
        return { ok: false, reason: failure.reason, why: `${operation}: ${failure.why} (attempt ${attempt})` };
      }
      this.retries++;
      const ceilingMs = Math.min(20_000, 100 * 2 ** attempt);
      const pauseMs = ceilingMs / 2 + (random.uint32() % (ceilingMs / 2));
      log.warn(
        { operation, attempt, reason: failure.reason, why: failure.why, pauseMs },
        "retrying the call to the cloud",
      );
      await this.wait(pauseMs, options);
    }
  }

  /** A cancelled run does not wait for a pending response. */
  private unlessCancelled<T>(answer: Promise<T>, { cancel }: CloudCallOptions): Promise<T | typeof stopped> {
    if (cancel === undefined) return answer;
    return new Promise((done, fail) => {
      const forget = cancel.onCancel(() => done(stopped));
      answer.then(done, fail).finally(forget);
    });
  }

  private wait(ms: number, { cancel }: CloudCallOptions): Promise<void> {
    if (ms <= 0 || cancel?.cancelled === true) return Promise.resolve();
    return new Promise((done) => {
      let forget = (): void => {};
      const stop = this.ports.clock.after(ms, () => {
        forget();
        done();
      });
      forget =
        cancel?.onCancel(() => {
          stop();
          done();
        }) ?? forget;
    });
  }

  private bucketOf(operation: string): TokenBucket {
    let bucket = this.buckets.get(operation);
    if (bucket === undefined) {
      bucket = new TokenBucket(this.ports.clock, this.options.bucket ?? bucketDefault);
      this.buckets.set(operation, bucket);
    }
    return bucket;
  }

  private config() {
    // package-lock.json pins the SDK, so its warning about Node versions of later releases does not concern users.
    process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
    const { region, endpoint, credentials, requestMs = 60_000 } = this.options;
    return {
      region,
      // One attempt: retries are made by this adapter. The clock offset that the SDK takes from a refusal applies to
      // the retry.
      maxAttempts: 1,
      requestHandler: { requestTimeout: requestMs, connectionTimeout: 10_000 },
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(credentials === undefined ? {} : { credentials }),
    };
  }

  private load(): Promise<Clients> {
    this.clients ??= loadClients(this.config()).catch((error: unknown) => {
      // The next call tries again.
      this.clients = undefined;
      throw error;
    });
    return this.clients;
  }
}

const stopped = Symbol("stopped");

const cancelled = { ok: false, reason: "Cancelled", why: "the run was stopped" } as const;

interface Clients {
  readonly ec2: EC2Client;
  readonly autoScaling: AutoScalingClient;
  readonly sts: STSClient;
  readonly DescribeVolumesCommand: typeof import("@aws-sdk/client-ec2").DescribeVolumesCommand;
  readonly DescribeSnapshotsCommand: typeof import("@aws-sdk/client-ec2").DescribeSnapshotsCommand;
  readonly DescribeVolumesModificationsCommand: typeof import("@aws-sdk/client-ec2").DescribeVolumesModificationsCommand;
  readonly DescribeAutoScalingGroupsCommand: typeof import("@aws-sdk/client-auto-scaling").DescribeAutoScalingGroupsCommand;
  readonly GetCallerIdentityCommand: typeof import("@aws-sdk/client-sts").GetCallerIdentityCommand;
}

async function loadClients(config: object): Promise<Clients> {
  const [ec2, autoScaling, sts] = await Promise.all([
    import("@aws-sdk/client-ec2"),
    import("@aws-sdk/client-auto-scaling"),
    import("@aws-sdk/client-sts"),
  ]);
  return {
    ec2: new ec2.EC2Client(config),
    autoScaling: new autoScaling.AutoScalingClient(config),
    sts: new sts.STSClient(config),
    DescribeVolumesCommand: ec2.DescribeVolumesCommand,
    DescribeSnapshotsCommand: ec2.DescribeSnapshotsCommand,
    DescribeVolumesModificationsCommand: ec2.DescribeVolumesModificationsCommand,
    DescribeAutoScalingGroupsCommand: autoScaling.DescribeAutoScalingGroupsCommand,
    GetCallerIdentityCommand: sts.GetCallerIdentityCommand,
  };
}

/** A response without the list is malformed, not an empty list. */
function expectList<T>(items: readonly T[] | undefined, name: string): readonly T[] {
  if (items === undefined) throw new MalformedResponse(`the response has no ${name}`);
  return items;
}

type Filters = { Name: string; Values: string[] }[];

const ours: Filters = [{ Name: "tag-key", Values: ["gpu-dev-user"] }];

/** By filter and not by id: a request for ids fails if one of them does not exist. */
function volumeFilters(which: VolumeFilter): Filters[] {
  switch (which.type) {
    case "tagged":
      return [ours];
    case "ids":
      return batches(which.ids).map((Values) => [{ Name: "volume-id", Values }]);
    case "users":
      return batches(which.users).map((Values) => [{ Name: "tag:gpu-dev-user", Values }]);
  }
}

function snapshotFilters(which: SnapshotFilter): Filters[] {
  switch (which.type) {
    case "all":
      // A filter by status, because EC2 throttles calls without a filter sooner.
      return [[{ Name: "status", Values: ["pending", "completed", "error"] }]];
    case "startedOn":
      return batches(which.prefixes).map((Values) => [{ Name: "start-time", Values }]);
    case "pending":
      return [[{ Name: "status", Values: ["pending"] }]];
    case "volumes":
      return batches(which.ids).map((Values) => [{ Name: "volume-id", Values }]);
    case "users":
      return batches(which.users).map((Values) => [{ Name: "tag:gpu-dev-user", Values }]);
  }
}

function batches(values: readonly string[]): string[][] {
  const found: string[][] = [];
  for (let at = 0; at < values.length; at += filterValuesMax) found.push(values.slice(at, at + filterValuesMax));
  return found;
}
