/** HTTP to kubelets, pods and Services: the client side of logs, commands and proxies. */
import type { Buffer } from "node:buffer";
import { X509Certificate } from "node:crypto";
import { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from "node:http";
import { type RequestOptions, request as requestHttps } from "node:https";
import type { Duplex } from "node:stream";
import { checkServerIdentity, type TLSSocket } from "node:tls";
import { failure, type StatusError } from "../../model/objects/status.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeyPair } from "../auth/certificate.ts";
import type { Backend } from "./backend.ts";

/** The user that kubelets authenticate: the role `system:kubelet-api-admin` is bound to it. */
export const kubeletClientUser = "kube-apiserver-kubelet-client";

const connectMs = 10_000;
const renewMs = 180 * 24 * 3600 * 1000;

export interface BackendClientOptions {
  readonly clock: Clock;
  /** The CA certificate of the cluster, as PEM. */
  readonly authority: string;
  /** Issues the client certificate for kubelets. */
  readonly issue: () => KeyPair;
}

export interface Sent {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
}

/** The connection after a backend has accepted an upgrade. */
export interface Upgraded {
  readonly response: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

export type UpgradeAnswer = Upgraded | { readonly refused: IncomingMessage };

export class BackendClient {
  private readonly options: BackendClientOptions;
  private readonly authority: X509Certificate | undefined;
  private issued: { readonly pair: KeyPair; readonly atMs: number } | undefined;

  constructor(options: BackendClientOptions) {
    this.options = options;
    this.authority = options.authority === "" ? undefined : new X509Certificate(options.authority);
  }

  /** Sends a request. `body` is piped where it is given; the response is returned with its headers, unread. */
  send(backend: Backend, sent: Sent, body?: IncomingMessage): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = this.open(backend, sent, reject);
      outgoing.on("response", resolve);
      if (body === undefined) outgoing.end();
      else {
        // A client that leaves in the middle of its body ends the request to the backend.
        body.on("close", () => {
          if (!body.complete) outgoing.destroy();
        });
        body.pipe(outgoing);
      }
    });
  }

  /** Requests a protocol upgrade. */
  upgrade(backend: Backend, sent: Sent): Promise<UpgradeAnswer> {
    return new Promise((resolve, reject) => {
      const outgoing = this.open(backend, sent, reject);
      outgoing.on("upgrade", (response, socket, head) => resolve({ response, socket, head }));
      outgoing.on("response", (refused) => resolve({ refused }));
      outgoing.end();
    });
  }

  private open(backend: Backend, { method, path, headers }: Sent, fail: (error: Error) => void): ClientRequest {
    const { scheme, host, port, kubeletOf } = backend;
    // One connection for each request: a connection that stays open would outlive its node.
    const options: RequestOptions = { host, port, method, path, headers: headers ?? {}, agent: false };
    const outgoing =
      scheme === "http"
        ? requestHttp(options)
        : requestHttps({ ...options, ...(kubeletOf === undefined ? trustAll : this.kubeletOptions()) });
    const cancel = this.options.clock.after(connectMs, () =>
      outgoing.destroy(new Error("no connection in 10 seconds")),
    );
    outgoing.on("socket", (socket) => {
      const ready = (): void => {
        cancel();
        const problem = kubeletOf === undefined ? undefined : this.kubeletProblem(backend, socket as TLSSocket);
        if (problem !== undefined) outgoing.destroy(new Error(problem));
      };
      socket.once(scheme === "http" ? "connect" : "secureConnect", ready);
      socket.once("close", cancel);
      socket.setNoDelay(true);
    });
    outgoing.on("error", (error) => fail(unreachable(backend, error)));
    return outgoing;
  }

  private kubeletOptions(): RequestOptions {
    const nowMs = this.options.clock.nowMs();
    if (this.issued === undefined || nowMs - this.issued.atMs > renewMs)
      this.issued = { pair: this.options.issue(), atMs: nowMs };
    const { certificate: cert, key } = this.issued.pair;
    return { ...trustAll, cert, key };
  }

  /**
   * A certificate that the cluster has issued must be that node's. Others are accepted, as kube-apiserver does by
   * default: a kubelet without `serverTLSBootstrap` signs its own.
   */
  private kubeletProblem({ host, kubeletOf }: Backend, socket: TLSSocket): string | undefined {
    const peer = socket.getPeerX509Certificate();
    if (peer === undefined) return "the kubelet has no certificate";
    if (this.authority === undefined || !peer.verify(this.authority.publicKey)) return undefined;
    const { subject } = peer.toLegacyObject();
    if (subject.CN !== `system:node:${kubeletOf}`) return `the certificate is that of ${subject.CN}`;
    const wrong = checkServerIdentity(host, peer.toLegacyObject());
    if (wrong !== undefined) return wrong.message;
    const nowMs = this.options.clock.nowMs();
    if (Date.parse(peer.validTo) < nowMs || Date.parse(peer.validFrom) > nowMs)
      return `the certificate is valid from ${peer.validFrom} to ${peer.validTo}`;
    return undefined;
  }
}

const trustAll: RequestOptions = { rejectUnauthorized: false };

function unreachable({ scheme, host, port, kubeletOf }: Backend, error: Error): StatusError {
  const url = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const what = kubeletOf === undefined ? url : `the kubelet of node ${kubeletOf} at ${url}`;
  const message = `${what} cannot be reached: ${error.message || error.name}`;
  // As upstream: 500 for a kubelet, 503 for what a proxy leads to.
  return kubeletOf === undefined
    ? failure(503, "ServiceUnavailable", message)
    : failure(500, "InternalError", message, { causes: [{ message }] });
}
