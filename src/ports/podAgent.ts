import type { Node, Pod } from "../model/kubernetes.generated.ts";
import type { Cancel } from "./cancel.ts";

/**
 * The component that runs pods answers for them: simulated nodes, or a bridge to real ones. The server speaks the
 * protocols; the agent supplies the content. What an agent leaves out answers 501.
 */
export interface PodAgent {
  /** Text in pieces; ends when the log ends, or runs on when it is followed. */
  log?(pod: Pod, options: LogOptions, stopped: Cancel): AsyncIterable<string>;
  /** Runs until the command has ended. A refusal is an exception, before anything was written. */
  exec?(pod: Pod, command: ExecCommand, streams: ExecStreams): Promise<ExecEnd>;
  /** To what runs already. */
  attach?(pod: Pod, container: string, streams: ExecStreams): Promise<ExecEnd>;
  /** How much is in use now; undefined where nothing is known. */
  podUsage?(pod: Pod): PodUsage | undefined;
  nodeUsage?(node: Node): Usage | undefined;
}

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

export interface ExecCommand {
  readonly container: string;
  readonly command: readonly string[];
  readonly tty: boolean;
}

/** Both ends of a remote command. */
export interface ExecStreams {
  /** Undefined without standard input. */
  readonly stdin: AsyncIterable<Uint8Array> | undefined;
  stdout(text: string): void;
  stderr(text: string): void;
  readonly stopped: Cancel;
}

export interface ExecEnd {
  readonly exitCode: number;
}

/** Amounts as Kubernetes writes them. */
export type Usage = Readonly<Record<string, string>>;

export interface PodUsage {
  readonly containers: readonly { readonly name: string; readonly usage: Usage }[];
}
