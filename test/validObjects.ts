/** One small valid object of every kind that can be created, for tests that go through all kinds. */
import { builtinResources, type ResourceType } from "../src/apiserver/builtinResources.ts";

export interface Sample {
  type: ResourceType;
  /** Path of the collection. */
  path: string;
  /** Without kind and apiVersion they are complete; the name is the caller's. */
  object(name: string): Record<string, unknown>;
}

const labels = { app: "a" };
const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["nothings"] };
const hook = {
  name: "h.example.com",
  clientConfig: { url: "https://127.0.0.1:1/never" },
  rules: [rule],
  sideEffects: "None",
  admissionReviewVersions: ["v1"],
  failurePolicy: "Ignore",
};
const claimSpec = { devices: { requests: [{ name: "r", exactly: { deviceClassName: "c" } }] } };
const betaClaimSpec = { devices: { requests: [{ name: "r", deviceClassName: "c" }] } };

/** What stands beside the metadata, by plural; some kinds need nothing. */
const contents: Record<string, Record<string, unknown>> = {
  configmaps: { data: { key: "value" }, binaryData: { bin: "AAEC" } },
  endpoints: { subsets: [{ addresses: [{ ip: "10.1.2.3" }], ports: [{ port: 80 }] }] },
  events: {
    involvedObject: { kind: "Pod", name: "p", namespace: "default" },
    reason: "Tested",
    message: "m",
    type: "Normal",
    source: { component: "t" },
  },
  limitranges: { spec: { limits: [{ type: "PersistentVolumeClaim", max: { storage: "100Ti" } }] } },
  nodes: { spec: { podCIDR: "10.0.0.0/24", taints: [{ key: "k", effect: "NoSchedule" }] } },
  persistentvolumeclaims: {
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, storageClassName: "s" },
  },
  persistentvolumes: {
    spec: { capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], hostPath: { path: "/tmp" } },
  },
  pods: {
    spec: {
      nodeSelector: { a: "b" },
      tolerations: [{ key: "k", operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 }],
      containers: [
        {
          name: "c",
          image: "i",
          command: ["a"],
          env: [{ name: "E", value: "v" }],
          ports: [{ containerPort: 80 }],
          resources: { requests: { cpu: "100m", memory: "1Gi" }, limits: { cpu: "1" } },
          readinessProbe: { httpGet: { port: 80, path: "/" } },
        },
      ],
      volumes: [{ name: "v", emptyDir: { sizeLimit: "1Mi" } }],
    },
  },
  podtemplates: { template },
  replicationcontrollers: { spec: { selector: labels, template } },
  resourcequotas: { spec: { hard: { "count/nothings.example.com": "5" } } },
  secrets: { data: { key: "AAEC" }, type: "Opaque" },
  serviceaccounts: { automountServiceAccountToken: false },
  services: { spec: { selector: labels, ports: [{ port: 80, targetPort: "http" }] } },
  controllerrevisions: { revision: 1, data: { a: { b: [1, "c"] } } },
  daemonsets: { spec: { selector: { matchLabels: labels }, template } },
  deployments: { spec: { replicas: 2, selector: { matchLabels: labels }, template } },
  replicasets: { spec: { selector: { matchLabels: labels }, template } },
  statefulsets: { spec: { serviceName: "s", selector: { matchLabels: labels }, template } },
  "events.k8s.io/v1/events": {
    eventTime: "2026-01-01T00:00:00.000000Z",
    reportingController: "example.com/c",
    reportingInstance: "i",
    action: "Act",
    reason: "Tested",
    type: "Normal",
    regarding: { kind: "Pod", name: "p", namespace: "default" },
  },
  horizontalpodautoscalers: {
    spec: { maxReplicas: 3, scaleTargetRef: { kind: "Deployment", name: "d", apiVersion: "apps/v1" } },
  },
  cronjobs: {
    spec: {
      schedule: "* * * * *",
      jobTemplate: { spec: { template: { spec: { restartPolicy: "Never", ...template.spec } } } },
    },
  },
  jobs: { spec: { template: { spec: { restartPolicy: "Never", ...template.spec } } } },
  certificatesigningrequests: {
    spec: { request: certificateRequest(), signerName: "example.com/s", usages: ["client auth"] },
  },
  ingressclasses: { spec: { controller: "example.com/c" } },
  ingresses: { spec: { defaultBackend: { service: { name: "s", port: { number: 80 } } } } },
  ipaddresses: { spec: { parentRef: { resource: "services", namespace: "default", name: "kubernetes" } } },
  servicecidrs: { spec: { cidrs: ["10.97.0.0/16"] } },
  networkpolicies: { spec: { podSelector: {}, ingress: [{ ports: [{ port: 80 }] }] } },
  poddisruptionbudgets: { spec: { minAvailable: "50%", selector: { matchLabels: labels } } },
  clusterrolebindings: { roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" } },
  clusterroles: { rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] },
  rolebindings: {
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "u" }],
  },
  roles: { rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] },
  csidrivers: { spec: { attachRequired: false } },
  csinodes: { spec: { drivers: [{ name: "d.example.com", nodeID: "n" }] } },
  csistoragecapacities: { storageClassName: "s", capacity: "1Gi" },
  storageclasses: { provisioner: "example.com/p" },
  volumeattachments: {
    spec: { attacher: "a.example.com", nodeName: "n", source: { persistentVolumeName: "p" } },
  },
  volumeattributesclasses: { driverName: "d.example.com", parameters: { a: "b" } },
  mutatingadmissionpolicies: {
    spec: {
      matchConstraints: { resourceRules: [rule] },
      mutations: [
        { patchType: "ApplyConfiguration", applyConfiguration: { expression: "Object{metadata: Object.metadata{}}" } },
      ],
      reinvocationPolicy: "Never",
    },
  },
  mutatingadmissionpolicybindings: { spec: { policyName: "p" } },
  mutatingwebhookconfigurations: { webhooks: [hook] },
  validatingadmissionpolicies: {
    spec: { matchConstraints: { resourceRules: [rule] }, validations: [{ expression: "true" }] },
  },
  validatingadmissionpolicybindings: { spec: { policyName: "p", validationActions: ["Deny"] } },
  validatingwebhookconfigurations: { webhooks: [hook] },
  priorityclasses: { value: 1000, globalDefault: false, description: "d" },
  podgroups: { spec: { schedulingPolicy: { basic: {} } } },
  workloads: { spec: { podGroupTemplates: [{ name: "g", schedulingPolicy: { gang: { minCount: 2 } } }] } },
  leases: { spec: { holderIdentity: "h", leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z" } },
  runtimeclasses: { handler: "h" },
  endpointslices: {
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.1.2.3"] }],
    ports: [{ name: "http", port: 80 }],
  },
  deviceclasses: { spec: { selectors: [{ cel: { expression: 'device.driver == "d.example.com"' } }] } },
  devicetaintrules: {
    spec: {
      deviceSelector: { driver: "d.example.com" },
      taint: { key: "k", effect: "NoSchedule", timeAdded: "2026-01-01T00:00:00Z" },
    },
  },
  resourceclaims: { spec: claimSpec },
  resourceclaimtemplates: { spec: { spec: claimSpec } },
  resourceslices: {
    spec: {
      driver: "d.example.com",
      nodeName: "n",
      pool: { name: "p", generation: 1, resourceSliceCount: 1 },
      devices: [{ name: "gpu-0", attributes: { model: { string: "m" } }, capacity: { memory: { value: "80Gi" } } }],
    },
  },
  "resource.k8s.io/v1beta1/resourceclaims": { spec: betaClaimSpec },
  "resource.k8s.io/v1beta1/resourceclaimtemplates": { spec: { spec: betaClaimSpec } },
  "resource.k8s.io/v1beta1/resourceslices": {
    spec: {
      driver: "d.example.com",
      nodeName: "n",
      pool: { name: "p", generation: 1, resourceSliceCount: 1 },
      devices: [{ name: "gpu-0", basic: { attributes: { model: { string: "m" } } } }],
    },
  },
};

/** Every resource that is stored and can be created, in its served versions. */
export function samples(): Sample[] {
  return builtinResources()
    .filter((type) => !type.virtual && type.verbs.includes("create"))
    .map((type) => {
      const root = type.group === "" ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`;
      const path = `${root}${type.namespaced ? "/namespaces/default" : ""}/${type.plural}`;
      const content = contents[`${type.group}/${type.version}/${type.plural}`] ?? contents[type.plural] ?? {};
      return { type, path, object: (name) => withName(type, name, content) };
    });
}

export function sampleOf(plural: string): Sample {
  const found = samples().find(({ type }) => type.plural === plural);
  if (found === undefined) throw new Error(`no sample of ${plural}`);
  return found;
}

function withName(type: ResourceType, name: string, content: Record<string, unknown>): Record<string, unknown> {
  const apiVersion = type.group === "" ? type.version : `${type.group}/${type.version}`;
  const object = { kind: type.kind, apiVersion, metadata: { name, labels }, ...structuredClone(content) };
  // Their names are addresses.
  if (type.kind === "IPAddress") return { ...object, metadata: { name: addressOf(name), labels } };
  if (type.kind !== "CustomResourceDefinition") return object;
  const plural = `t${name.replaceAll(/[^a-z0-9]/g, "")}s`;
  return {
    ...object,
    metadata: { name: `${plural}.example.com` },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural, singular: plural.slice(0, -1), kind: `T${plural.slice(1)}` },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: { spec: { type: "object" } } } },
        },
      ],
    },
  };
}

function addressOf(name: string): string {
  let number = 0;
  for (const letter of name) number = (number * 31 + letter.charCodeAt(0)) % 65_536;
  return `10.99.${number >> 8}.${number & 255}`;
}

/** A signing request for `CN=u`, made once with a key that was thrown away. */
function certificateRequest(): string {
  const pem = `-----BEGIN CERTIFICATE REQUEST-----
MIHFMG4CAQAwDDEKMAgGA1UEAwwBdTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
BIlYbp8pQ1cTsZ5lnzuSZeffLbUEJVmef+fxAq7gSxhE6Sijdz/V/dAAwPxPGxWh
7BSl+GjDKFaF6Q6uvBoxmwugADAKBggqhkjOPQQDAgNHADBEAiBvrYbRZ43QUJy9
WMqIKUmWNn0jMmY1r25KW+afRxe2vgIgctZZMyJkxlgdbeOs1VFKwlPM7Yi/9nFB
MevZPYRbsm0=
-----END CERTIFICATE REQUEST-----
`;
  return Buffer.from(pem).toString("base64");
}
