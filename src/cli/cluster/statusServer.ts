import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Health, renderHealth } from "../../control/runtime/health.ts";
import { UserError } from "../../model/userError.ts";

/** The pages that a controller process serves to kubelet, Prometheus and operators. */
export interface StatusPages {
  /** Liveness: whether the process should be restarted. */
  readonly health: Health;
  /** Readiness: whether the controllers can work. */
  readonly readiness: Health;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The devices that the process counts as allocated; undefined without the devices component. */
  readonly devices?: () => object | undefined;
}

export interface StatusServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Serves `/healthz`, `/livez`, `/readyz` (each with `?verbose`), `/metrics`, and to this machine `/debug/devices`. */
export async function startStatusServer(
  pages: StatusPages,
  listen: { readonly host: string; readonly port: number },
): Promise<StatusServer> {
  const { host, port } = listen;
  const server = createServer((request, response) => void answer(pages, request, response));
  await new Promise<void>((done, fail) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const cure = "pass --status-address with another host:port; port 0 picks a free one";
      if (cause.code === "EADDRINUSE") {
        fail(new UserError("port-in-use", `port ${port} of ${host} is in use`, cure, { cause }));
        return;
      }
      const problem = `cannot listen on ${host}:${port}: ${cause.code ?? cause.message}`;
      fail(new UserError("status-address-unusable", problem, cure, { cause }));
    });
    server.listen(port, host, done);
  });
  const { port: chosen } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${chosen}`,
    stop: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

async function answer(pages: StatusPages, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://status");
  const send = (code: number, text: string, contentType = "text/plain; charset=utf-8"): void => {
    response.writeHead(code, { "content-type": contentType, "cache-control": "no-store" });
    response.end(request.method === "HEAD" ? undefined : text);
  };
  if (request.method !== "GET" && request.method !== "HEAD") return send(405, "only GET and HEAD are supported\n");
  switch (pathname) {
    case "/healthz":
    case "/livez":
    case "/readyz": {
      const health = pathname === "/readyz" ? pages.readiness : pages.health;
      const { code, text } = renderHealth(health.report(), searchParams.has("verbose"));
      return send(code, text);
    }
    case "/metrics":
      return send(200, await pages.metrics.text(), pages.metrics.contentType);
    case "/debug/devices": {
      // The page names claims of all namespaces, so only clients that reach the process itself see it, as by `kubectl
      // port-forward`.
      if (!isLoopback(request.socket.remoteAddress)) return send(403, "only served to clients on this machine\n");
      const devices = pages.devices?.();
      if (devices === undefined) return send(404, "the devices component does not run in this process\n");
      return send(200, `${JSON.stringify(devices, undefined, 2)}\n`, "application/json");
    }
    default:
      return send(404, "try /healthz, /livez, /readyz, /metrics or /debug/devices\n");
  }
}

function isLoopback(address: string | undefined): boolean {
  return address === "::1" || /^(::ffff:)?127\./.test(address ?? "");
}
