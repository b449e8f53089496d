import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Pod } from "../model/kubernetes.generated.ts";

/** Which lines of a log are wanted. */
export interface LogOptions {
  readonly container: string;
  readonly follow: boolean;
  readonly previous: boolean;
  readonly timestamps: boolean;
  readonly sinceSeconds: number | undefined;
  readonly sinceTime: string | undefined;
  readonly tailLines: number | undefined;
  readonly limitBytes: number | undefined;
}

/** Whoever runs pods answers for them: a simulated node, or a bridge to a real one. Without one these answer 501. */
export interface PodAgent {
  /** Text in pieces; ends when the log ends, or runs on when it is followed. */
  log?(pod: Pod, options: LogOptions, stopped: AbortSignal): AsyncIterable<string>;
  /** Takes over the connection of `exec`, `attach` or `portforward` (WebSocket). */
  connect?(
    pod: Pod,
    what: "exec" | "attach" | "portforward",
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): void;
}
