import { Buffer } from "node:buffer";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** Address and credentials of a server. */
export interface Peer {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string } | undefined;
  /** Bearer token, for connections without a certificate. */
  readonly token?: string;
}

/**
 * A minimal HTTP client, so that a benchmark on two cores measures the server: one request at a time on one connection,
 * answers with a Content-Length or in chunks, bodies counted and not read.
 */
export class RawConnection {
  private readonly socket: Socket;
  private readonly peer: Peer;
  private waiting: ((answer: RawAnswer) => void) | undefined;
  private failed: ((error: Error) => void) | undefined;
  private buffer: Buffer = Buffer.alloc(0);
  private left = -1;
  private chunked = false;
  private status = 0;
  private bytes = 0;
  private firstByteNs = 0n;
  private keep: Buffer[] | undefined;

  private constructor(socket: Socket, peer: Peer) {
    this.socket = socket;
    this.peer = peer;
    socket.setNoDelay(true);
    socket.on("data", (data) => this.receive(data));
    socket.on("error", (error) => this.failed?.(error));
    socket.on("close", () => this.failed?.(new Error("the connection was closed")));
  }

  static open(peer: Peer): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const { host, port, tls } = peer;
      const socket: Socket =
        tls === undefined
          ? connect(port, host, () => resolve(new RawConnection(socket, peer)))
          : connectTls({ host, port, ...tls, ALPNProtocols: ["http/1.1"] }, () =>
              resolve(new RawConnection(socket, peer)),
            );
      socket.once("error", reject);
    });
  }

  request(
    method: string,
    path: string,
    body?: string | Buffer,
    contentType = "application/json",
    keep = false,
    accept = "",
  ): Promise<RawAnswer> {
    const length = body === undefined ? 0 : Buffer.byteLength(body);
    const token = this.peer.token === undefined ? "" : `authorization: Bearer ${this.peer.token}\r\n`;
    const type = body === undefined ? "" : `content-type: ${contentType}\r\n`;
    this.left = -1;
    this.bytes = 0;
    this.status = 0;
    this.firstByteNs = 0n;
    this.keep = keep ? [] : undefined;
    return new Promise((resolve, reject) => {
      this.waiting = resolve;
      this.failed = reject;
      const head = `${method} ${path} HTTP/1.1\r\nhost: bench\r\nuser-agent: muster-bench/1\r\n${token}${type}${accept === "" ? "" : `accept: ${accept}\r\n`}content-length: ${length}\r\n\r\n`;
      if (body === undefined) this.socket.write(head);
      else if (typeof body === "string") this.socket.write(head + body);
      else this.socket.write(Buffer.concat([Buffer.from(head), body]));
    });
  }

  /** Starts a watch; `onData` gets what arrives, headers and chunk frames included. */
  stream(path: string, onData: (data: Buffer) => void): void {
    const token = this.peer.token === undefined ? "" : `authorization: Bearer ${this.peer.token}\r\n`;
    this.socket.removeAllListeners("data");
    this.socket.on("data", onData);
    this.socket.write(`GET ${path} HTTP/1.1\r\nhost: bench\r\nuser-agent: muster-bench/1\r\n${token}\r\n`);
  }

  close(): void {
    this.failed = undefined;
    this.socket.destroy();
  }

  private receive(data: Buffer): void {
    if (this.firstByteNs === 0n) this.firstByteNs = process.hrtime.bigint();
    this.bytes += data.length;
    this.keep?.push(data);
    if (this.status === 0) {
      this.buffer = this.buffer.length === 0 ? data : Buffer.concat([this.buffer, data]);
      const end = this.buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = this.buffer.toString("latin1", 0, end).toLowerCase();
      this.status = Number(head.slice(9, 12));
      const at = head.indexOf("content-length:");
      this.chunked = at < 0 && head.includes("transfer-encoding: chunked");
      const body = this.buffer.subarray(end + 4);
      this.buffer = Buffer.alloc(0);
      if (this.chunked) this.left = 0;
      else this.left = at < 0 ? 0 : Number.parseInt(head.slice(at + 15), 10) - body.length;
      if (this.chunked ? endsChunks(body) : this.left <= 0) this.finish();
      return;
    }
    if (this.chunked) {
      if (endsChunks(data)) this.finish();
      return;
    }
    this.left -= data.length;
    if (this.left <= 0) this.finish();
  }

  private finish(): void {
    const { waiting } = this;
    this.waiting = undefined;
    this.failed = undefined;
    const text = this.keep === undefined ? "" : Buffer.concat(this.keep).toString("utf8");
    waiting?.({ status: this.status, bytes: this.bytes, firstByteNs: this.firstByteNs, text });
  }
}

export interface RawAnswer {
  readonly status: number;
  readonly bytes: number;
  readonly firstByteNs: bigint;
  /** Headers and body, when they were to be kept. */
  readonly text: string;
}

const lastChunk = Buffer.from("0\r\n\r\n");

function endsChunks(data: Buffer): boolean {
  return data.length >= 5 && data.subarray(data.length - 5).equals(lastChunk);
}
