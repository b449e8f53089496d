/** The manifests of the inventory: the CronJob with its documented settings, and the permissions that it needs. */
import { stringify } from "yaml";

export interface ManifestOptions {
  readonly image: string;
  readonly namespace: string;
  /** The IAM role of the service account; undefined where the cluster grants AWS permissions in another way. */
  readonly roleArn?: string;
  readonly region: string;
  readonly clusterName: string;
}

export const manifestDefaults: ManifestOptions = {
  image: "ghcr.io/muster/muster:latest",
  namespace: "gpu-controlplane",
  region: "us-east-2",
  clusterName: "pytorch-gpu-dev",
};

const name = "availability-updater";
const account = "availability-updater-sa";
const labels = { app: name };

export function inventoryManifests(options: ManifestOptions): object[] {
  const { image, namespace, roleArn, region, clusterName } = options;
  const secret = (key: string): object => ({ secretKeyRef: { name: "postgres-credentials", key } });
  return [
    {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: {
        name: account,
        namespace,
        labels,
        ...(roleArn === undefined ? {} : { annotations: { "eks.amazonaws.com/role-arn": roleArn } }),
      },
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name, labels },
      rules: [
        { apiGroups: [""], resources: ["nodes", "pods", "pods/status"], verbs: ["get", "list", "watch"] },
        {
          apiGroups: ["resource.k8s.io"],
          resources: ["resourceclaims", "resourceslices"],
          verbs: ["get", "list", "watch"],
        },
      ],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name, labels },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: account, namespace }],
    },
    {
      apiVersion: "batch/v1",
      kind: "CronJob",
      metadata: { name, namespace, labels },
      spec: {
        schedule: "*/5 * * * *",
        concurrencyPolicy: "Forbid",
        startingDeadlineSeconds: 240,
        successfulJobsHistoryLimit: 3,
        failedJobsHistoryLimit: 3,
        suspend: false,
        jobTemplate: {
          metadata: { labels },
          spec: {
            activeDeadlineSeconds: 600,
            backoffLimit: 0,
            template: {
              metadata: { labels },
              spec: {
                serviceAccountName: account,
                restartPolicy: "Never",
                nodeSelector: { NodeType: "cpu" },
                securityContext: {
                  runAsNonRoot: true,
                  runAsUser: 1000,
                  runAsGroup: 1000,
                  seccompProfile: { type: "RuntimeDefault" },
                },
                containers: [
                  {
                    name,
                    image,
                    imagePullPolicy: "Always",
                    args: ["inventory", "run", "--once"],
                    env: [
                      { name: "AWS_REGION", value: region },
                      { name: "EKS_CLUSTER_NAME", value: clusterName },
                      { name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
                      { name: "POSTGRES_HOST", valueFrom: secret("POSTGRES_HOST") },
                      { name: "POSTGRES_PORT", value: "5432" },
                      { name: "POSTGRES_USER", valueFrom: secret("POSTGRES_USER") },
                      { name: "POSTGRES_PASSWORD", valueFrom: secret("POSTGRES_PASSWORD") },
                      { name: "POSTGRES_DB", valueFrom: secret("POSTGRES_DB") },
                    ],
                    resources: { requests: { cpu: "250m", memory: "512Mi" }, limits: { cpu: "1", memory: "2Gi" } },
                    securityContext: {
                      allowPrivilegeEscalation: false,
                      readOnlyRootFilesystem: true,
                      capabilities: { drop: ["ALL"] },
                    },
                  },
                ],
              },
            },
          },
        },
      },
    },
  ];
}

/** The IAM policy of the role: read-only. */
export function iamPolicy({ region, clusterName }: ManifestOptions): object {
  return {
    Version: "2012-10-17",
    Statement: [
      {
        Sid: "Look",
        Effect: "Allow",
        Action: [
          "sts:GetCallerIdentity",
          "autoscaling:DescribeAutoScalingGroups",
          "ec2:DescribeInstances",
          "ec2:DescribeAvailabilityZones",
          "ec2:DescribeVolumes",
          "ec2:DescribeSnapshots",
          "ec2:DescribeVolumesModifications",
        ],
        Resource: "*",
      },
      {
        Sid: "FindTheCluster",
        Effect: "Allow",
        Action: "eks:DescribeCluster",
        Resource: `arn:aws:eks:${region}:*:cluster/${clusterName}`,
      },
    ],
  };
}

export function printManifests(options: ManifestOptions): string {
  return inventoryManifests(options)
    .map((object) => stringify(object, { lineWidth: 0 }))
    .join("---\n");
}

/** `muster inventory manifests`. */
export function showManifests(flags: {
  readonly image?: string;
  readonly namespace?: string;
  readonly roleArn?: string;
  readonly region?: string;
  readonly cluster?: string;
  readonly iam?: boolean;
  readonly output: "text" | "json";
}): void {
  const options: ManifestOptions = {
    image: flags.image ?? manifestDefaults.image,
    namespace: flags.namespace ?? manifestDefaults.namespace,
    region: flags.region ?? manifestDefaults.region,
    clusterName: flags.cluster ?? manifestDefaults.clusterName,
    ...(flags.roleArn === undefined ? {} : { roleArn: flags.roleArn }),
  };
  if (flags.iam === true) process.stdout.write(`${JSON.stringify(iamPolicy(options), null, 2)}\n`);
  else if (flags.output === "json") {
    process.stdout.write(`${JSON.stringify({ apiVersion: "v1", kind: "List", items: inventoryManifests(options) })}\n`);
  } else process.stdout.write(printManifests(options));
}
