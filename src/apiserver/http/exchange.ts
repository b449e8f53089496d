import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { constants, gzip } from "node:zlib";
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { badRequest, type Status, unsupportedMediaType } from "../../model/objects/status.ts";
import type { Sent } from "../resource.ts";
import type { UserInfo } from "../strategy.ts";
import { BodyError, decodeJsonBody, parseJson } from "../wire/json.ts";
import { decodeProtobuf } from "../wire/protobuf.ts";
import { encodeProtobuf } from "../wire/protobufEncode.ts";
import { decodeYamlBody, parseYaml, toYaml } from "../wire/yaml.ts";
import { readBody } from "./body.ts";
import { negotiate, type Offer, type ProtobufOffer, protobufType, type Representation } from "./negotiate.ts";
import type { Query } from "./query.ts";
import type { Upgrade } from "./upgrade.ts";

/** Larger responses are compressed when the client accepts it and is not on this machine. */
const gzipBytesMin = 128 * 1024;

/** One request and its response. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  readonly path: string;
  readonly query: Query;
  readonly auditId: string;
  user: UserInfo;
  /** Set when the client requests a protocol upgrade. */
  readonly upgrade: Upgrade | undefined;
  private readonly warnings: string[] = [];
  private readonly warn_: (text: string) => void;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    at: { path: string; query: Query; auditId: string; user: UserInfo; upgrade?: Upgrade | undefined },
  ) {
    this.request = request;
    this.response = response;
    this.method = request.method ?? "GET";
    this.path = at.path;
    this.query = at.query;
    this.auditId = at.auditId;
    this.user = at.user;
    this.upgrade = at.upgrade;
    this.warn_ = (text) => {
      if (!this.warnings.includes(text)) this.warnings.push(text);
    };
  }

  get warn(): (text: string) => void {
    return this.warn_;
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  negotiate(offers?: Offer, offersProtobuf?: ProtobufOffer): Representation {
    return negotiate(this.header("accept"), offers, offersProtobuf);
  }

  /** The body as JSON, in whatever format it was sent. Undefined when empty. */
  async body(options: { findDuplicates?: boolean } = {}): Promise<Sent | undefined> {
    const bytes = await readBody(this.request);
    if (bytes.length === 0) return undefined;
    return { ...decodeBody(bytes, this.mediaType(), options), byteLength: bytes.length };
  }

  async patchBody(yaml: boolean, options: { findDuplicates?: boolean } = {}): Promise<Sent> {
    const bytes = await readBody(this.request);
    if (bytes.length === 0) throw badRequest("error decoding patch: the body is empty");
    try {
      return yaml ? parseYaml(bytes, options) : parseJson(bytes, options);
    } catch (error) {
      if (error instanceof BodyError) throw badRequest(`error decoding patch: ${error.message}`);
      throw error;
    }
  }

  mediaType(): string {
    const [type = ""] = (this.header("content-type") ?? "").split(";", 1);
    return type.trim().toLowerCase();
  }

  /** Headers of every response. */
  head(code: number, contentType: string, extra: Readonly<Record<string, string>> = {}): void {
    const { response } = this;
    // An error response has no warnings; they come with the accepted write.
    const warnings = code < 400 ? this.warnings : [];
    for (const text of warnings) response.appendHeader("Warning", `299 - ${quoteWarning(text)}`);
    response.writeHead(code, {
      "Audit-Id": this.auditId,
      "Cache-Control": "no-cache, private",
      "Content-Type": contentType,
      ...extra,
    });
  }

  sendBytes(code: number, contentType: string, bytes: Buffer, extra: Readonly<Record<string, string>> = {}): void {
    const { response } = this;
    // The deadline may have answered already; the late result is logged and not sent.
    if (response.headersSent) return;
    if (bytes.length >= gzipBytesMin && this.wantsGzip()) {
      gzip(bytes, { level: constants.Z_BEST_SPEED }, (error, packed) => {
        if (response.destroyed) return;
        const encoding: Record<string, string> =
          error === null ? { "Content-Encoding": "gzip", Vary: "Accept-Encoding" } : {};
        const payload = error === null ? packed : bytes;
        this.head(code, contentType, { ...extra, ...encoding, "Content-Length": String(payload.length) });
        response.end(this.method === "HEAD" ? undefined : payload);
      });
      return;
    }
    this.head(code, contentType, { ...extra, "Content-Length": String(bytes.length) });
    response.end(this.method === "HEAD" ? undefined : bytes);
  }

  sendJson(code: number, value: unknown, representation: Representation): void {
    if (representation.format === "yaml") {
      this.sendBytes(code, "application/yaml", Buffer.from(toYaml(value as Json)));
      return;
    }
    if (representation.format === "protobuf") {
      this.sendBytes(code, contentTypeOf(representation), encodeProtobuf(value as JsonObject));
      return;
    }
    const text = this.query.flag("pretty") ? JSON.stringify(value, undefined, 2) : JSON.stringify(value);
    this.sendBytes(code, contentTypeOf(representation), Buffer.from(`${text}\n`));
  }

  sendText(code: number, text: string): void {
    this.sendBytes(code, "text/plain; charset=utf-8", Buffer.from(text));
  }

  sendStatus(status: Status): void {
    const retry = status.details?.retryAfterSeconds ?? 0;
    const extra: Record<string, string> = retry > 0 ? { "Retry-After": String(retry) } : {};
    // The rest of an unread body would otherwise be parsed as the next request.
    if (!this.request.complete) extra["Connection"] = "close";
    const { code, ...rest } = status;
    // A Success Status with code 200 has no code field, as upstream.
    const body = status.status === "Success" && code === 200 ? rest : status;
    this.sendBytes(code, "application/json", Buffer.from(`${JSON.stringify(body)}\n`), extra);
  }

  /** The upgraded protocol owns the connection from here on; the request stays in flight until it ends. */
  detach(): void {
    const { response, upgrade } = this;
    if (upgrade === undefined) return;
    response.statusCode = 101;
    response.detachSocket(upgrade.socket as Socket);
    upgrade.socket.once("close", () => response.emit("close"));
  }

  wantsGzip(): boolean {
    if (isLoopback(this.request.socket.remoteAddress)) return false;
    return /\bgzip\b/.test(this.header("accept-encoding") ?? "");
  }
}

function decodeBody(bytes: Buffer, mediaType: string, options: { findDuplicates?: boolean }): Sent {
  switch (mediaType) {
    case "":
    case "application/json":
    case "*/*":
      return decodeJsonBody(bytes, options);
    case "application/yaml":
    case "text/yaml":
      return decodeYamlBody(bytes, options);
    case "application/vnd.kubernetes.protobuf":
      return { value: decodeProtobuf(bytes), duplicates: [] };
    default:
      throw unsupportedMediaType(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]);
  }
}

function contentTypeOf({ format, as, group, version }: Representation): string {
  if (format === "protobuf") return protobufType;
  return as === "" || as === "Table" || as.startsWith("PartialObject")
    ? "application/json"
    : `application/json;g=${group};v=${version};as=${as}`;
}

function isLoopback(address: string | undefined): boolean {
  return address === undefined || address === "::1" || address.startsWith("127.") || address.startsWith("::ffff:127.");
}

/** A quoted string of RFC 9110; control characters are not allowed in a header. */
function quoteWarning(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that must not get into a header.
  const printable = text.replace(/[\u0000-\u001f\u007f]/g, " ").replace(/[^\u0020-\u007e]/g, "?");
  return `"${printable.replace(/[\\"]/g, "\\$&")}"`;
}
