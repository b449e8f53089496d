import type { Node, Pod } from "../model/kubernetes.generated.ts";
import type { Cancel } from "./cancel.ts";

/**
 * Serves the pod subresources log, exec and attach, and metrics, of the nodes that it simulates. The server implements
 * the protocols; the agent supplies the content. For all other nodes the server asks their kubelets.
 */
export interface PodAgent {
  /** Whether the agent answers for the containers of this node. */
  plays(node: string): boolean;
  /** Text in pieces; ends when the log ends, or runs on when it is followed. */
  log(pod: Pod, options: LogOptions, stopped: Cancel): AsyncIterable<string>;
  /** Resolves when the command has ended. A refusal is an exception, before any output. */
  exec(pod: Pod, command: ExecCommand, streams: ExecStreams): Promise<ExecEnd>;
  /** Attaches to the running container. */
  attach(pod: Pod, container: string, streams: ExecStreams): Promise<ExecEnd>;
  /** The current usage; undefined where it is unknown. */
  podUsage(pod: Pod): PodUsage | undefined;
  nodeUsage(node: Node): Usage | undefined;
}

/** Selects the lines of a log. */
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
  /** Undefined without stdin. */
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
