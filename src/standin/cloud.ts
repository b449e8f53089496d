/**
 * A simulated cloud: Auto Scaling groups, volumes and snapshots in memory, listed in pages and by filters as AWS does,
 * with configurable faults. The wire formats are in other files; the simulator calls this class directly.
 */
import type { CloudSnapshot, CloudVolume, ScalingGroup, VolumeModification } from "../model/inventory/cloud.ts";
import type { Clock } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import { CloudError } from "./cloudError.ts";
import type { CloudFaults, FailKind, FailRule } from "./faults.ts";
import {
  type FieldsOf,
  instanceFields,
  known,
  modificationFields,
  type StandInInstance,
  snapshotFields,
  volumeFields,
} from "./fields.ts";
import { type Filter, matcher, tagFields } from "./filters.ts";

export interface StandInVolume extends CloudVolume {
  readonly zone: string;
  /** When the volume was deleted; with `staleMs` it is listed for a while longer. */
  readonly deletedMs?: number;
  /** When the volume was created; with `staleMs` it is not listed for a while. */
  readonly visibleFromMs: number;
}

export interface StandInSnapshot extends CloudSnapshot {
  readonly sizeGb: number;
}

export interface StandInCluster {
  readonly name: string;
  readonly endpoint: string;
  readonly certificateAuthority: string;
}

export interface ListQuery {
  readonly filters: readonly Filter[];
  readonly ids?: readonly string[];
  readonly pageSize?: number;
  readonly token?: string;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly token: string | undefined;
}

/** The result of a call: it succeeds, or it fails in one of the simulated ways. */
export type CallOutcome = "ok" | Extract<FailKind, "truncated" | "unrelated" | "hangUp">;

/** How a resource type is listed. */
interface ListRules<T> {
  readonly isFilter: (filter: string) => boolean;
  readonly fields: FieldsOf<T>;
  readonly size: { readonly min: number; readonly max: number };
  readonly items: () => readonly T[];
  /** The error for an id that does not exist. */
  readonly ids?: (id: string) => CloudError;
  /** The service's error code for an invalid parameter. */
  readonly invalid?: string;
}

interface Listing {
  readonly operation: string;
  readonly request: string;
  readonly items: readonly unknown[];
  at: number;
}

const filterValuesMax = 200;

export class StandInCloud {
  account = "123456789012";
  region = "us-east-2";
  faults: CloudFaults = {};
  readonly groups = new Map<string, ScalingGroup>();
  readonly volumes = new Map<string, StandInVolume>();
  readonly snapshots = new Map<string, StandInSnapshot>();
  readonly modifications = new Map<string, VolumeModification>();
  readonly clusters = new Map<string, StandInCluster>();
  /** How often each operation was called. */
  readonly calls = new Map<string, number>();
  /** Calls that would have changed something: there must be none. */
  readonly mutations: string[] = [];
  private readonly clock: Clock;
  private readonly random: Random;
  private readonly listings = new Map<string, Listing>();
  private readonly buckets = new Map<string, { level: number; atMs: number }>();
  private ruleHits = new Map<FailRule, number>();
  private sinceFaults = new Map<string, number>();
  private tokens = 0;
  private pages = 0;

  constructor(ports: { readonly clock: Clock; readonly random: Random }) {
    this.clock = ports.clock;
    this.random = ports.random;
  }

  get nowMs(): number {
    return this.clock.nowMs() + (this.faults.clockSkewMs ?? 0);
  }

  /** Sets the faults and resets the call counters of their rules. */
  setFaults(faults: CloudFaults): void {
    this.faults = faults;
    this.ruleHits = new Map();
    this.sinceFaults = new Map();
    this.buckets.clear();
  }

  /** Counts the call and applies the faults. */
  beginCall(operation: string): CallOutcome {
    this.calls.set(operation, (this.calls.get(operation) ?? 0) + 1);
    const nth = (this.sinceFaults.get(operation) ?? 0) + 1;
    this.sinceFaults.set(operation, nth);
    const rule = this.faults.fail?.find((each) => this.applies(each, operation, nth));
    if (rule !== undefined) {
      this.ruleHits.set(rule, (this.ruleHits.get(rule) ?? 0) + 1);
      const { how } = rule;
      if (how === "truncated" || how === "unrelated" || how === "hangUp") return how;
      throw errorOf(how, operation);
    }
    this.takeToken(operation);
    return "ok";
  }

  private applies(rule: FailRule, operation: string, nth: number): boolean {
    if (rule.operation !== undefined && rule.operation !== operation) return false;
    if (rule.call !== undefined && rule.call > nth) return false;
    if (rule.call !== undefined && rule.times === undefined && rule.call !== nth) return false;
    return rule.times === undefined || (this.ruleHits.get(rule) ?? 0) < rule.times;
  }

  private takeToken(operation: string): void {
    const { bucket } = this.faults;
    if (bucket === undefined) return;
    const nowMs = this.clock.nowMs();
    const found = this.buckets.get(operation) ?? { level: bucket.size, atMs: nowMs };
    const level = Math.min(bucket.size, found.level + ((nowMs - found.atMs) / 1000) * bucket.perSecond);
    if (level < 1) {
      this.buckets.set(operation, { level, atMs: nowMs });
      throw errorOf("throttle", operation);
    }
    this.buckets.set(operation, { level: level - 1, atMs: nowMs });
  }

  // --- reads

  describeVolumes(query: ListQuery): Page<StandInVolume> {
    return this.list("DescribeVolumes", query, {
      isFilter: known.volumes,
      fields: volumeFields,
      size: { min: 5, max: 1000 },
      items: () => this.visibleVolumes(),
      ids: idsOf("vol", "InvalidVolume", "volume"),
    });
  }

  describeSnapshots(query: ListQuery): Page<StandInSnapshot> {
    return this.list("DescribeSnapshots", query, {
      isFilter: known.snapshots,
      fields: snapshotFields(this.account),
      size: { min: 5, max: 1000 },
      items: () => [...this.snapshots.values()],
      ids: idsOf("snap", "InvalidSnapshot", "snapshot"),
    });
  }

  describeModifications(query: ListQuery): Page<VolumeModification & { id: string }> {
    const ids = idsOf("vol", "InvalidVolume", "volume");
    return this.list("DescribeVolumesModifications", query, {
      isFilter: known.modifications,
      fields: modificationFields,
      size: { min: 1, max: 500 },
      items: () => [...this.modifications.values()].map((each) => ({ ...each, id: each.volumeId })),
      // AWS returns another error for a volume that exists and was never modified.
      ids: (id) =>
        this.volumes.has(id)
          ? new CloudError("InvalidVolumeModification.NotFound", 400, `Modification for volume '${id}' does not exist.`)
          : ids(id),
    });
  }

  describeInstances(query: ListQuery): Page<StandInInstance> {
    const zone = `${this.region}a`;
    return this.list("DescribeInstances", query, {
      isFilter: known.instances,
      fields: instanceFields,
      size: { min: 5, max: 1000 },
      items: () =>
        [...this.groups.values()].flatMap(({ instances, tags }) => instances.map((each) => ({ ...each, zone, tags }))),
      ids: idsOf("i", "InvalidInstanceID", "instance ID"),
    });
  }

  describeGroups(query: ListQuery): Page<ScalingGroup & { id: string }> {
    const { ids = [], ...rest } = query;
    return this.list(
      "DescribeAutoScalingGroups",
      { pageSize: 50, ...rest },
      {
        isFilter: known.groups,
        fields: (each, name) => tagFields(each.tags, name),
        size: { min: 1, max: 100 },
        // Names filter the list; a name that does not exist is not an error.
        items: () =>
          [...this.groups.values()]
            .filter(({ name }) => ids.length === 0 || ids.includes(name))
            .map((each) => ({ ...each, id: each.name })),
        invalid: "ValidationError",
      },
    );
  }

  private visibleVolumes(): StandInVolume[] {
    const { staleMs = 0 } = this.faults;
    const nowMs = this.clock.nowMs();
    return [...this.volumes.values()].filter(({ visibleFromMs, deletedMs }) => {
      if (deletedMs !== undefined) return nowMs - deletedMs < staleMs;
      return staleMs === 0 || nowMs - visibleFromMs >= staleMs;
    });
  }

  private list<T extends { readonly id: string }>(operation: string, query: ListQuery, how: ListRules<T>): Page<T> {
    const { filters, ids = [], token } = query;
    const { invalid = "InvalidParameterValue", size } = how;
    if (query.pageSize !== undefined && !(query.pageSize >= size.min)) {
      throw new CloudError(invalid, 400, `a page of ${query.pageSize} is below ${size.min}`);
    }
    // A larger page size is reduced to the maximum.
    const pageSize = query.pageSize === undefined ? undefined : Math.min(query.pageSize, size.max);
    if (pageSize !== undefined && ids.length > 0) {
      throw new CloudError("InvalidParameterCombination", 400, "ids and a page size exclude each other");
    }
    for (const { name, values } of filters) {
      if (!how.isFilter(name)) throw new CloudError(invalid, 400, `the filter '${name}' is invalid`);
      if (values.length > filterValuesMax) {
        throw new CloudError("FilterLimitExceeded", 400, `a filter takes ${filterValuesMax} values`);
      }
    }
    const request = JSON.stringify([operation, filters, ids, pageSize ?? null]);
    let listing: Listing;
    if (token === undefined) {
      let found = how.items();
      if (ids.length > 0) {
        const byId = new Map(found.map((item) => [item.id, item]));
        const missing = ids.find((id) => !byId.has(id));
        if (missing !== undefined && how.ids !== undefined) throw how.ids(missing);
        found = ids.map((id) => byId.get(id)).filter((item) => item !== undefined);
      }
      const test = matcher(filters);
      found = found.filter((item) => test((name) => how.fields(item, name) ?? []));
      listing = { operation, request, items: this.faults.shuffle === true ? this.shuffled(found) : found, at: 0 };
    } else {
      const held = this.listings.get(token);
      if (held === undefined || held.request !== request) {
        throw new CloudError("InvalidNextToken", 400, "the token is not valid, or has expired");
      }
      listing = { ...held };
    }
    return this.page(listing, pageSize) as Page<T>;
  }

  private page(listing: Listing, pageSize: number | undefined): Page<unknown> {
    const { emptyPageEvery = 0, repeatItems = false } = this.faults;
    if (pageSize === undefined) return { items: listing.items, token: undefined };
    if (emptyPageEvery > 0 && ++this.pages % emptyPageEvery === 0) return { items: [], token: this.keep(listing) };
    const repeat = repeatItems && listing.at > 0 ? 1 : 0;
    const end = Math.min(listing.items.length, listing.at + pageSize - repeat);
    const items = listing.items.slice(listing.at - repeat, end);
    listing.at = end;
    return { items, token: end < listing.items.length ? this.keep(listing) : undefined };
  }

  private keep(listing: Listing): string {
    const token = `t${++this.tokens}-${this.random.uint32().toString(36)}`;
    this.listings.set(token, { ...listing });
    // Old tokens expire: 1,000 lists are kept.
    if (this.listings.size > 1_000) {
      const oldest = this.listings.keys().next().value;
      if (oldest !== undefined) this.listings.delete(oldest);
    }
    return token;
  }

  private shuffled<T>(items: readonly T[]): T[] {
    const order = [...items];
    for (let at = order.length - 1; at > 0; at--) {
      const other = this.random.uint32() % (at + 1);
      const held = order[at] as T;
      order[at] = order[other] as T;
      order[other] = held;
    }
    return order;
  }

  // --- changes of the cloud, which the inventory does not make

  createVolume(volume: Partial<StandInVolume> & { readonly id: string }): StandInVolume {
    const nowMs = this.clock.nowMs();
    const created: StandInVolume = {
      sizeGb: 100,
      state: "available",
      createdMs: nowMs,
      visibleFromMs: nowMs,
      snapshotId: "",
      attachments: [],
      tags: {},
      zone: `${this.region}a`,
      ...volume,
    };
    this.volumes.set(created.id, created);
    return created;
  }

  changeVolume(id: string, change: Partial<StandInVolume>): void {
    const before = this.volumes.get(id);
    if (before !== undefined) this.volumes.set(id, { ...before, ...change });
  }

  attach(id: string, instanceId: string, state = "attached"): void {
    this.changeVolume(id, { state: "in-use", attachments: [{ instanceId, state }] });
  }

  detach(id: string): void {
    this.changeVolume(id, { state: "available", attachments: [] });
  }

  deleteVolume(id: string): void {
    if ((this.faults.staleMs ?? 0) === 0) this.volumes.delete(id);
    else this.changeVolume(id, { deletedMs: this.clock.nowMs() });
  }

  putSnapshot(snapshot: Partial<StandInSnapshot> & { readonly id: string; readonly volumeId: string }): void {
    const before = this.snapshots.get(snapshot.id);
    const blank = { state: "completed", startedMs: this.clock.nowMs(), description: "", tags: {}, sizeGb: 100 };
    this.snapshots.set(snapshot.id, { ...blank, ...before, ...snapshot });
  }
}

/** The error for an unknown id; AWS has another error for a malformed id. */
function idsOf(prefix: string, code: string, what: string): (id: string) => CloudError {
  const wellFormed = new RegExp(`^${prefix}-([0-9a-f]{8}|[0-9a-f]{17})$`);
  const bare = code.replace(/ID$/, "");
  return (id) =>
    wellFormed.test(id)
      ? new CloudError(`${code}.NotFound`, 400, `The ${what} '${id}' does not exist.`)
      : new CloudError(`${bare}ID.Malformed`, 400, `Invalid id: "${id}"`);
}

function errorOf(how: Exclude<FailKind, "truncated" | "unrelated" | "hangUp">, operation: string): CloudError {
  switch (how) {
    case "throttle":
      return operation === "DescribeAutoScalingGroups"
        ? new CloudError("Throttling", 400, "Rate exceeded")
        : new CloudError("RequestLimitExceeded", 503, "Request limit exceeded.");
    case "internal":
      return new CloudError("InternalError", 500, "An internal error has occurred");
    case "unavailable":
      return new CloudError("Unavailable", 503, "The service is unavailable. Please try again shortly.");
    case "denied":
      return operation === "DescribeAutoScalingGroups"
        ? new CloudError("AccessDenied", 403, `not authorized to perform: ${operation}`)
        : new CloudError("UnauthorizedOperation", 403, "You are not authorized to perform this operation.");
    case "notSigned":
      return operation.startsWith("DescribeV") || operation.startsWith("DescribeSn")
        ? new CloudError("AuthFailure", 401, "AWS was not able to validate the provided access credentials")
        : new CloudError("SignatureDoesNotMatch", 403, "The request signature we calculated does not match");
    case "expiredCredentials":
      return new CloudError("ExpiredToken", 403, "The security token included in the request is expired");
    case "expiredToken":
      return new CloudError("InvalidNextToken", 400, "the token is not valid, or has expired");
  }
}
