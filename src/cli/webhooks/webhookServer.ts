import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { KeyPair } from "../../apiserver/auth/certificate.ts";
import { pathOf } from "../../control/webhooks/webhookConfigurations.ts";
import type { AdmissionHook, AdmissionLookup } from "../../model/objects/admissionHook.ts";
import { type ReviewAnswer, reviewResponse } from "../../model/objects/admissionReview.ts";
import { UserError } from "../../model/userError.ts";
import type { Log } from "../../ports/log.ts";

export interface WebhookServer {
  readonly port: number;
  /** Uses other keys from the next connection on. */
  useKeys(keys: KeyPair): void;
  stop(): Promise<void>;
}

/** Two versions of an object, each of the largest size that the API allows, and their envelope. */
const bodyBytesMax = 8 * 1024 * 1024;

/**
 * API servers keep idle connections for 90 s. If this side closed one earlier, the server might send a request on it at
 * that moment, which fails, and a write would be rejected. So the API server closes connections.
 */
const idleMs = 120_000;

/** Serves the admission webhooks. */
export async function startWebhookServer(
  asked: { readonly hooks: readonly AdmissionHook[]; readonly lookup: AdmissionLookup; readonly log: Log },
  listen: { readonly host: string; readonly port: number },
  keys: KeyPair,
): Promise<WebhookServer> {
  const byPath = new Map(asked.hooks.map((hook) => [pathOf(hook), hook]));
  const server = createServer({ cert: keys.certificate, key: keys.key }, (request, response) => {
    void answer(byPath, asked, request, response);
  });
  server.keepAliveTimeout = idleMs;
  server.headersTimeout = idleMs + 5_000;
  const { host, port } = listen;
  await new Promise<void>((done, fail) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const problem = `cannot listen on ${host}:${port} for webhooks: ${cause.code ?? cause.message}`;
      const cure = "pass --webhook-address with another host:port";
      fail(new UserError("webhook-address-unusable", problem, cure, { cause }));
    });
    server.listen(port, host, done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    useKeys: ({ certificate, key }) => server.setSecureContext({ cert: certificate, key }),
    stop: () =>
      new Promise((done) => {
        server.close(() => done());
        // Responses in flight are still sent; new requests must reach another process.
        server.closeIdleConnections();
      }),
  };
}

async function answer(
  byPath: ReadonlyMap<string, AdmissionHook>,
  { lookup, log }: { readonly lookup: AdmissionLookup; readonly log: Log },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const refuse = (code: number, text: string): void => {
    response.writeHead(code, { "content-type": "text/plain; charset=utf-8", connection: "close" });
    response.end(`${text}\n`);
  };
  const { pathname } = new URL(request.url ?? "/", "https://webhooks");
  const hook = byPath.get(pathname);
  if (hook === undefined) return refuse(404, "there is no webhook at this path");
  if (request.method !== "POST") return refuse(405, "send an AdmissionReview with POST");
  let body: unknown;
  try {
    body = JSON.parse(await bodyOf(request));
  } catch (cause) {
    return refuse(cause instanceof TooLong ? 413 : 400, cause instanceof Error ? cause.message : String(cause));
  }
  let said: ReviewAnswer | undefined;
  try {
    said = reviewResponse(hook, body, lookup);
  } catch (cause) {
    // A bug must not look like a rejection: the failure policy of the webhook decides.
    log.error({ hook: hook.name, cause: String(cause) }, "an admission hook failed");
    return refuse(500, "the admission hook failed");
  }
  if (said === undefined) return refuse(400, "the body is not an AdmissionReview with a request");
  const { patch, ...rest } = said;
  const patched =
    patch === undefined ? {} : { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
  const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: { ...rest, ...patched } };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(review));
}

class TooLong extends Error {}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bodyBytesMax) throw new TooLong(`the body is longer than ${bodyBytesMax} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
