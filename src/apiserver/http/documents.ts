import { Buffer } from "node:buffer";
import type { TokenIssuer } from "../auth/serviceAccountToken.ts";
import { builtinResources, type ResourceType } from "../builtinResources.ts";
import { aggregatedContentType, Discovery, type TaggedDocument } from "../discovery.ts";
import { type CustomOpenApi, OpenApi, openApiV2 } from "../openapi.ts";
import type { Registry } from "../registry.ts";
import { serverVersion } from "../version.ts";
import type { Exchange } from "./exchange.ts";
import type { Offer } from "./negotiate.ts";
import type { Route } from "./route.ts";

const yearMs = 365 * 24 * 3600 * 1000;

/** Discovery, OpenAPI and version documents. Rebuilt when the registry changed. */
export class Documents {
  private readonly registry: Registry;
  private readonly openApi: OpenApi;
  private readonly serverAddress: string;
  private readonly nowMs: () => number;
  private discovery: { revision: number; documents: Discovery } | undefined;
  private openApiRevision = -1;
  private readonly issuer: TokenIssuer | undefined;
  private readonly more: readonly ResourceType[];

  constructor(options: {
    registry: Registry;
    serverAddress: string;
    nowMs: () => number;
    issuer?: TokenIssuer;
    /** Resources that are served besides the registry. */
    more?: readonly ResourceType[];
  }) {
    this.registry = options.registry;
    this.serverAddress = options.serverAddress;
    this.nowMs = options.nowMs;
    this.issuer = options.issuer;
    this.more = options.more ?? [];
    this.openApi = new OpenApi(builtinResources(), serverVersion.gitVersion);
  }

  /** Answers the request if it is for one of these documents. */
  answer(exchange: Exchange, route: Route): boolean {
    switch (route.kind) {
      case "groups":
        this.sendGroups(exchange, route.legacy);
        return true;
      case "group":
        return this.send(exchange, this.current().group(route.group));
      case "version":
        return this.send(exchange, this.current().resources(route.group, route.version));
      case "other":
        return this.sendOther(exchange);
      case "resource":
        return false;
    }
  }

  /** Whether the route is one of the discovery documents. */
  has(route: Route): boolean {
    switch (route.kind) {
      case "groups":
        return true;
      case "group":
        return this.current().group(route.group) !== undefined;
      case "version":
        return this.current().resources(route.group, route.version) !== undefined;
      default:
        return false;
    }
  }

  private current(): Discovery {
    const { revision } = this.registry;
    if (this.discovery?.revision !== revision) {
      const types = [...this.registry.all().map((resource) => resource.type), ...this.more];
      this.discovery = { revision, documents: new Discovery(types, this.serverAddress) };
    }
    return this.discovery.documents;
  }

  private sendGroups(exchange: Exchange, core: boolean): void {
    const discovery = this.current();
    const representation = exchange.negotiate(aggregatedOffer);
    if (representation.as !== "") {
      this.send(exchange, discovery.aggregated(core ? "api" : "apis"), aggregatedContentType);
    } else {
      this.send(exchange, core ? discovery.versions() : discovery.groups());
    }
  }

  private send(exchange: Exchange, document: TaggedDocument | undefined, contentType = "application/json"): boolean {
    if (document === undefined) return false;
    const headers = { ETag: document.etag, Vary: "Accept", "Cache-Control": "public" };
    if (exchange.header("if-none-match") === document.etag) {
      exchange.head(304, contentType, headers);
      exchange.response.end();
      return true;
    }
    exchange.sendBytes(200, contentType, Buffer.from(document.body), headers);
    return true;
  }

  private sendOther(exchange: Exchange): boolean {
    const { path } = exchange;
    if (path === "/version" || path === "/version/") {
      exchange.sendJson(200, serverVersion, exchange.negotiate());
      return true;
    }
    if (path === "/openapi/v2") {
      const info = { title: "Kubernetes", version: serverVersion.gitVersion };
      this.refreshOpenApi();
      const { type, body } = openApiV2(exchange.header("accept"), info, () => this.openApi.version2().body);
      exchange.sendBytes(200, type, body, { Vary: "Accept" });
      return true;
    }
    if (path === "/openapi/v3" || path === "/openapi/v3/") {
      this.refreshOpenApi();
      const { body, hash } = this.openApi.index();
      exchange.sendBytes(200, "application/json", Buffer.from(body), { ETag: `"${hash}"`, Vary: "Accept" });
      return true;
    }
    if (path.startsWith("/openapi/v3/")) return this.sendOpenApi(exchange, path.slice("/openapi/v3/".length));
    if (path === "/") {
      const paths = this.registry
        .all()
        .map(({ type }) => (type.group === "" ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`));
      const list = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
        ...paths,
      ];
      exchange.sendJson(200, { paths: [...new Set(list)].sort() }, exchange.negotiate());
      return true;
    }
    return this.sendIssuer(exchange);
  }

  private sendOpenApi(exchange: Exchange, path: string): boolean {
    this.refreshOpenApi();
    const answer = this.openApi.answer(path, exchange.query.text("hash"));
    if (answer === undefined) return false;
    if (answer.kind === "moved") {
      exchange.head(301, "text/plain", { Location: answer.location });
      exchange.response.end();
      return true;
    }
    const { body, hash } = answer.document;
    const etag = `"${hash}"`;
    const caching: Record<string, string> = answer.immutable
      ? { "Cache-Control": "public, immutable", Expires: new Date(this.nowMs() + yearMs).toUTCString() }
      : {};
    const headers = { ETag: etag, Vary: "Accept", ...caching };
    if (exchange.header("if-none-match") === etag) {
      exchange.head(304, "application/json", headers);
      exchange.response.end();
      return true;
    }
    exchange.sendBytes(200, "application/json", Buffer.from(body), headers);
    return true;
  }

  private refreshOpenApi(): void {
    if (this.openApiRevision === this.registry.revision) return;
    this.openApiRevision = this.registry.revision;
    const custom: CustomOpenApi[] = [];
    for (const { custom: facts, type } of this.registry.all()) {
      if (facts === undefined) continue;
      const { group, version, kind, plural, namespaced } = type;
      custom.push({
        group,
        version,
        kind,
        plural,
        namespaced,
        schema: facts.openApiSchema,
        hasStatus: facts.hasStatusSubresource,
        hasScale: facts.scale !== undefined,
      });
    }
    this.openApi.setCustomResources(custom);
  }

  /** The OpenID documents, by which relying parties find the keys of service account tokens. */
  private sendIssuer(exchange: Exchange): boolean {
    const { issuer } = this;
    if (issuer === undefined) return false;
    if (exchange.path === "/openid/v1/jwks") {
      exchange.sendBytes(200, "application/jwk-set+json", Buffer.from(JSON.stringify(issuer.keySet())));
      return true;
    }
    if (exchange.path === "/.well-known/openid-configuration") {
      const configuration = {
        issuer: issuer.issuer,
        jwks_uri: `${issuer.issuer}/openid/v1/jwks`,
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
      };
      exchange.sendBytes(200, "application/json", Buffer.from(JSON.stringify(configuration)));
      return true;
    }
    return false;
  }
}

const aggregatedOffer: Offer = (as, group, version) =>
  as === "APIGroupDiscoveryList" && group === "apidiscovery.k8s.io" && version === "v2";
