import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a client sent. */
export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** A server with scripted responses: the n-th request gets the n-th response, all further ones the last. */
export interface ScriptedServer {
  readonly url: string;
  readonly requests: SentRequest[];
  /** The number of connections so far. */
  readonly connections: { count: number };
  close(): Promise<void>;
}

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

export async function scriptedServer(...answers: Answer[]): Promise<ScriptedServer> {
  const requests: SentRequest[] = [];
  const connections = { count: 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const answer = answers[Math.min(requests.length, answers.length - 1)];
      const { method = "", url = "", headers } = request;
      requests.push({ method, url, headers, body: Buffer.concat(chunks).toString("utf8") });
      answer?.(response, request);
    });
  });
  server.on("connection", () => {
    connections.count++;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export function json(code: number, body: unknown, headers: Record<string, string | string[]> = {}): Answer {
  return (response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

export function text(code: number, body: string, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(code, { "content-type": "text/html", ...headers });
    response.end(body);
  };
}

/** Accepts the request and never responds. */
export const silence: Answer = () => {};

/** Accepts the request and closes the connection. */
export const cut: Answer = (response) => {
  response.destroy();
};

export function status(code: number, reason: string, details: object = {}): object {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message: "no", reason, details, code };
}
