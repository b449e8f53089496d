import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import type { Status } from "../../model/objects/status.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { WatchEvent } from "../storage/watchHub.ts";
import { bytesIn } from "./encode.ts";

/** A consumer that lets this much pile up is disconnected; it must list again, it is never skipped. */
const backlogBytesMax = 64 * 1024 * 1024;

/** The initial set of a watch leaves in pieces of about this size. */
const flushBytes = 256 * 1024;

/** Turns one event into one line. */
export type EncodeEvent = (event: WatchEvent) => Buffer;

/** By how much a fault makes watches late. */
export interface Lateness {
  ms(): number;
  after(delayMs: number, run: () => void): () => void;
}

/** One watch on one connection: frames gather until the end of the turn and leave in one chunk. */
export class WatchStream {
  private readonly response: ServerResponse;
  private readonly encode: EncodeEvent;
  private readonly ended: () => void;
  private readonly late: Lateness | undefined;
  private pending: Buffer[] = [];
  private pendingBytes = 0;
  private flushQueued = false;
  private blocked = false;
  private open = true;
  delivered = 0;

  constructor(response: ServerResponse, encode: EncodeEvent, ended: () => void, late?: Lateness) {
    this.late = late;
    this.response = response;
    this.encode = encode;
    this.ended = ended;
    response.on("close", () => this.end());
    response.on("drain", () => {
      this.blocked = false;
      this.flush();
    });
  }

  deliver(event: WatchEvent): void {
    if (!this.open) return;
    this.delivered++;
    this.push(this.encode(event));
  }

  /** Undefined while more can be taken at once; otherwise whether the client still listens, once there is room. */
  room(): Promise<boolean> | undefined {
    if (this.open && this.pendingBytes < flushBytes && !this.blocked) return undefined;
    return new Promise((resolve) => {
      const done = (): void => {
        this.response.off("drain", done);
        this.response.off("close", done);
        resolve(this.open);
      };
      this.flush();
      if (!this.open || !this.blocked) {
        // The socket took it all; other requests get their turn all the same.
        setImmediate(done);
        return;
      }
      this.response.on("drain", done);
      this.response.on("close", done);
    });
  }

  /** The watch fails in the middle: the client reads the reason as the last event. */
  fail(status: Status): void {
    this.push(Buffer.from(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`));
    this.finish();
  }

  /** Ends cleanly after what is pending. */
  finish(): void {
    if (!this.open) return;
    this.open = false;
    this.response.end(this.take());
    this.ended();
  }

  private push(frame: Buffer): void {
    if (!this.open) return;
    this.pending.push(frame);
    this.pendingBytes += frame.length;
    if (this.pendingBytes > backlogBytesMax) {
      this.response.destroy();
      return;
    }
    if (this.flushQueued || this.blocked) return;
    this.flushQueued = true;
    const flush = (): void => {
      this.flushQueued = false;
      this.flush();
    };
    const lateMs = this.late?.ms() ?? 0;
    if (lateMs > 0) this.late?.after(lateMs, flush);
    else queueMicrotask(flush);
  }

  private flush(): void {
    if (!this.open || this.blocked || this.pending.length === 0) return;
    this.blocked = !this.response.write(this.take());
  }

  private take(): Buffer {
    const { pending } = this;
    this.pending = [];
    this.pendingBytes = 0;
    return pending.length === 1 ? (pending[0] as Buffer) : Buffer.concat(pending);
  }

  private end(): void {
    if (!this.open) return;
    this.open = false;
    this.pending = [];
    this.ended();
  }
}

/**
 * Frames of the events of this turn, shared by all watchers that want the same form: encoded once, however many watch.
 * Forgotten at the end of the turn, so that no event is held twice.
 */
export class FrameCache {
  private frames = new Map<Version, Map<string, Buffer>>();
  private clearing = false;
  private readonly observe: (resource: Resource, bytes: number) => void;

  constructor(observe: (resource: Resource, bytes: number) => void = () => {}) {
    this.observe = observe;
  }

  /** Encoder for plain JSON events of a resource. */
  encoder(resource: Resource): EncodeEvent {
    const form = resource.apiVersion;
    const bookmarkHead = `{"type":"BOOKMARK","object":{"kind":${JSON.stringify(resource.type.kind)},"apiVersion":${JSON.stringify(form)},"metadata":{`;
    return (event) => {
      if (event.type === "BOOKMARK") return Buffer.from(`${bookmarkHead}${bookmarkMetadata(event)}}}}\n`);
      if (event.initial === true) return frameOf(resource, event.type, event.version);
      const key = `${event.type} ${form}`;
      let forms = this.frames.get(event.version);
      if (forms === undefined) {
        forms = new Map();
        this.frames.set(event.version, forms);
        this.clearSoon();
      }
      let frame = forms.get(key);
      if (frame === undefined) {
        frame = frameOf(resource, event.type, event.version);
        forms.set(key, frame);
        this.observe(resource, frame.length);
      }
      return frame;
    };
  }

  private clearSoon(): void {
    if (this.clearing) return;
    this.clearing = true;
    setImmediate(() => {
      this.clearing = false;
      this.frames = new Map();
    });
  }
}

function frameOf(resource: Resource, type: "ADDED" | "MODIFIED" | "DELETED", version: Version): Buffer {
  return Buffer.concat([frameHeads[type], bytesIn(resource, version), frameTail]);
}

const frameHeads = {
  ADDED: Buffer.from('{"type":"ADDED","object":'),
  MODIFIED: Buffer.from('{"type":"MODIFIED","object":'),
  DELETED: Buffer.from('{"type":"DELETED","object":'),
};
const frameTail = Buffer.from("}\n");

/** What a bookmark says: how far, and whether the initial set is complete. */
export function bookmarkMetadata(event: { revision: number; initialEventsEnd: boolean }): string {
  const annotations = event.initialEventsEnd ? ',"annotations":{"k8s.io/initial-events-end":"true"}' : "";
  return `"resourceVersion":"${event.revision}"${annotations}`;
}
