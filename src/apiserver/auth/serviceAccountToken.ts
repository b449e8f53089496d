import { createHash, type KeyObject, sign, verify } from "node:crypto";
import { isObject } from "../../model/objects/json.ts";
import type { Random } from "../../ports/random.ts";
import { serviceAccountUsername } from "./serviceAccountName.ts";

/**
 * Service account tokens: signed JWTs (ES256) for a service account of this cluster, with audiences and an expiry. This
 * file issues and parses them; whether the account still exists is checked at every use, in liveToken.ts.
 */
export interface TokenClaims {
  readonly audiences: readonly string[];
  readonly expiresAtSeconds: number;
  readonly notBeforeSeconds: number;
  readonly issuedAtSeconds: number;
  readonly id: string;
  readonly namespace: string;
  readonly serviceAccount: Reference;
  readonly pod?: Reference;
  readonly secret?: Reference;
  readonly node?: Reference;
}

export type Reference = { readonly name: string; readonly uid: string };

/** The subject of a token; times and identity are added when it is issued. */
export type TokenSubject = Pick<TokenClaims, "audiences" | "namespace" | "serviceAccount" | "pod" | "secret" | "node">;

export interface TokenKeyPair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** The URL by which pods reach this API, and the issuer of every token. */
export const defaultIssuer = "https://kubernetes.default.svc.cluster.local";

/** The server's own tokens are below two thousand characters; a longer text than this is rejected unread. */
const tokenCharsMax = 16_384;
/** Tolerated difference between clocks. Expiry has no tolerance: the issuing clock is the same one. */
const skewSeconds = 60;
const cacheMax = 4096;

export class TokenIssuer {
  readonly issuer: string;
  readonly #keys: TokenKeyPair;
  readonly #keyId: string;
  /** Claims of tokens whose signature was verified: verification costs a hundred times more than everything else. */
  readonly #verified = new Map<string, TokenClaims>();

  constructor(keys: TokenKeyPair, issuer: string = defaultIssuer) {
    this.#keys = keys;
    this.issuer = issuer;
    this.#keyId = keyIdOf(keys.publicKey);
  }

  issue(subject: TokenSubject, options: { nowMs: number; lifetimeSeconds: number; random: Random }): IssuedToken {
    const nowSeconds = Math.floor(options.nowMs / 1000);
    const expiresAtSeconds = nowSeconds + options.lifetimeSeconds;
    const header = { alg: "ES256", kid: this.#keyId };
    const claims = {
      aud: subject.audiences,
      exp: expiresAtSeconds,
      iat: nowSeconds,
      iss: this.issuer,
      jti: randomUuid(options.random),
      "kubernetes.io": {
        namespace: subject.namespace,
        ...(subject.node === undefined ? {} : { node: subject.node }),
        ...(subject.pod === undefined ? {} : { pod: subject.pod }),
        ...(subject.secret === undefined ? {} : { secret: subject.secret }),
        serviceaccount: subject.serviceAccount,
      },
      nbf: nowSeconds,
      sub: serviceAccountUsername(subject.namespace, subject.serviceAccount.name),
    };
    const body = `${encode(header)}.${encode(claims)}`;
    const signature = sign("sha256", Buffer.from(body), { key: this.#keys.privateKey, dsaEncoding: "ieee-p1363" });
    return { token: `${body}.${canonical(signature).toString("base64url")}`, expiresAtSeconds };
  }

  /**
   * The claims of a token that this server signed and that is valid now, or the error. The caller checks audiences.
   */
  read(token: string, nowMs: number): TokenClaims | TokenProblem {
    const claims = this.#verified.get(token) ?? this.#verify(token);
    if (typeof claims === "string") return claims;
    const nowSeconds = nowMs / 1000;
    if (nowSeconds >= claims.expiresAtSeconds) return "service account token has expired";
    if (nowSeconds + skewSeconds < claims.notBeforeSeconds) return "service account token is not valid yet";
    return claims;
  }

  /** The key as `/openid/v1/jwks` shows it. */
  keySet(): { keys: Record<string, unknown>[] } {
    const key = this.#keys.publicKey.export({ format: "jwk" });
    return { keys: [{ use: "sig", kid: this.#keyId, alg: "ES256", kty: key.kty, crv: key.crv, x: key.x, y: key.y }] };
  }

  /** The document at `/.well-known/openid-configuration`, by which relying parties find the key. */
  discovery(): Record<string, unknown> {
    return {
      issuer: this.issuer,
      jwks_uri: `${this.issuer}/openid/v1/jwks`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["ES256"],
    };
  }

  #verify(token: string): TokenClaims | TokenProblem {
    if (token.length > tokenCharsMax) return "invalid bearer token";
    const parts = token.split(".");
    const [head = "", body = "", tail = ""] = parts;
    if (parts.length !== 3 || !parts.every((part) => base64url.test(part))) return "invalid bearer token";
    // The server requires its own algorithm, whatever the token names: `none` and HMAC are rejected before a signature
    // is checked.
    const header = decode(head);
    if (header?.["alg"] !== "ES256" || header["kid"] !== this.#keyId) return "invalid bearer token";
    const signature = Buffer.from(tail, "base64url");
    const key = { key: this.#keys.publicKey, dsaEncoding: "ieee-p1363" as const };
    // One token has one text: neither the other of two valid signatures nor unused bits of the encoding make a second.
    if (signature.length !== 64 || canonical(signature).toString("base64url") !== tail) return "invalid bearer token";
    if (!verify("sha256", Buffer.from(`${head}.${body}`), key, signature)) {
      return "invalid bearer token";
    }
    const claims = readClaims(decode(body), this.issuer);
    if (claims === undefined) return "invalid bearer token";
    if (this.#verified.size >= cacheMax) this.#verified.clear();
    this.#verified.set(token, claims);
    return claims;
  }
}

export type IssuedToken = { readonly token: string; readonly expiresAtSeconds: number };

export type TokenProblem =
  | "invalid bearer token"
  | "service account token has expired"
  | "service account token is not valid yet";

function readClaims(claims: Record<string, unknown> | undefined, issuer: string): TokenClaims | undefined {
  const own = claims?.["kubernetes.io"];
  if (claims === undefined || !isObject(own) || claims["iss"] !== issuer) return undefined;
  const { exp, nbf, iat } = claims;
  if (typeof exp !== "number" || typeof nbf !== "number" || typeof iat !== "number") return undefined;
  const namespace = own["namespace"];
  const serviceAccount = readReference(own["serviceaccount"]);
  if (typeof namespace !== "string" || serviceAccount === undefined) return undefined;
  if (claims["sub"] !== serviceAccountUsername(namespace, serviceAccount.name)) return undefined;
  const pod = readReference(own["pod"]);
  const secret = readReference(own["secret"]);
  const node = readReference(own["node"]);
  const aud = claims["aud"];
  return {
    audiences: typeof aud === "string" ? [aud] : Array.isArray(aud) ? aud.filter((one) => typeof one === "string") : [],
    expiresAtSeconds: exp,
    notBeforeSeconds: nbf,
    issuedAtSeconds: iat,
    id: typeof claims["jti"] === "string" ? claims["jti"] : "",
    namespace,
    serviceAccount,
    ...(pod === undefined ? {} : { pod }),
    ...(secret === undefined ? {} : { secret }),
    ...(node === undefined ? {} : { node }),
  };
}

function readReference(value: unknown): Reference | undefined {
  if (!isObject(value)) return undefined;
  const { name, uid } = value;
  return typeof name === "string" && typeof uid === "string" ? { name, uid } : undefined;
}

const orderOfP256 = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** If (r, s) is a valid signature, so is (r, n - s); the one with the smaller s is used. */
function canonical(signature: Buffer): Buffer {
  const s = BigInt(`0x${signature.toString("hex", 32)}`);
  if (s <= orderOfP256 / 2n || s > orderOfP256) return signature;
  const other = (orderOfP256 - s).toString(16).padStart(64, "0");
  return Buffer.concat([signature.subarray(0, 32), Buffer.from(other, "hex")]);
}

const base64url = /^[A-Za-z0-9_-]+$/;

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decode(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function keyIdOf(publicKey: KeyObject): string {
  return createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("base64url");
}

function randomUuid(random: Random): string {
  const bytes = Buffer.alloc(16);
  for (let offset = 0; offset < 16; offset += 4) bytes.writeUInt32BE(random.uint32() >>> 0, offset);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
