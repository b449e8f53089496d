import type { JsonObject } from "../../../model/json.ts";

/** Bodies that kubectl 1.32 sent, byte for byte, and the JSON they denote. */
export const kubectlBodies: { command: string; body: string; object: JsonObject }[] = [
  {
    command: "create deployment web --image=nginx --replicas=0 --port=80",
    body: "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErgBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEoYBCAASDAoKCgNhcHASA3dlYhpsChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkwSLgoFbmdpbngSBW5naW54KgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=",
    object: {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", labels: { app: "web" } },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app: "web" } },
        template: {
          metadata: { labels: { app: "web" } },
          spec: { containers: [{ name: "nginx", image: "nginx", ports: [{ containerPort: 80 }] }] },
        },
      },
    },
  },
  {
    command: "create ns team-a",
    body: "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEh4KFgoGdGVhbS1hEgAaACIAKgAyADgAQgASABoCCgAaACIA",
    object: { apiVersion: "v1", kind: "Namespace", metadata: { name: "team-a" } },
  },
  {
    command: "create secret generic s --from-literal=user=admin",
    body: "azhzAAoMCgJ2MRIGU2VjcmV0EiQKEQoBcxIAGgAiACoAMgA4AEIAEg0KBHVzZXISBWFkbWluGgAaACIA",
    object: { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, data: { user: "YWRtaW4=" } },
  },
  {
    command: "create job j --image=busybox -- echo hi",
    body: "azhzAAoPCghiYXRjaC92MRIDSm9iEoIBChEKAWoSABoAIgAqADIAOABCABJjMmEKEAoAEgAaACIAKgAyADgAQgASTRIqCgFqEgdidXN5Ym94GgRlY2hvGgJoaSoAQgBqAHIAgAEAiAEAkAEAogEAGgVOZXZlcjIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAGgggACgAMAA6ABoAIgA=",
    object: {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "j" },
      spec: {
        template: {
          spec: { containers: [{ name: "j", image: "busybox", command: ["echo", "hi"] }], restartPolicy: "Never" },
        },
      },
    },
  },
  {
    command: "create cronjob cj --image=busybox --schedule=*/5 * * * *",
    body: "azhzAAoTCghiYXRjaC92MRIHQ3JvbkpvYhKeAQoSCgJjahIAGgAiACoAMgA4AEIAEoUBCgsqLzUgKiAqICogKhoAKnQKEgoCY2oSABoAIgAqADIAOABCABJeMlwKEAoAEgAaACIAKgAyADgAQgASSBIhCgJjahIHYnVzeWJveCoAQgBqAHIAgAEAiAEAkAEAogEAGglPbkZhaWx1cmUyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBABoAGgAiAA==",
    object: {
      apiVersion: "batch/v1",
      kind: "CronJob",
      metadata: { name: "cj" },
      spec: {
        schedule: "*/5 * * * *",
        jobTemplate: {
          metadata: { name: "cj" },
          spec: { template: { spec: { containers: [{ name: "cj", image: "busybox" }], restartPolicy: "OnFailure" } } },
        },
      },
    },
  },
  {
    command: "create pdb p --selector=app=web --min-available=50%",
    body: "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOgoRCgFwEgAaACIAKgAyADgAQgASGQoJCAEQABoDNTAlEgwKCgoDYXBwEgN3ZWIaCggAGAAgACgAMAAaACIA",
    object: {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "p" },
      spec: { minAvailable: "50%", selector: { matchLabels: { app: "web" } } },
      status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
    },
  },
  {
    command: "create quota q --hard=cpu=1,memory=1Gi,pods=2",
    body: "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRJBChEKAXESABoAIgAqADIAOABCABIqCgoKA2NwdRIDCgExCg8KBm1lbW9yeRIFCgMxR2kKCwoEcG9kcxIDCgEyGgAaACIA",
    object: {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "q" },
      spec: { hard: { cpu: "1", memory: "1Gi", pods: "2" } },
    },
  },
  {
    command: "create sa robot",
    body: "azhzAAoUCgJ2MRIOU2VydmljZUFjY291bnQSFwoVCgVyb2JvdBIAGgAiACoAMgA4AEIAGgAiAA==",
    object: { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } },
  },
  {
    command: "create service nodeport svc --tcp=80:8080",
    body: "azhzAAoNCgJ2MRIHU2VydmljZRJoCh8KA3N2YxIAGgAiACoAMgA4AEIAWgoKA2FwcBIDc3ZjEkEKGwoHODAtODA4MBIDVENQGFAiBwgAEJA/GgAoABIKCgNhcHASA3N2YxoAIghOb2RlUG9ydDoAQgBSAFoAYABoABoCCgAaACIA",
    object: {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "svc", labels: { app: "svc" } },
      spec: {
        ports: [{ name: "80-8080", protocol: "TCP", port: 80, targetPort: 8080 }],
        selector: { app: "svc" },
        type: "NodePort",
      },
    },
  },
  {
    command: "create ingress i --rule=foo.com/bar=svc1:8080,tls=my-cert",
    body: "azhzAAofChRuZXR3b3JraW5nLms4cy5pby92MRIHSW5ncmVzcxJcChEKAWkSABoAIgAqADIAOABCABJDEhIKB2Zvby5jb20SB215LWNlcnQaLQoHZm9vLmNvbRIiCiAKHgoEL2JhchIPIg0KBHN2YzESBQoAEJA/GgVFeGFjdBoCCgAaACIA",
    object: {
      apiVersion: "networking.k8s.io/v1",
      kind: "Ingress",
      metadata: { name: "i" },
      spec: {
        tls: [{ hosts: ["foo.com"], secretName: "my-cert" }],
        rules: [
          {
            host: "foo.com",
            http: {
              paths: [
                { path: "/bar", backend: { service: { name: "svc1", port: { number: 8080 } } }, pathType: "Exact" },
              ],
            },
          },
        ],
      },
    },
  },
  {
    command: "create priorityclass pc --value=1000",
    body: "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxIxChIKAnBjEgAaACIAKgAyADgAQgAQ6AcYACIAKhRQcmVlbXB0TG93ZXJQcmlvcml0eRoAIgA=",
    object: {
      apiVersion: "scheduling.k8s.io/v1",
      kind: "PriorityClass",
      metadata: { name: "pc" },
      value: 1000,
      preemptionPolicy: "PreemptLowerPriority",
    },
  },
  {
    command: "create clusterrolebinding crb --clusterrole=cr --user=jane",
    body: "azhzAAoyChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEhJDbHVzdGVyUm9sZUJpbmRpbmcSbgoTCgNjcmISABoAIgAqADIAOABCABIpCgRVc2VyEhlyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvGgRqYW5lIgAaLAoZcmJhYy5hdXRob3JpemF0aW9uLms4cy5pbxILQ2x1c3RlclJvbGUaAmNyGgAiAA==",
    object: {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "crb" },
      subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "jane" }],
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cr" },
    },
  },
  {
    command: "create token robot --duration=10m",
    body: "azhzAAooChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESDFRva2VuUmVxdWVzdBIdChAKABIAGgAiACoAMgA4AEIAEgMg2AQaBAoAEgAaACIA",
    object: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 600 },
      status: { token: "", expirationTimestamp: null },
    },
  },
  {
    command: "auth can-i get pods",
    body: "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSPAoQCgASABoAIgAqADIAOABCABIeChwKB2RlZmF1bHQSA2dldBoAIgAqBHBvZHMyADoAGggIABIAGgAgABoAIgA=",
    object: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { namespace: "default", verb: "get", resource: "pods" } },
      status: { allowed: false },
    },
  },
];
