import { unauthorized } from "../../model/objects/status.ts";
import type { UserInfo } from "../strategy.ts";
import { bootstrapTokenUser } from "./bootstrapToken.ts";
import { type Lookup, serviceAccountUser, tokenInvalidReason } from "./liveToken.ts";
import type { TokenIssuer } from "./serviceAccountToken.ts";
import type { StaticTokens } from "./staticTokens.ts";

/** The credentials of a request. */
export interface Credentials {
  readonly certificate?: ClientCertificate | undefined;
  /** The header `Authorization`. */
  readonly authorization?: string | undefined;
}

/** A client certificate as the TLS layer reports it. */
export interface ClientCertificate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** Whether the client CA signed it, for client authentication, and it is valid now. */
  readonly authorized: boolean;
  /** SHA-256 of the certificate in hex, for audit; with or without colons. */
  readonly fingerprint?: string;
}

/** How tokens are verified. */
export interface TokenSources {
  readonly tokens: TokenIssuer;
  readonly staticTokens?: StaticTokens | undefined;
  readonly lookup: Lookup;
}

export const authenticatedGroup = "system:authenticated";
export const anonymous: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * The user of a request. Throws 401 for invalid credentials, even on a public path: a client with credentials must not
 * silently become anonymous. Requests without credentials are anonymous, and RBAC decides what they may do: health and
 * version, unless an administrator changes it.
 */
export function authenticate(credentials: Credentials, sources: TokenSources, nowMs: number): UserInfo {
  const { certificate } = credentials;
  if (certificate?.authorized === true && certificate.commonName !== "") return certificateUser(certificate);
  const token = bearerToken(credentials.authorization);
  if (token !== undefined) {
    const found = authenticateToken(token, [sources.tokens.issuer], sources, nowMs);
    if ("user" in found) return found.user;
    throw unauthorized();
  }
  if (certificate !== undefined) throw unauthorized();
  return anonymous;
}

/** Verifies a token for at least one of the audiences. Returns the user and the matching audiences, or the error. */
export function authenticateToken(
  token: string,
  audiences: readonly string[],
  sources: TokenSources,
  nowMs: number,
): { user: UserInfo; audiences: string[] } | { problem: string } {
  const { tokens, staticTokens, lookup } = sources;
  const known = staticTokens?.find(token) ?? bootstrapTokenUser(token, lookup, nowMs);
  if (known !== undefined) {
    // Such a token is valid for the audience of this API only.
    const fit = audiences.filter((audience) => audience === tokens.issuer);
    return fit.length === 0
      ? { problem: audienceProblem([tokens.issuer], audiences) }
      : { user: withAuthenticated(known), audiences: fit };
  }
  const claims = tokens.read(token, nowMs);
  if (typeof claims === "string") return { problem: claims };
  const fit = audiences.filter((audience) => claims.audiences.includes(audience));
  if (fit.length === 0) return { problem: audienceProblem(claims.audiences, audiences) };
  const problem = tokenInvalidReason(claims, lookup, nowMs);
  if (problem !== undefined) return { problem };
  return { user: withAuthenticated(serviceAccountUser(claims)), audiences: fit };
}

/** The token of `Authorization: Bearer <token>`; undefined for other schemes and for an empty token. */
export function bearerToken(header: string | undefined): string | undefined {
  const parts = header?.trim().split(" ", 2) ?? [];
  const [scheme = "", token = ""] = parts;
  return scheme.toLowerCase() === "bearer" && token !== "" ? token : undefined;
}

function certificateUser({ commonName, organizations, fingerprint }: ClientCertificate): UserInfo {
  const user = { username: commonName, groups: organizations };
  if (fingerprint === undefined) return withAuthenticated(user);
  const id = `X509SHA256=${fingerprint.replaceAll(":", "").toLowerCase()}`;
  return withAuthenticated({ ...user, extra: { "authentication.kubernetes.io/credential-id": [id] } });
}

function withAuthenticated(user: UserInfo): UserInfo {
  if (user.username === anonymous.username || user.groups.includes(authenticatedGroup)) return user;
  return { ...user, groups: [...user.groups, authenticatedGroup] };
}

function audienceProblem(own: readonly string[], wanted: readonly string[]): string {
  return `token audiences ${JSON.stringify(own)} is invalid for the target audiences ${JSON.stringify(wanted)}`;
}
