/** Admission of pods, priorities, namespaces that end; quota and limits; PodSecurity. */
import type { Loose } from "../apiUnderTest.ts";
import { accepts, namespace, type Probe, patchTypes } from "../probe.ts";

const pod = (name: string, spec: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { automountServiceAccountToken: false, containers: [{ name: "c", image: "x" }], ...spec },
});
const container = (fields: object) => ({ containers: [{ name: "c", image: "x", ...fields }] });
const resources = (fields: object) => container({ resources: fields });
const claim = (storage: string) => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "a" },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
});

const podSpecs = [
  { priorityClassName: "none" },
  { priorityClassName: "system-node-critical" },
  { priority: 5 },
  { priorityClassName: "system-cluster-critical", priority: 7 },
  { preemptionPolicy: "Never" },
  { serviceAccountName: "none" },
  { serviceAccount: "a", serviceAccountName: "b" },
  { runtimeClassName: "none" },
  { nodeName: "none" },
  { schedulerName: "" },
  { overhead: { cpu: "1" } },
  { tolerations: [{ key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute" }] },
  { schedulingGates: [{ name: "a.b/c" }] },
  { nodeName: "n", schedulingGates: [{ name: "a" }] },
  { hostUsers: false },
  { os: { name: "windows" } },
  { resources: { requests: { cpu: "1" } } },
  { resources: {} },
];

export async function admission(probe: Probe): Promise<void> {
  await probe.namespace();
  for (const spec of podSpecs)
    await probe.compare(
      `pod ${JSON.stringify(spec)}`,
      "POST",
      `/api/v1/namespaces/${namespace}/pods?dryRun=All`,
      pod("a", spec),
    );
  const classes = [
    { metadata: { name: "system-x" }, value: 1 },
    { metadata: { name: "big" }, value: 2000000000 },
    { metadata: { name: "pp" }, value: 5, preemptionPolicy: "x" },
    { metadata: { name: "pp" }, value: 5, globalDefault: true },
    { metadata: { name: "pp" } },
  ];
  for (const body of classes)
    await probe.compare(
      `class ${JSON.stringify(body)}`,
      "POST",
      "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All",
      { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", ...body },
    );
  const ending = "/api/v1/namespaces/probe-ending";
  await probe.namespace("probe-ending");
  await probe.both("POST", `${ending}/configmaps`, {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "hold", finalizers: ["a.b/c"] },
  });
  await probe.compare("namespace: delete", "DELETE", ending);
  const settled = await probe.until("GET", ending, ({ json }) => json?.status?.conditions?.length === 5);
  probe.record("namespace: ending", `GET ${ending}`, undefined, settled, { ignore: /managedFields/ });
  await probe.compare("namespace: create inside", "POST", `${ending}/configmaps`, {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "x" },
  });
  await probe.compare("namespace: delete again", "DELETE", ending);
  await probe.both(
    "PATCH",
    `${ending}/configmaps/hold`,
    { metadata: { finalizers: null } },
    { headers: patchTypes.merge },
  );
  await probe.compare("namespace: create in a missing one", "POST", "/api/v1/namespaces/probe-none/configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "x" },
  });
  for (const name of ["default", "kube-system"])
    await probe.compare(`namespace: delete ${name}`, "DELETE", `/api/v1/namespaces/${name}?dryRun=All`);
}

export async function quota(probe: Probe): Promise<void> {
  const at = "/api/v1/namespaces/probe-quota";
  await probe.namespace("probe-quota");
  await probe.both("POST", `${at}/resourcequotas`, {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: "q" },
    spec: {
      hard: {
        pods: "1",
        "requests.cpu": "1",
        "limits.memory": "1Gi",
        configmaps: "3",
        "services.loadbalancers": "0",
        "count/deployments.apps": "0",
        persistentvolumeclaims: "0",
        "requests.nvidia.com/gpu": "1",
      },
    },
  });
  await probe.until("GET", `${at}/resourcequotas/q`, ({ json }) => json?.status?.used?.configmaps === "1");
  const fitting = resources({ requests: { cpu: "1" }, limits: { memory: "1Gi" } });
  const specs: Record<string, object> = {
    "no requests": {},
    "too much": resources({ requests: { cpu: "2" }, limits: { memory: "2Gi" } }),
    gpu: resources({ requests: { cpu: "1" }, limits: { memory: "1Gi", "nvidia.com/gpu": "2" } }),
    fits: fitting,
  };
  for (const [what, spec] of Object.entries(specs))
    await probe.compare(`quota: pod ${what}`, "POST", `${at}/pods?dryRun=All`, pod("a", spec));
  await probe.both("POST", `${at}/pods`, pod("a", { ...fitting, nodeSelector: { none: "such" } }));
  await probe.until("GET", `${at}/resourcequotas/q`, ({ json }) => json?.status?.used?.pods === "1");
  await probe.compare("quota: second pod", "POST", `${at}/pods?dryRun=All`, pod("b", fitting));
  await probe.compare("quota: claim", "POST", `${at}/persistentvolumeclaims?dryRun=All`, claim("1Gi"));
  for (let number = 0; number < 4; number++)
    await probe.compare(`quota: ConfigMap ${number}`, "POST", `${at}/configmaps`, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: `c${number}` },
    });
  await probe.compare("quota: table", "GET", `${at}/resourcequotas/q`, undefined, {
    headers: { Accept: accepts.table },
  });
  const limited = "/api/v1/namespaces/probe-limits";
  await probe.namespace("probe-limits");
  const limits = [
    {
      type: "Container",
      default: { cpu: "500m", memory: "1Gi" },
      defaultRequest: { cpu: "100m" },
      min: { cpu: "50m" },
      max: { cpu: "1", memory: "2Gi" },
      maxLimitRequestRatio: { cpu: "5" },
    },
    { type: "Pod", max: { cpu: "1500m" } },
    { type: "PersistentVolumeClaim", min: { storage: "1Gi" }, max: { storage: "2Gi" } },
  ];
  await probe.both("POST", `${limited}/limitranges`, {
    apiVersion: "v1",
    kind: "LimitRange",
    metadata: { name: "l" },
    spec: { limits },
  });
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const two = { containers: ["a", "b"].map((name) => ({ name, image: "x", resources: { limits: { cpu: "1" } } })) };
  const asked: Record<string, object> = {
    default: {},
    "too big": resources({ limits: { cpu: "3" } }),
    "too small": resources({ requests: { cpu: "10m" } }),
    ratio: resources({ requests: { cpu: "60m" }, limits: { cpu: "1" } }),
    two,
  };
  for (const [what, spec] of Object.entries(asked))
    await probe.compare(`limits: pod ${what}`, "POST", `${limited}/pods?dryRun=All`, pod("a", spec));
  for (const storage of ["500Mi", "1Gi", "5Gi"])
    await probe.compare(
      `limits: claim ${storage}`,
      "POST",
      `${limited}/persistentvolumeclaims?dryRun=All`,
      claim(storage),
    );
  for (const name of ["probe-quota", "probe-limits"]) await probe.both("DELETE", `/api/v1/namespaces/${name}`);
}

const security: Record<string, Loose> = {
  plain: {},
  privileged: container({ securityContext: { privileged: true } }),
  hostNetwork: { hostNetwork: true },
  hostPath: { volumes: [{ name: "v", hostPath: { path: "/" } }] },
  hostPort: container({ ports: [{ containerPort: 80, hostPort: 80 }] }),
  capabilities: container({ securityContext: { capabilities: { add: ["SYS_ADMIN", "CHOWN"] } } }),
  procMount: container({ securityContext: { procMount: "Unmasked" } }),
  seccomp: { securityContext: { seccompProfile: { type: "Unconfined" } } },
  sysctl: { securityContext: { sysctls: [{ name: "a.b", value: "1" }] } },
  root: container({ securityContext: { runAsUser: 0 } }),
  restricted: container({
    securityContext: {
      allowPrivilegeEscalation: false,
      runAsNonRoot: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
  }),
};

export async function podSecurity(probe: Probe): Promise<void> {
  for (const level of ["baseline", "restricted"]) {
    const name = `probe-${level}`;
    await probe.namespace(name, {
      "pod-security.kubernetes.io/enforce": level,
      "pod-security.kubernetes.io/warn": "restricted",
    });
    for (const [what, spec] of Object.entries(security))
      await probe.compare(`${level}: ${what}`, "POST", `/api/v1/namespaces/${name}/pods?dryRun=All`, pod("a", spec));
    const template = {
      metadata: { labels: { a: "b" } },
      spec: { hostNetwork: true, containers: [{ name: "c", image: "x" }] },
    };
    await probe.compare(`${level}: template`, "POST", `/apis/apps/v1/namespaces/${name}/deployments?dryRun=All`, {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "a" },
      spec: { selector: { matchLabels: { a: "b" } }, template },
    });
    await probe.both("DELETE", `/api/v1/namespaces/${name}`);
  }
  await probe.namespace();
  await probe.both("POST", `/api/v1/namespaces/${namespace}/pods`, pod("zz", { nodeSelector: { none: "such" } }));
  for (const labels of [
    { "pod-security.kubernetes.io/enforce": "zz" },
    { "pod-security.kubernetes.io/enforce-version": "v9" },
    { "pod-security.kubernetes.io/enforce": "restricted" },
  ]) {
    await probe.compare(
      `label ${JSON.stringify(labels)}`,
      "PATCH",
      `/api/v1/namespaces/${namespace}?dryRun=All`,
      { metadata: { labels } },
      { headers: patchTypes.merge },
    );
  }
  await probe.both("DELETE", `/api/v1/namespaces/${namespace}/pods/zz?gracePeriodSeconds=0`);
}
