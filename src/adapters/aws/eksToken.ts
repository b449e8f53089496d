/**
 * A bearer token for an EKS cluster: a presigned GetCallerIdentity call, valid for a minute. The cluster makes that
 * call to authenticate the client.
 */
import { createHash, createHmac } from "node:crypto";

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface EksTokenInput {
  readonly cluster: string;
  readonly region: string;
  readonly credentials: AwsCredentials;
  readonly nowMs: number;
  /** The endpoint of STS, if not AWS's own. */
  readonly endpoint?: string;
}

const goodForSeconds = 60;

export function eksToken(input: EksTokenInput): string {
  const url = presignedIdentity(input);
  return `k8s-aws-v1.${Buffer.from(url).toString("base64url")}`;
}

export function presignedIdentity({ cluster, region, credentials, nowMs, endpoint }: EksTokenInput): string {
  const base = new URL(endpoint ?? `https://sts.${region}.amazonaws.com`);
  const stamp = new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = stamp.slice(0, 8);
  const scope = `${day}/${region}/sts/aws4_request`;
  const headers = `host:${base.host}\nx-k8s-aws-id:${cluster}\n`;
  const signed = "host;x-k8s-aws-id";
  const query = new Map([
    ["Action", "GetCallerIdentity"],
    ["Version", "2011-06-15"],
    ["X-Amz-Algorithm", "AWS4-HMAC-SHA256"],
    ["X-Amz-Credential", `${credentials.accessKeyId}/${scope}`],
    ["X-Amz-Date", stamp],
    ["X-Amz-Expires", String(goodForSeconds)],
    ["X-Amz-SignedHeaders", signed],
  ]);
  if (credentials.sessionToken !== undefined) query.set("X-Amz-Security-Token", credentials.sessionToken);
  const canonicalQuery = [...query]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .join("&");
  const empty = createHash("sha256").update("").digest("hex");
  const request = ["GET", "/", canonicalQuery, headers, signed, empty].join("\n");
  const digest = createHash("sha256").update(request).digest("hex");
  const text = ["AWS4-HMAC-SHA256", stamp, scope, digest].join("\n");
  const key = [day, region, "sts", "aws4_request"].reduce<Buffer | string>(
    (held, part) => createHmac("sha256", held).update(part).digest(),
    `AWS4${credentials.secretAccessKey}`,
  );
  const signature = createHmac("sha256", key).update(text).digest("hex");
  return `${base.origin}/?${canonicalQuery}&X-Amz-Signature=${signature}`;
}

/** Encodes as RFC 3986 requires: `encodeURIComponent` leaves five characters that the signature has to encode. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
