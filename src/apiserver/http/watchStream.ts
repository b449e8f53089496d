import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import type { JsonObject } from "../../model/objects/json.ts";
import type { Status } from "../../model/objects/status.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { WatchEvent } from "../storage/watchHub.ts";
import { encodeWatchFrame } from "../wire/protobufEncode.ts";
import { bytesIn, objectIn } from "./encode.ts";

/** A client with a larger backlog is disconnected and has to list again; events are never skipped. */
const backlogBytesMax = 64 * 1024 * 1024;

/** The initial events of a watch are sent in chunks of about this size. */
const flushBytes = 256 * 1024;

/** Encodes one event as one frame: a line of JSON, or a WatchEvent with its length. */
export type EncodeEvent = (event: WatchEvent) => Buffer;

/** The form of the events of a watch. */
export interface WatchForm {
  readonly contentType: string;
  readonly encode: EncodeEvent;
  encodeError(status: Status): Buffer;
}

/** The form of a watch in JSON. */
export function jsonForm(encode: EncodeEvent): WatchForm {
  return {
    contentType: "application/json",
    encode,
    encodeError: (status) => Buffer.from(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`),
  };
}

/** The delay that a fault adds to watch events. */
export interface Lateness {
  ms(): number;
  after(delayMs: number, run: () => void): () => void;
}

/**
 * One watch on one connection: frames are collected until the end of the turn of the event loop and sent in one chunk.
 */
export class WatchStream {
  private readonly response: ServerResponse;
  private readonly form: WatchForm;
  private readonly ended: () => void;
  private readonly late: Lateness | undefined;
  private pending: Buffer[] = [];
  private pendingBytes = 0;
  private flushQueued = false;
  private blocked = false;
  private open = true;
  delivered = 0;

  constructor(response: ServerResponse, form: WatchForm, ended: () => void, late?: Lateness) {
    this.late = late;
    this.response = response;
    this.form = form;
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
    this.push(this.form.encode(event));
  }

  /**
   * Undefined while the socket accepts more; otherwise resolves when it does, with whether the client is still
   * connected.
   */
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
        // The socket accepted everything; yield to other requests all the same.
        setImmediate(done);
        return;
      }
      this.response.on("drain", done);
      this.response.on("close", done);
    });
  }

  /** The watch fails: the client gets the Status as the last event. */
  fail(status: Status): void {
    this.push(this.form.encodeError(status));
    this.finish();
  }

  /** Ends the stream after the pending events. */
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
 * Frames of the events of this turn, shared by all watches with the same representation: encoded once for all of them.
 * Cleared at the end of the turn, so that no event is kept twice.
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
      const { type, version } = event;
      if (event.initial === true) return frameOf(resource, type, version);
      return this.shared(resource, version, `${type} ${form}`, () => frameOf(resource, type, version));
    };
  }

  /** Encoder for protobuf events of a built-in resource. */
  protobufEncoder(resource: Resource): EncodeEvent {
    const { apiVersion } = resource;
    const { kind } = resource.type;
    return (event) => {
      if (event.type === "BOOKMARK") {
        const metadata = JSON.parse(`{${bookmarkMetadata(event)}}`) as JsonObject;
        return encodeWatchFrame("BOOKMARK", { apiVersion, kind, metadata });
      }
      const { type, version } = event;
      const encode = (): Buffer => encodeWatchFrame(type, objectIn(resource, version) as JsonObject);
      return event.initial === true
        ? encode()
        : this.shared(resource, version, `${type} ${apiVersion} protobuf`, encode);
    };
  }

  private shared(resource: Resource, version: Version, key: string, encode: () => Buffer): Buffer {
    let forms = this.frames.get(version);
    if (forms === undefined) {
      forms = new Map();
      this.frames.set(version, forms);
      this.clearSoon();
    }
    let frame = forms.get(key);
    if (frame === undefined) {
      frame = encode();
      forms.set(key, frame);
      this.observe(resource, frame.length);
    }
    return frame;
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

/** The metadata of a bookmark: the revision, and whether the initial events are complete. */
export function bookmarkMetadata(event: { revision: number; initialEventsEnd: boolean }): string {
  const annotations = event.initialEventsEnd ? ',"annotations":{"k8s.io/initial-events-end":"true"}' : "";
  return `"resourceVersion":"${event.revision}"${annotations}`;
}
