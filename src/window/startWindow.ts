import { createServer as createPlain } from "node:http";
import { createServer as createTls } from "node:https";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { UserError } from "../model/userError.ts";
import type { Clock } from "../ports/clock.ts";
import { Feed, type ModelSource } from "./feed.ts";
import { Guard } from "./guard.ts";
import type { StaticFiles } from "./staticFiles.ts";
import { type StreamLimits, Streams } from "./streams.ts";
import { type Actions, type Questions, windowApp } from "./windowApp.ts";

export interface WindowServerOptions {
  readonly source: ModelSource;
  readonly questions: Questions;
  readonly actions: Actions;
  readonly files: StaticFiles;
  readonly clock: Clock;
  /** 32 random bytes as text. */
  readonly token: string;
  readonly epoch: string;
  readonly mode: "embedded" | "attached" | "file";
  readonly isDemo: boolean;
  readonly version: string;
  readonly listen: {
    readonly host: string;
    readonly port: number;
    readonly tls?: { readonly cert: string; readonly key: string };
    /** Host names by which a proxy in front of it is reached. */
    readonly names?: readonly string[];
    /** A proxy ends TLS. */
    readonly isBehindProxy?: boolean;
  };
  readonly limits?: StreamLimits;
}

export interface WindowServer {
  /** With the token in the fragment, which no server, proxy or referrer sees. */
  readonly url: string;
  readonly feed: Feed;
  /** Streams that are open. */
  readonly streams: { readonly size: number };
  /** Closes every connection; clients reconnect. */
  cut(): void;
  stop(): Promise<void>;
}

export async function startWindow(options: WindowServerOptions): Promise<WindowServer> {
  const { clock, token, epoch, source, listen, files, mode, isDemo, version, questions, actions } = options;
  const feed = new Feed({ source, clock, epoch });
  const isTls = listen.tls !== undefined;
  let hosts: ReadonlySet<string> = new Set();
  const scheme = isTls || listen.isBehindProxy === true ? "https" : "http";
  const guard = new Guard({ token, hosts: () => hosts, scheme, clock });
  const streams = new Streams(feed, {
    clock,
    isToken: (given) => guard.isToken(given),
    ...(options.limits && { limits: options.limits }),
  });
  const app = windowApp({ mode, version, isDemo, feed, guard, streams, files, clock, questions, actions });
  const listener = getRequestListener(app.fetch);
  const server = isTls ? createTls({ ...listen.tls }, listener) : createPlain(listener);
  // Time limits for headers and body, so that slow requests hold no connection.
  server.headersTimeout = 10_000;
  server.requestTimeout = 20_000;
  await new Promise<void>((done, fail) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const { host, port } = listen;
      const cure = "pass --dashboard-port 0 for a free one";
      if (cause.code === "EADDRINUSE")
        fail(new UserError("port-in-use", `port ${port} of ${host} is in use`, cure, { cause }));
      else
        fail(
          new UserError(
            "dashboard-address-unusable",
            `cannot listen on ${host}:${port}: ${cause.code ?? cause.message}`,
            "pass --dashboard-host with an address of this machine",
            { cause },
          ),
        );
    });
    server.listen(listen.port, listen.host, done);
  });
  const { port } = server.address() as AddressInfo;
  const shown = listen.host.includes(":") ? `[${listen.host}]` : listen.host;
  const own = new Set([`${shown}:${port}`.toLowerCase()]);
  if (isLoopback(listen.host)) for (const name of ["127.0.0.1", "localhost", "[::1]"]) own.add(`${name}:${port}`);
  for (const name of listen.names ?? []) own.add(name.toLowerCase());
  hosts = own;
  feed.start();
  return {
    url: `${scheme}://${listen.names?.[0] ?? `${shown}:${port}`}/#token=${token}`,
    feed,
    streams,
    cut: () => server.closeAllConnections(),
    stop: () =>
      new Promise((done) => {
        feed.stop();
        streams.close();
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\./.test(host);
}
