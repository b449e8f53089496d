/** A server that speaks a kubelet's protocols, with answers of its own. */
import { createServer, type IncomingMessage, type OutgoingHttpHeader, type Server } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { SpdySession, type SpdyStream } from "../../src/apiserver/http/spdy.ts";
import { webSocketAnswer } from "../../src/apiserver/http/webSocket.ts";

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  /** The common name of the client's certificate. */
  readonly user: string | undefined;
}

export interface Scripted {
  readonly code?: number;
  readonly headers?: Readonly<Record<string, OutgoingHttpHeader>>;
  readonly body: string;
}

export interface ScriptedKubelet {
  readonly port: number;
  readonly seen: SeenRequest[];
  /** The answer to requests whose path begins so; the longest one counts. */
  answer(path: string, scripted: Scripted): void;
  stop(): Promise<void>;
}

/** With a key pair it serves TLS as kubelets do, else HTTP as containers do. */
export async function scriptedKubelet(
  tls?: { readonly certificate: string; readonly key: string },
  host = "127.0.0.1",
): Promise<ScriptedKubelet> {
  const seen: SeenRequest[] = [];
  const answers = new Map<string, Scripted>();
  const note = (request: IncomingMessage): void => {
    const { method = "", url = "", headers, socket } = request;
    const user = tls === undefined ? undefined : (socket as TLSSocket).getPeerCertificate().subject?.CN;
    seen.push({ method, url, headers, user: typeof user === "string" ? user : undefined });
  };
  const server: Server | TlsServer =
    tls === undefined
      ? createServer()
      : createTlsServer({ cert: tls.certificate, key: tls.key, requestCert: true, rejectUnauthorized: false });
  server.on("request", async (request, response) => {
    note(request);
    let sent = "";
    for await (const part of request) sent += part;
    const [, found] =
      [...answers]
        .filter(([path]) => request.url?.startsWith(path))
        .sort()
        .pop() ?? [];
    const { code = 200, headers = {}, body } = found ?? { code: 404, body: "404 page not found" };
    response.writeHead(code, { "content-type": "text/plain", ...headers });
    response.end(body.replace("{body}", sent));
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    note(request);
    const [, refused] = [...answers].find(([path]) => request.url?.startsWith(path)) ?? [];
    if (refused !== undefined) {
      const { code = 404, body } = refused;
      socket.end(`HTTP/1.1 ${code} Refused\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    } else if (request.headers.upgrade === "websocket") {
      const key = request.headers["sec-websocket-key"] ?? "";
      socket.write(webSocketAnswer(key, request.headers["sec-websocket-protocol"] ?? ""));
      // The frames come back as they are, so that a test sees every byte.
      if (head.length > 0) socket.write(head);
      socket.pipe(socket);
    } else if (request.url?.startsWith("/portForward")) {
      acceptSpdy(request, socket);
      if (head.length > 0) socket.write(head);
      socket.pipe(socket);
    } else {
      acceptSpdy(request, socket);
      playCommand(request, socket, head);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    answer: (path, scripted) => void answers.set(path, scripted),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function acceptSpdy({ headers }: IncomingMessage, socket: Duplex): void {
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${headers["x-stream-protocol-version"]}\r\n\r\n`,
  );
}

/**
 * The command of the request: `cat` sends back its input until that ends, `exit N` fails, `drop` closes the connection
 * without a status, `flood N` writes N bytes.
 */
function playCommand(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const query = new URL(request.url ?? "/", "http://kubelet").searchParams;
  const [program = "", argument = "0"] = query.getAll("command");
  const expected = ["input", "output", "error"].filter((name) => query.get(name) === "1").length + 1;
  const streams = new Map<string, SpdyStream>();
  const hasTerminal = query.get("tty") === "1";
  const session = new SpdySession(socket, head, {
    opened: (stream) => {
      streams.set(stream.headers["streamtype"] ?? "", stream);
      if (streams.size === expected + (hasTerminal ? 1 : 0)) start();
    },
    data: (stream, bytes) => {
      if (stream.headers["streamtype"] === "stdin" && program === "cat") write("stdout", bytes);
      if (stream.headers["streamtype"] === "resize") write("stdout", bytes);
    },
    finished: (stream) => {
      if (stream.headers["streamtype"] === "stdin" && program === "cat") end(0);
    },
    closed: () => {},
  });
  const write = (name: string, bytes: Buffer): void => {
    const stream = streams.get(name);
    if (stream !== undefined) session.write(stream, bytes);
  };
  const start = (): void => {
    if (program === "drop") socket.destroy();
    else if (program === "flood") {
      for (let left = Number(argument); left > 0; left -= 65_536)
        write("stdout", Buffer.alloc(Math.min(left, 65_536), 7));
      end(0);
    } else if (program !== "cat") {
      write("stdout", Buffer.from([0xff, 0x00, 0x41]));
      write("stderr", Buffer.from("to stderr"));
      end(program === "exit" ? Number(argument) : 0);
    }
  };
  const end = (exitCode: number): void => {
    const causes = [{ reason: "ExitCode", message: String(exitCode) }];
    const failed = { metadata: {}, status: "Failure", reason: "NonZeroExitCode", details: { causes } };
    write("error", Buffer.from(JSON.stringify(exitCode === 0 ? { metadata: {}, status: "Success" } : failed)));
    for (const name of ["stdout", "stderr", "error"]) {
      const stream = streams.get(name);
      if (stream !== undefined) session.finish(stream);
    }
    session.close();
  };
}
