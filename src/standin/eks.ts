/** EKS speaks JSON over paths. */
import type { StandInCloud } from "./cloud.ts";

export interface JsonAnswer {
  readonly status: number;
  readonly errorType?: string;
  readonly body: object;
}

export function answerEks(cloud: StandInCloud, path: string): JsonAnswer {
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
