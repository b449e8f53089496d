import { type AgentOptions, Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";
import type { Credentials, KubeConnection } from "./connection.ts";
import { hasSameCertificate } from "./credentialKeeper.ts";
import { openTunnel } from "./tunnel.ts";

/** The maximum number of connections for calls. Further calls are queued. */
export const callSocketsMax = 64;

/**
 * The client closes idle connections before the server does: a write must not be sent on a connection that is being
 * closed.
 */
const idleMs = 30_000;

/**
 * Keep-alive connections. Watches have their own, so that a thousand of them never delay a call. TLS is set up once per
 * certificate; when the certificate changes, old connections finish their requests.
 */
export class Agents {
  private readonly connection: KubeConnection;
  private readonly isTls: boolean;
  private calls: HttpAgent | undefined;
  private watches: HttpAgent | undefined;
  private madeFor: Credentials = {};

  constructor(connection: KubeConnection) {
    this.connection = connection;
    this.isTls = new URL(connection.server).protocol === "https:";
  }

  /** May throw: a key that does not match its certificate, text that is not PEM. */
  for(purpose: "calls" | "watches", credentials: Credentials): HttpAgent {
    if (!hasSameCertificate(this.madeFor, credentials)) this.retire();
    this.madeFor = credentials;
    if (purpose === "calls") {
      this.calls ??= this.make(credentials, {
        keepAlive: true,
        maxSockets: callSocketsMax,
        timeout: idleMs,
        scheduling: "lifo",
      });
      return this.calls;
    }
    // A watch lasts for minutes: it has its own connection, never shared with a call.
    this.watches ??= this.make(credentials, { keepAlive: false });
    return this.watches;
  }

  close(): void {
    this.calls?.destroy();
    this.watches?.destroy();
  }

  private make(credentials: Credentials, pool: AgentOptions): HttpAgent {
    const { authority, insecure, serverName, proxy } = this.connection;
    if (!this.isTls) return throughProxy(new HttpAgent(pool), proxy);
    const { certificate, key } = credentials;
    const agent = new HttpsAgent({
      ...pool,
      // A shared context is not in the key under which connections are pooled; PEM texts would be.
      secureContext: createSecureContext({
        ...(authority === undefined ? {} : { ca: authority }),
        ...(certificate === undefined ? {} : { cert: certificate }),
        ...(key === undefined ? {} : { key }),
        minVersion: "TLSv1.2",
      }),
      rejectUnauthorized: insecure !== true,
      ...(serverName === undefined ? {} : { servername: serverName }),
    });
    return throughProxy(agent, proxy);
  }

  private retire(): void {
    for (const agent of [this.calls, this.watches]) {
      if (agent === undefined) continue;
      agent.maxFreeSockets = 0;
      for (const idle of Object.values(agent.freeSockets)) for (const socket of idle ?? []) socket.destroy();
    }
    this.calls = undefined;
    this.watches = undefined;
  }
}

/** The method of an agent that Node calls for a new connection. */
type Connect = (options: ConnectOptions, done: (error: Error | null, socket?: Socket) => void) => Socket | undefined;
type ConnectOptions = { host: string; port: number; socket?: Socket };

/** Connections are tunnelled through the proxy; TLS, if any, runs inside the tunnel. */
function throughProxy(agent: HttpAgent, proxy: string | undefined): HttpAgent {
  if (proxy === undefined) return agent;
  const url = new URL(proxy);
  // Documented by Node.js to be overridden, and left out of the types of an agent.
  const plain = agent as unknown as { createConnection: Connect };
  const connect = plain.createConnection.bind(agent);
  const isTls = agent instanceof HttpsAgent;
  plain.createConnection = (options, done) => {
    openTunnel(url, options).then(
      (socket) => done(null, isTls ? connect({ ...options, socket }, () => {}) : socket),
      (error: Error) => done(error),
    );
    return undefined;
  };
  return agent;
}
