/** Serves the simulated cloud over HTTP. The scope of the signature, or the action, determines the service. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answerAutoScaling, queryError } from "./autoScaling.ts";
import type { CallOutcome, StandInCloud } from "./cloud.ts";
import { CloudError } from "./cloudError.ts";
import { answerEc2, ec2Error } from "./ec2.ts";
import { answerEks, eksOperation } from "./eks.ts";
import { answerSts } from "./sts.ts";

export interface StandInServer {
  readonly url: string;
  stop(): Promise<void>;
}

export interface StandInServerOptions {
  readonly port?: number;
  readonly host?: string;
  /** Refuse calls without a signature; default true. The signature itself is not verified. */
  readonly strict?: boolean;
}

const bodyMax = 1_000_000;

export async function startStandIn(cloud: StandInCloud, options: StandInServerOptions = {}): Promise<StandInServer> {
  const server = createServer((request, response) => {
    void answer(cloud, request, response, options.strict ?? true).catch(() => response.destroy());
  });
  await new Promise<void>((done, fail) => {
    server.once("error", fail);
    server.listen(options.port ?? 0, options.host ?? "127.0.0.1", done);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.host ?? "127.0.0.1"}:${port}`,
    stop: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  };
}

interface ServiceRequest {
  readonly service: string;
  readonly operation: string;
  readonly params: URLSearchParams;
  readonly path: string;
}

async function answer(
  cloud: StandInCloud,
  request: IncomingMessage,
  response: ServerResponse,
  strict: boolean,
): Promise<void> {
  const url = new URL(request.url ?? "/", "http://standin");
  const body = request.method === "POST" ? await bodyOf(request) : "";
  const params = request.method === "POST" ? new URLSearchParams(body) : url.searchParams;
  const authorization = request.headers.authorization ?? "";
  const scope = /Credential=[^/]+\/\d+\/[^/]+\/([a-z0-9-]+)\/aws4_request/.exec(authorization)?.[1];
  const presigned = /^[^/]+\/\d+\/[^/]+\/([a-z0-9-]+)\/aws4_request$/.exec(params.get("X-Amz-Credential") ?? "")?.[1];
  const service = scope ?? presigned ?? serviceOf(params, url.pathname);
  const operation = service === "eks" ? eksOperation(url.pathname) : (params.get("Action") ?? "");
  if (strict && scope === undefined && presigned === undefined) {
    send(response, 403, ec2Error(new CloudError("AuthFailure", 403, "the call is not signed")));
    return;
  }
  const { latencyMs = 0, clockSkewMs = 0 } = cloud.faults;
  if (clockSkewMs !== 0) {
    response.setHeader("date", new Date(cloud.nowMs).toUTCString());
    const signed = request.headers["x-amz-date"] ?? params.get("X-Amz-Date") ?? "";
    const refusal = skewError(service, String(signed), cloud.nowMs);
    if (refusal !== undefined) {
      refuse(response, service, refusal);
      return;
    }
  }
  if (latencyMs > 0) await new Promise((done) => setTimeout(done, latencyMs));
  reply(cloud, { service, operation, params, path: url.pathname }, response);
}

function reply(cloud: StandInCloud, serviceRequest: ServiceRequest, response: ServerResponse): void {
  const { service, operation, params, path } = serviceRequest;
  try {
    const outcome = cloud.beginCall(operation);
    if (outcome === "hangUp") {
      response.destroy();
      return;
    }
    if (service === "eks") {
      const { status, errorType, body } = answerEks(cloud, path, params);
      if (errorType !== undefined) response.setHeader("x-amzn-ErrorType", errorType);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      return;
    }
    send(response, 200, applyFault(outcome, xmlOf(cloud, service, params)));
  } catch (error) {
    if (!(error instanceof CloudError)) throw error;
    refuse(response, service, error);
  }
}

function refuse(response: ServerResponse, service: string, error: CloudError): void {
  if (service !== "eks") {
    send(response, error.status, service === "ec2" ? ec2Error(error) : queryError(error));
    return;
  }
  response.setHeader("x-amzn-ErrorType", error.code);
  response
    .writeHead(error.status, { "content-type": "application/json" })
    .end(JSON.stringify({ message: error.message }));
}

/** The maximum difference between the date of a signature and the cloud's clock. */
const signatureSkewMsMax = 300_000;

function skewError(service: string, signed: string, nowMs: number): CloudError | undefined {
  const iso = signed.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z");
  const lateMs = nowMs - Date.parse(iso);
  if (Math.abs(lateMs) <= signatureSkewMsMax) return undefined;
  if (service === "ec2") return new CloudError("RequestExpired", 400, "Request has expired.");
  const when = lateMs > 0 ? "Signature expired" : "Signature not yet current";
  const code = service === "eks" ? "InvalidSignatureException" : "SignatureDoesNotMatch";
  return new CloudError(code, 403, `${when}: ${signed}`);
}

function xmlOf(cloud: StandInCloud, service: string, params: URLSearchParams): string {
  if (service === "autoscaling") return answerAutoScaling(cloud, params);
  if (service === "sts") return answerSts(cloud, params);
  return answerEc2(cloud, params);
}

function applyFault(outcome: CallOutcome, xml: string): string {
  if (outcome === "truncated") return xml.slice(0, Math.max(40, xml.length >> 1));
  // The page of a captive portal: well-formed XML and not a response of AWS.
  if (outcome === "unrelated") return '<?xml version="1.0"?><html><body><p>Sign in to the network</p></body></html>';
  return xml;
}

function serviceOf(params: URLSearchParams, path: string): string {
  if (path.startsWith("/clusters")) return "eks";
  const action = params.get("Action") ?? "";
  if (action === "DescribeAutoScalingGroups") return "autoscaling";
  return action === "GetCallerIdentity" || action.startsWith("AssumeRole") ? "sts" : "ec2";
}

function send(response: ServerResponse, status: number, xml: string): void {
  response.writeHead(status, { "content-type": "text/xml;charset=UTF-8" }).end(xml);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    length += (chunk as Buffer).length;
    if (length > bodyMax) throw new Error("the body is too long");
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}
