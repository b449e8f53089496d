/**
 * A cloud that is made up: groups, volumes and snapshots in memory, listed in pages and by filters as AWS does, with
 * its faults as knobs. Wire formats are other files' business; the simulator calls this without any.
 */
import type { CloudSnapshot, CloudVolume, ScalingGroup, VolumeModification } from "../model/inventory/cloud.ts";
import type { Clock } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import { CloudError } from "./cloudError.ts";
import type { CloudFaults, FailKind, FailRule } from "./faults.ts";
import { type Filter, matcher, tagFields } from "./filters.ts";

export interface StandInVolume extends CloudVolume {
  readonly zone: string;
  /** When it was deleted; it is listed a while longer when reads are stale. */
  readonly deletedMs?: number;
  /** When it became visible; before that, reads that are stale do not show it. */
  readonly madeMs: number;
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

/** What a call turned out to be: it goes through, or it fails in one of the ways that are played. */
export type CallVerdict = "ok" | Extract<FailKind, "truncated" | "unrelated" | "hangUp">;

interface Listing {
  readonly operation: string;
  readonly asked: string;
  readonly items: readonly unknown[];
  at: number;
}

const volumeFilters = [
  "volume-id",
  "status",
  "size",
  "create-time",
  "snapshot-id",
  "availability-zone",
  "attachment.status",
  "attachment.instance-id",
];
const snapshotFilters = ["snapshot-id", "volume-id", "status", "start-time", "owner-id", "volume-size", "description"];
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

  /** Turns the knobs; counting of calls begins anew. */
  setFaults(faults: CloudFaults): void {
    this.faults = faults;
    this.ruleHits = new Map();
    this.sinceFaults = new Map();
    this.buckets.clear();
  }

  /** Counts the call, and fails it if a knob says so. */
  enter(operation: string): CallVerdict {
    this.calls.set(operation, (this.calls.get(operation) ?? 0) + 1);
    const nth = (this.sinceFaults.get(operation) ?? 0) + 1;
    this.sinceFaults.set(operation, nth);
    const rule = this.faults.fail?.find((each) => this.strikes(each, operation, nth));
    if (rule !== undefined) {
      this.ruleHits.set(rule, (this.ruleHits.get(rule) ?? 0) + 1);
      const { how } = rule;
      if (how === "truncated" || how === "unrelated" || how === "hangUp") return how;
      throw errorOf(how, operation);
    }
    this.takeToken(operation);
    return "ok";
  }

  private strikes(rule: FailRule, operation: string, nth: number): boolean {
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
    return this.list(
      "DescribeVolumes",
      query,
      volumeFilters,
      { min: 5, max: 1000 },
      () => this.visibleVolumes(),
      volumeFields,
      "InvalidVolume.NotFound",
    );
  }

  describeSnapshots(query: ListQuery): Page<StandInSnapshot> {
    const fields = (snapshot: StandInSnapshot, name: string) =>
      name === "owner-id" ? [this.account] : snapshotFields(snapshot, name);
    return this.list(
      "DescribeSnapshots",
      query,
      snapshotFilters,
      { min: 5, max: 1000 },
      () => [...this.snapshots.values()],
      fields,
      "InvalidSnapshot.NotFound",
    );
  }

  describeModifications(query: ListQuery): Page<VolumeModification & { id: string }> {
    const items = [...this.modifications.values()].map((each) => ({ ...each, id: each.volumeId }));
    const known = ["volume-id", "modification-state"];
    const fields = (each: VolumeModification, name: string) => (name === "volume-id" ? [each.volumeId] : [each.state]);
    return this.list(
      "DescribeVolumesModifications",
      query,
      known,
      { min: 1, max: 500 },
      () => items,
      fields,
      "InvalidVolumeModification.NotFound",
    );
  }

  describeGroups(query: ListQuery): Page<ScalingGroup & { id: string }> {
    const items = (): (ScalingGroup & { id: string })[] =>
      [...this.groups.values()].map((each) => ({ ...each, id: each.name }));
    const fields = (each: ScalingGroup, name: string) => tagFields(each.tags, name) ?? [];
    const { ids, ...rest } = query;
    // Here asking for names narrows the list; a name that does not exist is simply not in it.
    const named =
      ids === undefined || ids.length === 0 ? items : () => items().filter(({ name }) => ids.includes(name));
    return this.list(
      "DescribeAutoScalingGroups",
      { pageSize: 50, ...rest },
      [],
      { min: 1, max: 100 },
      named,
      fields,
      "",
    );
  }

  private visibleVolumes(): StandInVolume[] {
    const { staleMs = 0 } = this.faults;
    const nowMs = this.clock.nowMs();
    return [...this.volumes.values()].filter(({ madeMs, deletedMs }) => {
      if (deletedMs !== undefined) return nowMs - deletedMs < staleMs;
      return staleMs === 0 || nowMs - madeMs >= staleMs;
    });
  }

  private list<T extends { readonly id: string }>(
    operation: string,
    query: ListQuery,
    known: readonly string[],
    size: { min: number; max: number },
    items: () => readonly T[],
    fields: (item: T, name: string) => readonly string[],
    notFound: string,
  ): Page<T> {
    const { filters, ids = [], pageSize, token } = query;
    if (pageSize !== undefined && (pageSize < size.min || pageSize > size.max)) {
      throw new CloudError("InvalidParameterValue", 400, `a page of ${pageSize} is outside ${size.min} to ${size.max}`);
    }
    if (pageSize !== undefined && ids.length > 0) {
      throw new CloudError("InvalidParameterCombination", 400, "ids and a page size exclude each other");
    }
    for (const { name, values } of filters) {
      if (!known.includes(name) && !name.startsWith("tag:") && name !== "tag-key" && name !== "tag-value") {
        throw new CloudError("InvalidParameterValue", 400, `the filter '${name}' is invalid`);
      }
      if (values.length > filterValuesMax) {
        throw new CloudError("FilterLimitExceeded", 400, `a filter takes ${filterValuesMax} values`);
      }
    }
    const asked = JSON.stringify([operation, filters, ids, pageSize ?? null]);
    let listing: Listing;
    if (token === undefined) {
      let found: T[];
      if (ids.length > 0) {
        const byId = new Map(items().map((item) => [item.id, item]));
        found = ids.map((id) => {
          const item = byId.get(id);
          if (item === undefined) throw new CloudError(notFound, 400, `The volume or snapshot '${id}' does not exist.`);
          return item;
        });
      } else {
        const test = matcher(filters);
        found = items().filter((item) => test((name) => fields(item, name)));
      }
      listing = { operation, asked, items: this.faults.shuffle === true ? this.shuffled(found) : found, at: 0 };
    } else {
      const held = this.listings.get(token);
      if (held === undefined || held.asked !== asked) {
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
    // Tokens expire; a thousand listings under way are more than anybody has.
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

  // --- what happens in the cloud, by other hands than the inventory's

  createVolume(volume: Partial<StandInVolume> & { readonly id: string }): StandInVolume {
    const nowMs = this.clock.nowMs();
    const made: StandInVolume = {
      sizeGb: 100,
      state: "available",
      createdMs: nowMs,
      madeMs: nowMs,
      snapshotId: "",
      attachments: [],
      tags: {},
      zone: `${this.region}a`,
      ...volume,
    };
    this.volumes.set(made.id, made);
    return made;
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

function volumeFields(volume: StandInVolume, name: string): readonly string[] {
  switch (name) {
    case "volume-id":
      return [volume.id];
    case "status":
      return [volume.state];
    case "size":
      return [String(volume.sizeGb)];
    case "create-time":
      return [new Date(volume.createdMs).toISOString()];
    case "snapshot-id":
      return [volume.snapshotId];
    case "availability-zone":
      return [volume.zone];
    case "attachment.status":
      return volume.attachments.map(({ state }) => state);
    case "attachment.instance-id":
      return volume.attachments.map(({ instanceId }) => instanceId);
    default:
      return tagFields(volume.tags, name) ?? [];
  }
}

function snapshotFields(snapshot: StandInSnapshot, name: string): readonly string[] {
  switch (name) {
    case "snapshot-id":
      return [snapshot.id];
    case "volume-id":
      return [snapshot.volumeId];
    case "status":
      return [snapshot.state];
    case "start-time":
      return [new Date(snapshot.startedMs).toISOString()];
    case "volume-size":
      return [String(snapshot.sizeGb)];
    case "description":
      return [snapshot.description];
    default:
      return tagFields(snapshot.tags, name) ?? [];
  }
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
