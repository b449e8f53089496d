/** EKS's REST protocol: paths in, JSON out. */
import type { StandInCloud } from "./cloud.ts";

export interface JsonAnswer {
  readonly status: number;
  readonly errorType?: string;
  readonly body: object;
}

export function eksOperation(path: string): string {
  return /^\/clusters\/?$/.test(path) ? "ListClusters" : "DescribeCluster";
}

export function answerEks(cloud: StandInCloud, path: string, params: URLSearchParams): JsonAnswer {
  if (eksOperation(path) === "ListClusters") return listClusters(cloud, params);
  const name = decodeURIComponent(/^\/clusters\/([^/]+)$/.exec(path)?.[1] ?? "");
  const cluster = cloud.clusters.get(name);
  if (cluster === undefined) {
    const message = `No cluster found for name: ${name}.`;
    return { status: 404, errorType: "ResourceNotFoundException", body: { message } };
  }
  return {
    status: 200,
    body: {
      cluster: {
        name,
        arn: `arn:aws:eks:${cloud.region}:${cloud.account}:cluster/${name}`,
        endpoint: cluster.endpoint,
        certificateAuthority: { data: cluster.certificateAuthority },
        status: "ACTIVE",
        version: "1.36",
        createdAt: 1_767_225_600.5,
        identity: { oidc: { issuer: `https://oidc.eks.${cloud.region}.amazonaws.com/id/STANDIN` } },
      },
    },
  };
}

/** By name, in pages of at most a hundred; the token is the last name of the page before. */
function listClusters(cloud: StandInCloud, params: URLSearchParams): JsonAnswer {
  const size = Number(params.get("maxResults") ?? 100);
  if (!(size >= 1 && size <= 100)) {
    const message = "maxResults must be between 1 and 100";
    return { status: 400, errorType: "InvalidParameterException", body: { message } };
  }
  const after = params.get("nextToken") ?? "";
  const names = [...cloud.clusters.keys()].sort().filter((name) => name > after);
  const clusters = names.slice(0, size);
  const nextToken = names.length > size ? clusters.at(-1) : undefined;
  return { status: 200, body: { clusters, ...(nextToken === undefined ? {} : { nextToken }) } };
}
