import { Buffer } from "node:buffer";
import type { KubeObject } from "../../model/objects/object.ts";
import type { SideRecord } from "../../ports/store.ts";

/**
 * One object from one revision on. Versions of a key are a chain towards the past, which serves reads at an exact
 * revision until it is compacted.
 *
 * An object is held once, either parsed or as bytes: the other form is created on demand. Lists, watches and the log
 * use bytes, which take a third of the parsed form, so a server with a log keeps bytes and drops parsed forms (see
 * `forgetObject`); the simulator never encodes and keeps the parsed form.
 */
export class Version {
  readonly revision: number;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly side: SideRecord;
  /** True for a tombstone; `object()` is then the last state at the revision of the deletion. */
  readonly deleted: boolean;
  /** The version before this one, until it is compacted. */
  previous: Version | undefined;
  private readonly recent: RecentlyParsed;
  private parsed: KubeObject | undefined;
  private encoded: Buffer | undefined;

  constructor(
    at: { revision: number; resource: string; namespace: string; name: string; deleted: boolean },
    side: SideRecord,
    content: KubeObject | Buffer,
    previous: Version | undefined,
    recent: RecentlyParsed,
  ) {
    this.revision = at.revision;
    this.resource = at.resource;
    this.namespace = at.namespace;
    this.name = at.name;
    this.deleted = at.deleted;
    this.side = side;
    this.previous = previous;
    this.recent = recent;
    this.parsed = undefined;
    this.encoded = undefined;
    if (Buffer.isBuffer(content)) this.encoded = content;
    else this.parsed = content;
  }

  get key(): string {
    return keyOf(this.namespace, this.name);
  }

  /** The object. Shared by all readers: never change it. */
  object(): KubeObject {
    if (this.parsed !== undefined) return this.parsed;
    const object = JSON.parse((this.encoded as Buffer).toString("utf8")) as KubeObject;
    this.recent.keep(this, object);
    return object;
  }

  bytes(): Buffer {
    this.encoded ??= Buffer.from(JSON.stringify(this.parsed), "utf8");
    return this.encoded;
  }

  /** The same state at another revision. */
  restamp(revision: number): Version {
    const object = this.object();
    const copy: KubeObject = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
    const { resource, namespace, name } = this;
    return new Version({ revision, resource, namespace, name, deleted: true }, this.side, copy, undefined, this.recent);
  }

  /** Bytes that this version occupies, as far as they are known without encoding. */
  get byteLength(): number {
    return this.encoded?.length ?? 0;
  }

  /** Called by the cache of parsed objects only. */
  setParsed(object: KubeObject | undefined): void {
    if (object === undefined && this.encoded === undefined) return;
    this.parsed = object;
  }

  /** Keeps only the bytes; a bounded number of recent objects stay parsed. */
  keepBytes(): void {
    const object = this.parsed;
    this.bytes();
    if (object !== undefined) this.recent.keep(this, object);
  }
}

/** `namespace/name`, or the name alone for cluster-scoped objects. Lists are in this order. */
export function keyOf(namespace: string, name: string): string {
  return namespace === "" ? name : `${namespace}/${name}`;
}

/** The most recently used parsed objects, so that a read-modify-write does not parse what was just written. */
export class RecentlyParsed {
  private readonly ring: (Version | undefined)[];
  private next = 0;

  constructor(length: number) {
    this.ring = new Array<Version | undefined>(length).fill(undefined);
  }

  keep(version: Version, object: KubeObject): void {
    const evicted = this.ring[this.next];
    if (evicted !== undefined && evicted !== version) evicted.setParsed(undefined);
    this.ring[this.next] = version;
    this.next = (this.next + 1) % this.ring.length;
    version.setParsed(object);
  }
}
