import type { StoredChange } from "../../ports/store.ts";
import { FrameBuffer, frameHeaderBytes, frameKind, sealFrame } from "./format.ts";

/** Commits that become durable by one write and one sync. */
export class LogBatch {
  readonly #frames: FrameBuffer;
  /** The offset of each frame; the last one is the end. */
  readonly #starts: number[] = [0];
  #done: PromiseWithResolvers | undefined;
  /** Settled after the batch is written, if a new segment begins behind it. */
  rotation: { resolve(): void; reject(error: unknown): void } | undefined;

  /** The highest revision in the batch. */
  lastRevision = 0;

  constructor(frames = new FrameBuffer(64 << 10)) {
    this.#frames = frames;
    frames.used = 0;
  }

  get isEmpty(): boolean {
    return this.#starts.length === 1;
  }

  /** One commit is one frame, so that all of it or nothing is found after a crash. */
  add(changes: readonly StoredChange[]): void {
    const frames = this.#frames;
    const start = frames.used;
    try {
      frames.reserve(frameHeaderBytes);
      frames.used += frameHeaderBytes;
      for (const change of changes) frames.putChange(change);
    } catch (error) {
      frames.used = start;
      throw error;
    }
    this.#starts.push(frames.used);
    this.lastRevision = changes.at(-1)?.revision ?? this.lastRevision;
  }

  /** Computes the checksums. The file is durable up to the offset `synced`, which each frame records. */
  seal(synced: number): Uint8Array {
    const { bytes, used } = this.#frames;
    for (let i = 1; i < this.#starts.length; i++) {
      sealFrame(bytes, this.#starts[i - 1] ?? 0, this.#starts[i] ?? 0, frameKind.changes, synced);
    }
    return bytes.subarray(0, used);
  }

  /** Created only for a caller that awaits it: an unhandled rejection would end the process. */
  whenDone(): Promise<void> {
    this.#done ??= withResolvers();
    return this.#done.promise;
  }

  resolve(): void {
    this.#done?.resolve();
  }

  reject(error: unknown): void {
    this.#done?.reject(error);
    this.rotation?.reject(error);
  }

  /** The buffer, to be reused by the next batch; undefined when it grew too large to keep. */
  reusable(): FrameBuffer | undefined {
    return this.#frames.bytes.byteLength <= 4 << 20 ? this.#frames : undefined;
  }
}

interface PromiseWithResolvers {
  promise: Promise<void>;
  resolve(): void;
  reject(error: unknown): void;
}

function withResolvers(): PromiseWithResolvers {
  let resolve = (): void => {};
  let reject = (_error: unknown): void => {};
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
