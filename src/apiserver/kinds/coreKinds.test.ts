import { expect, test } from "vitest";
import { create, type Draft, nowText, update, updateStatus, world } from "../../../test/fixtures/kindWrites.ts";
import { createSigningRequest } from "../../../testing/apiserver/createSigningRequest.ts";
import { builtinResources } from "../builtinResources.ts";
import { strategyFor } from "./strategies.ts";

// biome-ignore lint/suspicious/noExplicitAny: edits walk into untyped objects.
type Edit = (object: any) => void;
const named = (more: object): Draft => ({ metadata: { name: "x", namespace: "ns" }, ...more });
const service = (spec: object = {}): Draft => named({ spec: { ports: [{ port: 80 }], ...spec } });
const claim = (spec: object = {}): Draft =>
  named({ spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec } });
const volume = (spec: object = {}): Draft =>
  named({
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
      csi: { driver: "d", volumeHandle: "h" },
      ...spec,
    },
  });
const webhook = (more: object = {}): Draft =>
  named({
    webhooks: [
      {
        name: "a.example.com",
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        clientConfig: { url: "https://localhost:8443/mutate" },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
        ...more,
      },
    ],
  });
const policy = (spec: object = {}): Draft =>
  named({
    spec: {
      matchConstraints: {
        resourceRules: [{ apiGroups: ["apps"], apiVersions: ["v1"], operations: ["*"], resources: ["*"] }],
      },
      validations: [{ expression: "object.spec.replicas <= 5" }],
      ...spec,
    },
  });
const ingress = (spec: object = {}): Draft =>
  named({
    spec: {
      rules: [
        {
          host: "*.example.com",
          http: {
            paths: [{ path: "/", pathType: "Prefix", backend: { service: { name: "s", port: { number: 80 } } } }],
          },
        },
      ],
      ...spec,
    },
  });
const autoscaler = (spec: object = {}): Draft => ({
  ...named({
    spec: { maxReplicas: 5, scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "d" }, ...spec },
  }),
  apiVersion: "autoscaling/v2",
});
const slice = (more: object = {}): Draft =>
  named({ addressType: "IPv4", endpoints: [{ addresses: ["10.0.0.1"] }], ports: [{ port: 80 }], ...more });
const event = (more: object = {}): Draft => ({
  ...named({ involvedObject: { kind: "Pod", name: "p", namespace: "ns" }, reason: "Bound", message: "to n1", ...more }),
  apiVersion: "v1",
});

/** Resource, an object, and what it must have become. */
test.each<[string, Draft, object]>([
  [
    "/nodes",
    {
      metadata: { name: "n" },
      status: { capacity: { cpu: "8", "nvidia.com/gpu": "4" } },
      spec: { podCIDR: "10.0.0.0/24", taints: [{ key: "a", effect: "NoSchedule" }] },
    },
    { status: { allocatable: { cpu: "8", "nvidia.com/gpu": "4" } }, spec: { podCIDRs: ["10.0.0.0/24"] } },
  ],
  [
    "/namespaces",
    { metadata: { name: "x" } },
    {
      metadata: { labels: { "kubernetes.io/metadata.name": "x" } },
      spec: { finalizers: ["kubernetes"] },
      status: { phase: "Active" },
    },
  ],
  [
    "/services",
    service(),
    {
      spec: {
        type: "ClusterIP",
        clusterIP: "10.96.0.1",
        clusterIPs: ["10.96.0.1"],
        sessionAffinity: "None",
        ipFamilies: ["IPv4"],
        ipFamilyPolicy: "SingleStack",
        internalTrafficPolicy: "Cluster",
        ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
      },
    },
  ],
  ["/configmaps", named({ data: { "a.conf": "x" }, binaryData: { b: "AA==" } }), {}],
  [
    "/secrets",
    named({ data: { a: "YQ==" }, stringData: { b: "b" } }),
    { type: "Opaque", data: { a: "YQ==", b: "Yg==" } },
  ],
  ["/serviceaccounts", named({}), {}],
  [
    "/persistentvolumeclaims",
    claim(),
    {
      spec: { volumeMode: "Filesystem" },
      status: { phase: "Pending" },
      metadata: { finalizers: ["kubernetes.io/pvc-protection"] },
    },
  ],
  [
    "/persistentvolumes",
    volume(),
    {
      spec: { persistentVolumeReclaimPolicy: "Retain", volumeMode: "Filesystem" },
      metadata: { finalizers: ["kubernetes.io/pv-protection"] },
    },
  ],
  [
    "/limitranges",
    named({ spec: { limits: [{ type: "Container", max: { cpu: "2" }, min: { cpu: "100m" } }] } }),
    { spec: { limits: [{ default: { cpu: "2" }, defaultRequest: { cpu: "2" } }] } },
  ],
  [
    "/resourcequotas",
    named({ spec: { hard: { pods: "10", "requests.nvidia.com/gpu": "4" }, scopes: ["NotTerminating"] } }),
    {},
  ],
  [
    "/endpoints",
    named({ subsets: [{ addresses: [{ ip: "10.0.0.1" }], ports: [{ port: 80 }] }] }),
    { subsets: [{ ports: [{ protocol: "TCP" }] }] },
  ],
  ["/events", event(), {}],
  ["discovery.k8s.io/endpointslices", slice(), { ports: [{ name: "", protocol: "TCP" }] }],
  ["coordination.k8s.io/leases", named({ spec: { leaseDurationSeconds: 15, leaseTransitions: 0 } }), {}],
  ["scheduling.k8s.io/priorityclasses", named({ value: 10 }), { preemptionPolicy: "PreemptLowerPriority" }],
  ["policy/poddisruptionbudgets", named({ spec: { minAvailable: "50%", selector: { matchLabels: { a: "b" } } } }), {}],
  ["node.k8s.io/runtimeclasses", named({ handler: "kata", overhead: { podFixed: { memory: "1Mi" } } }), {}],
  [
    "storage.k8s.io/storageclasses",
    named({ provisioner: "ebs.csi.aws.com" }),
    { reclaimPolicy: "Delete", volumeBindingMode: "Immediate" },
  ],
  [
    "storage.k8s.io/csidrivers",
    named({ spec: {} }),
    { spec: { attachRequired: true, fsGroupPolicy: "ReadWriteOnceWithFSType", volumeLifecycleModes: ["Persistent"] } },
  ],
  ["storage.k8s.io/csinodes", named({ spec: { drivers: [{ name: "d", nodeID: "n" }] } }), {}],
  [
    "storage.k8s.io/volumeattachments",
    named({ spec: { attacher: "d", nodeName: "n", source: { persistentVolumeName: "pv" } } }),
    {},
  ],
  ["storage.k8s.io/volumeattributesclasses", named({ driverName: "d", parameters: { iops: "1" } }), {}],
  ["storage.k8s.io/csistoragecapacities", named({ storageClassName: "s", capacity: "1Gi" }), {}],
  ["networking.k8s.io/ingresses", ingress(), {}],
  [
    "networking.k8s.io/ingressclasses",
    named({ spec: { controller: "example.com/c", parameters: { kind: "K", name: "n" } } }),
    { spec: { parameters: { scope: "Cluster" } } },
  ],
  [
    "networking.k8s.io/networkpolicies",
    named({
      spec: { egress: [{ ports: [{ port: 53 }], to: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.0.0/16"] } }] }] },
    }),
    { spec: { policyTypes: ["Ingress", "Egress"], egress: [{ ports: [{ protocol: "TCP" }] }] } },
  ],
  [
    "autoscaling/horizontalpodautoscalers",
    autoscaler({ behavior: { scaleDown: { selectPolicy: "Min" } } }),
    {
      spec: {
        minReplicas: 1,
        metrics: [{ type: "Resource", resource: { name: "cpu", target: { averageUtilization: 80 } } }],
        behavior: {
          scaleUp: { stabilizationWindowSeconds: 0, selectPolicy: "Max" },
          scaleDown: { selectPolicy: "Min", policies: [{ type: "Percent", value: 100, periodSeconds: 15 }] },
        },
      },
    },
  ],
  [
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    webhook(),
    {
      webhooks: [
        {
          failurePolicy: "Fail",
          matchPolicy: "Equivalent",
          timeoutSeconds: 10,
          reinvocationPolicy: "Never",
          namespaceSelector: {},
          objectSelector: {},
          rules: [{ scope: "*" }],
        },
      ],
    },
  ],
  [
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    webhook({ clientConfig: { service: { name: "s", namespace: "ns" } } }),
    { webhooks: [{ clientConfig: { service: { port: 443 } } }] },
  ],
  [
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    policy(),
    {
      spec: { failurePolicy: "Fail", matchConstraints: { matchPolicy: "Equivalent", resourceRules: [{ scope: "*" }] } },
    },
  ],
  [
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    named({ spec: { policyName: "p", validationActions: ["Deny"] } }),
    {},
  ],
  [
    "admissionregistration.k8s.io/mutatingadmissionpolicies",
    policy({
      reinvocationPolicy: "Never",
      mutations: [{ patchType: "JSONPatch", jsonPatch: { expression: "[JSONPatch{}]" } }],
      validations: undefined,
    }),
    { spec: { failurePolicy: "Fail" } },
  ],
  ["admissionregistration.k8s.io/mutatingadmissionpolicybindings", named({ spec: { policyName: "p" } }), {}],
  [
    "/podtemplates",
    named({ template: { spec: { containers: [{ name: "c", image: "i" }] } } }),
    { template: { spec: { restartPolicy: "Always" } } },
  ],
  ["apps/controllerrevisions", named({ revision: 1, data: { a: 1 } }), {}],
  [
    "certificates.k8s.io/certificatesigningrequests",
    named({
      spec: {
        request: createSigningRequest({ commonName: "u" }).request,
        signerName: "example.com/s",
        usages: ["client auth"],
        username: "someone-else",
      },
    }),
    { spec: { username: "tester", groups: ["system:masters"] } },
  ],
  [
    "scheduling.k8s.io/workloads",
    named({ spec: { podGroupTemplates: [{ name: "w", schedulingPolicy: { gang: { minCount: 4 } } }] } }),
    {},
  ],
  [
    "scheduling.k8s.io/podgroups",
    named({ spec: { schedulingPolicy: { basic: {} } } }),
    { spec: { disruptionMode: "Pod" } },
  ],
])("%s: a good object is accepted with its defaults, which are idempotent", (key, draft, expected) => {
  const written = create(key, draft);
  expect(written.refused).toBeUndefined();
  expect(written.errors).toEqual([]);
  expect(written.object).toMatchObject(expected);
  const before = JSON.stringify(written.object);
  strategyFor(key).setDefaults?.(written.object);
  expect(JSON.stringify(written.object)).toBe(before);
  expect(update(key, written.object, () => {}).errors).toEqual([]);
  expect(updateStatus(key, written.object, () => {}).errors).toEqual([]);
});

test.each<[string, string, Draft, string]>([
  [
    "a taint without an effect",
    "/nodes",
    { metadata: { name: "n" }, spec: { taints: [{ key: "a" }] } },
    "metadata.taints[0].effect: Required value",
  ],
  [
    "the same taint twice",
    "/nodes",
    {
      metadata: { name: "n" },
      spec: {
        taints: [
          { key: "a", effect: "NoSchedule" },
          { key: "a", effect: "NoSchedule" },
        ],
      },
    },
    'metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect pair',
  ],
  [
    "half a GPU of capacity",
    "/nodes",
    { metadata: { name: "n" }, status: { capacity: { "nvidia.com/gpu": "500m" } } },
    'status.capacity.nvidia.com/gpu: Invalid value: "500m": must be an integer',
  ],
  [
    "a finalizer of nobody",
    "/namespaces",
    { metadata: { name: "x" }, spec: { finalizers: ["mine"] } },
    'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified',
  ],
  ["a service without ports", "/services", service({ ports: [] }), "spec.ports: Required value"],
  [
    "two ports without names",
    "/services",
    service({ ports: [{ port: 80 }, { port: 81 }] }),
    "spec.ports[1].name: Required value",
  ],
  [
    "a node port on a cluster address",
    "/services",
    service({ ports: [{ port: 80, nodePort: 30001 }] }),
    "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
  ],
  [
    "a headless load balancer",
    "/services",
    service({ type: "LoadBalancer", clusterIP: "None" }),
    "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services",
  ],
  ["an external name of nothing", "/services", service({ type: "ExternalName" }), "spec.externalName: Required value"],
  ["a bad key", "/configmaps", named({ data: { "a/b": "x" } }), 'data[a/b]: Invalid value: "a/b"'],
  [
    "a key in both halves",
    "/configmaps",
    named({ data: { a: "x" }, binaryData: { a: "AA==" } }),
    'data[a]: Invalid value: "a": duplicate of key present in binaryData',
  ],
  [
    "more than a mebibyte",
    "/configmaps",
    named({ data: { a: "x".repeat(1024 * 1024 + 1) } }),
    ": Too long: may not be more than 1048576 bytes",
  ],
  [
    "a TLS secret without a key",
    "/secrets",
    named({ type: "kubernetes.io/tls", data: { "tls.crt": "YQ==" } }),
    "data[tls.key]: Required value",
  ],
  [
    "a docker config that is no JSON",
    "/secrets",
    named({ type: "kubernetes.io/dockerconfigjson", data: { ".dockerconfigjson": "YQ==" } }),
    'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"',
  ],
  [
    "a token of no account",
    "/secrets",
    named({ type: "kubernetes.io/service-account-token" }),
    "metadata.annotations[kubernetes.io/service-account.name]: Required value",
  ],
  ["basic auth of nobody", "/secrets", named({ type: "kubernetes.io/basic-auth" }), "data[username]: Required value"],
  [
    "an ssh secret without a key",
    "/secrets",
    named({ type: "kubernetes.io/ssh-auth" }),
    "data[ssh-privatekey]: Required value",
  ],
  [
    "a claim of no size",
    "/persistentvolumeclaims",
    claim({ resources: {} }),
    "spec.resources[storage]: Required value",
  ],
  [
    "a claim of no mode",
    "/persistentvolumeclaims",
    claim({ accessModes: [] }),
    "spec.accessModes: Required value: at least 1 access mode is required",
  ],
  [
    "a volume with two sources",
    "/persistentvolumes",
    volume({ hostPath: { path: "/x" } }),
    "spec.hostPath: Forbidden: may not specify more than 1 volume type",
  ],
  [
    "a minimum above the maximum",
    "/limitranges",
    named({ spec: { limits: [{ type: "Pod", min: { cpu: "2" }, max: { cpu: "1" } }] } }),
    'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
  ],
  [
    "half a pod",
    "/resourcequotas",
    named({ spec: { hard: { pods: "500m" } } }),
    'spec.hard[pods]: Invalid value: "500m": must be an integer',
  ],
  [
    "both sides of a scope",
    "/resourcequotas",
    named({ spec: { scopes: ["BestEffort", "NotBestEffort"] } }),
    'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
  ],
  [
    "a loopback endpoint",
    "/endpoints",
    named({ subsets: [{ addresses: [{ ip: "127.0.0.1" }] }] }),
    'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
  ],
  [
    "an event in another namespace",
    "/events",
    event({ involvedObject: { namespace: "other" } }),
    'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
  ],
  [
    "a new event without an action",
    "/events",
    event({
      eventTime: "2026-01-01T00:00:00.000000Z",
      reportingComponent: "c",
      reportingInstance: "i",
      type: "Normal",
    }),
    "action: Required value",
  ],
  [
    "IPv6 in an IPv4 slice",
    "discovery.k8s.io/endpointslices",
    slice({ endpoints: [{ addresses: ["fd00::1"] }] }),
    'endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address',
  ],
  [
    "a lease of no time",
    "coordination.k8s.io/leases",
    named({ spec: { leaseDurationSeconds: 0 } }),
    "spec.leaseDurationSeconds: Invalid value: 0: must be greater than zero",
  ],
  [
    "a lease that went back",
    "coordination.k8s.io/leases",
    named({ spec: { leaseTransitions: -1 } }),
    "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
  ],
  [
    "a user's priority among the system's",
    "scheduling.k8s.io/priorityclasses",
    named({ value: 1000000001 }),
    "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
  ],
  [
    "a system class of one's own",
    "scheduling.k8s.io/priorityclasses",
    { metadata: { name: "system-mine" }, value: 1 },
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved",
  ],
  [
    "a budget both ways",
    "policy/poddisruptionbudgets",
    named({ spec: { minAvailable: 1, maxUnavailable: 1 } }),
    "spec: Invalid value",
  ],
  [
    "a budget of 110 %",
    "policy/poddisruptionbudgets",
    named({ spec: { minAvailable: "110%" } }),
    'spec.minAvailable: Invalid value: "110%": must not be greater than 100%',
  ],
  ["a runtime of no name", "node.k8s.io/runtimeclasses", named({ handler: "A B" }), 'handler: Invalid value: "A B"'],
  ["a class of no provisioner", "storage.k8s.io/storageclasses", named({}), "provisioner: Required value"],
  [
    "an attachment of nothing",
    "storage.k8s.io/volumeattachments",
    named({ spec: { attacher: "d", nodeName: "n", source: {} } }),
    "spec.source: Required value",
  ],
  [
    "a relative path",
    "networking.k8s.io/ingresses",
    ingress({
      rules: [
        {
          http: {
            paths: [{ path: "x", pathType: "Exact", backend: { service: { name: "s", port: { number: 80 } } } }],
          },
        },
      ],
    }),
    'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path',
  ],
  [
    "an ingress to nowhere",
    "networking.k8s.io/ingresses",
    named({ spec: {} }),
    'spec: Invalid value: "null": either `defaultBackend` or `rules` must be specified',
  ],
  [
    "an exception outside its network",
    "networking.k8s.io/networkpolicies",
    named({ spec: { ingress: [{ from: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] } }] }] } }),
    'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
  ],
  [
    "fewer at most than at least",
    "autoscaling/horizontalpodautoscalers",
    autoscaler({ minReplicas: 9 }),
    "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`",
  ],
  [
    "a metric of no source",
    "autoscaling/horizontalpodautoscalers",
    autoscaler({ metrics: [{ type: "Pods" }] }),
    "spec.metrics[0].pods: Required value: must populate information for the given metric source",
  ],
  [
    "a webhook over plain HTTP",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    webhook({ clientConfig: { url: "http://x/" } }),
    "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
  ],
  [
    "a webhook with a short name",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    webhook({ name: "a" }),
    'webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots',
  ],
  [
    "a webhook that takes a minute",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    webhook({ timeoutSeconds: 60 }),
    "webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds",
  ],
  [
    "a policy that does not parse",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    policy({ validations: [{ expression: "object." }] }),
    'spec.validations[0].expression: Invalid value: "object.": compilation failed',
  ],
  [
    "a policy about nothing",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    policy({ matchConstraints: undefined }),
    "spec.matchConstraints: Required value",
  ],
  [
    "a binding that both denies and warns",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    named({ spec: { policyName: "p", validationActions: ["Deny", "Warn"] } }),
    "spec.validationActions: Invalid value",
  ],
  [
    "a gang of none",
    "scheduling.k8s.io/podgroups",
    named({ spec: { schedulingPolicy: { gang: { minCount: 0 } } } }),
    "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than zero",
  ],
  [
    "a group of two policies",
    "scheduling.k8s.io/podgroups",
    named({ spec: { schedulingPolicy: { gang: { minCount: 1 }, basic: {} } } }),
    "spec.schedulingPolicy: Invalid value",
  ],
])("invalid: %s", (_name, key, draft, error) => {
  const { errors, refused } = create(key, draft);
  expect(refused).toBeUndefined();
  expect(errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

const immutableMap = named({ immutable: true, data: { a: "x" } });

test.each<[string, string, Draft, Edit, string]>([
  [
    "a node's address range",
    "/nodes",
    { metadata: { name: "n" }, spec: { podCIDR: "10.0.0.0/24" } },
    (n) => (n.spec = { podCIDR: "10.0.1.0/24" }),
    'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
  ],
  [
    "a node's provider id",
    "/nodes",
    { metadata: { name: "n" }, spec: { providerID: "aws:///i-1" } },
    (n) => (n.spec.providerID = "aws:///i-2"),
    'spec.providerID: Invalid value: "null": field cannot be modified once set',
  ],
  [
    "a service's address",
    "/services",
    service(),
    (s) => {
      s.spec.clusterIP = "10.96.0.9";
      s.spec.clusterIPs = ["10.96.0.9"];
    },
    'spec.clusterIPs[0]: Invalid value: "10.96.0.9": may not change once set',
  ],
  [
    "an immutable ConfigMap",
    "/configmaps",
    immutableMap,
    (m) => (m.data.a = "y"),
    "data: Forbidden: field is immutable when `immutable` is set",
  ],
  [
    "an immutable ConfigMap back",
    "/configmaps",
    immutableMap,
    (m) => delete m.immutable,
    "immutable: Forbidden: field is immutable when `immutable` is set",
  ],
  ["a secret's type", "/secrets", named({}), (s) => (s.type = "x/y"), 'type: Invalid value: "x/y": field is immutable'],
  [
    "a claim's mode",
    "/persistentvolumeclaims",
    claim(),
    (c) => (c.spec.accessModes = ["ReadWriteMany"]),
    "spec: Forbidden: spec is immutable after creation",
  ],
  [
    "a volume's source",
    "/persistentvolumes",
    volume(),
    (v) => (v.spec.csi.volumeHandle = "z"),
    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
  ],
  [
    "a priority",
    "scheduling.k8s.io/priorityclasses",
    named({ value: 1 }),
    (c) => (c.value = 2),
    "value: Forbidden: may not be changed in an update.",
  ],
  [
    "a storage class's provisioner",
    "storage.k8s.io/storageclasses",
    named({ provisioner: "a" }),
    (c) => (c.provisioner = "b"),
    "provisioner: Forbidden: updates to provisioner are forbidden.",
  ],
  [
    "a storage class's parameters",
    "storage.k8s.io/storageclasses",
    named({ provisioner: "a" }),
    (c) => (c.parameters = { b: "1" }),
    "parameters: Forbidden: updates to parameters are forbidden.",
  ],
  [
    "a quota's scopes",
    "/resourcequotas",
    named({ spec: { scopes: ["Terminating"] } }),
    (q) => delete q.spec.scopes,
    'spec.scopes: Invalid value: "null": field is immutable',
  ],
  [
    "a slice's address type",
    "discovery.k8s.io/endpointslices",
    slice(),
    (s) => {
      s.addressType = "FQDN";
      s.endpoints = [];
    },
    'addressType: Invalid value: "FQDN": field is immutable',
  ],
  [
    "a runtime's handler",
    "node.k8s.io/runtimeclasses",
    named({ handler: "a" }),
    (r) => (r.handler = "b"),
    'handler: Invalid value: "b": field is immutable',
  ],
  [
    "a revision's data",
    "apps/controllerrevisions",
    named({ revision: 1, data: { a: 1 } }),
    (r) => (r.data = { a: 2 }),
    "data: Invalid value",
  ],
  [
    "a gang's size",
    "scheduling.k8s.io/podgroups",
    named({ spec: { schedulingPolicy: { gang: { minCount: 1 } } } }),
    (g) => (g.spec.schedulingPolicy.gang.minCount = 2),
    "spec: Invalid value",
  ],
])("%s cannot change", (_name, key, draft, edit, error) => {
  const { errors } = update(key, create(key, draft).object, edit);
  expect(errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test("a bound claim can grow, and cannot shrink below its volume", () => {
  const stored = create("/persistentvolumeclaims", claim()).object;
  stored.status = { phase: "Bound", capacity: { storage: "1Gi" } };
  expect(update("/persistentvolumeclaims", stored, (c) => (c.spec.resources.requests.storage = "2Gi")).errors).toEqual(
    [],
  );
  expect(
    update("/persistentvolumeclaims", stored, (c) => (c.spec.resources.requests.storage = "512Mi")).errors,
  ).toEqual(["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]);
});

test("a claim without a class gets the default class", () => {
  const context = world({
    "storage.k8s.io/storageclasses": [
      {
        metadata: {
          name: "fast",
          creationTimestamp: nowText,
          annotations: { "storageclass.kubernetes.io/is-default-class": "true" },
        },
      },
    ],
  });
  expect(create("/persistentvolumeclaims", claim(), context).object.spec.storageClassName).toBe("fast");
  expect(create("/persistentvolumeclaims", claim({ storageClassName: "" }), context).object.spec.storageClassName).toBe(
    "",
  );
});

test("a claim obeys the bounds of its namespace", () => {
  const context = world({
    "/limitranges": [
      {
        metadata: { name: "l", namespace: "ns" },
        spec: { limits: [{ type: "PersistentVolumeClaim", max: { storage: "512Mi" } }] },
      },
    ],
  });
  expect(create("/persistentvolumeclaims", claim(), context).refused?.status.message).toBe(
    'persistentvolumeclaims "x" is forbidden: maximum storage usage per PersistentVolumeClaim is 512Mi, but request is 1Gi',
  );
});

const taken = () =>
  world({
    "/services": [
      {
        metadata: { name: "other", namespace: "ns" },
        spec: {
          clusterIP: "10.96.0.1",
          clusterIPs: ["10.96.0.1"],
          ports: [{ port: 1, protocol: "TCP", nodePort: 30000 }],
        },
      },
    ],
  });

test("services get an address and node ports that no other service has", () => {
  const { spec } = create("/services", service({ type: "NodePort" }), taken()).object;
  expect(spec.clusterIP).toBe("10.96.0.2");
  expect(spec.ports[0].nodePort).toBeGreaterThan(30000);
});

test.each([
  ["headless services have none", { clusterIP: "None" }, "None"],
  ["external names have none", { type: "ExternalName", externalName: "example.com", ports: [] }, undefined],
  ["a free address can be chosen", { clusterIP: "10.96.7.7" }, "10.96.7.7"],
])("cluster address: %s", (_name, spec, expected) => {
  const written = create("/services", service(spec), taken());
  expect([written.errors, written.object.spec.clusterIP]).toEqual([[], expected]);
});

test.each([
  [
    "a taken address",
    { clusterIP: "10.96.0.1" },
    'Service "x" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated',
  ],
  [
    "an address from elsewhere",
    { clusterIP: "192.168.0.1" },
    'Service "x" is invalid: spec.clusterIPs: Invalid value: ["192.168.0.1"]: failed to allocate IP 192.168.0.1: the provided IP (192.168.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16',
  ],
  [
    "a taken node port",
    { type: "NodePort", ports: [{ port: 80, nodePort: 30000 }] },
    'Service "x" is invalid: spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated',
  ],
  [
    "a node port out of range",
    { type: "NodePort", ports: [{ port: 80, nodePort: 80 }] },
    'Service "x" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767',
  ],
])("a service cannot have %s", (_name, spec, message) => {
  const { refused } = create("/services", service(spec), taken());
  expect([refused?.status.code, refused?.status.message]).toEqual([422, message]);
});

test.each([
  ["NodePort", "ClusterIP"],
  ["LoadBalancer", "ClusterIP"],
  ["LoadBalancer", "NodePort"],
  ["NodePort", "ExternalName"],
  ["LoadBalancer", "ExternalName"],
])("a service that turns from %s to %s leaves behind what came with its type", (from, to) => {
  const stored = create("/services", service({ type: from })).object;
  const { object, errors } = update("/services", stored, (s) => {
    s.spec.type = to;
    if (to === "ExternalName") s.spec.externalName = "example.com";
  });
  expect(errors).toEqual([]);
  expect(object.spec).not.toHaveProperty("allocateLoadBalancerNodePorts");
  expect("externalTrafficPolicy" in object.spec).toBe(to === "NodePort");
  expect("nodePort" in object.spec.ports[0]).toBe(to === "NodePort");
  expect("clusterIP" in object.spec).toBe(to !== "ExternalName");
});

test("a service keeps its address and node ports when an update leaves them out", () => {
  const stored = create("/services", service({ type: "NodePort" })).object;
  const { object, errors } = update("/services", stored, (s) => {
    delete s.spec.clusterIP;
    delete s.spec.clusterIPs;
    delete s.spec.ports[0].nodePort;
  });
  expect(errors).toEqual([]);
  expect([object.spec.clusterIP, object.spec.ports[0].nodePort]).toEqual([
    stored.spec.clusterIP,
    stored.spec.ports[0].nodePort,
  ]);
});

test("a namespace's phase follows its deletion", () => {
  const stored = create("/namespaces", { metadata: { name: "x" } }).object;
  expect(updateStatus("/namespaces", stored, (n) => (n.status.phase = "Terminating")).errors).toHaveLength(1);
  stored.metadata.deletionTimestamp = nowText;
  expect(updateStatus("/namespaces", stored, (n) => (n.status.phase = "Terminating")).errors).toEqual([]);
});

test("only /finalize changes the finalizers of a namespace's content", () => {
  const stored = create("/namespaces", { metadata: { name: "x" } }).object;
  expect(update("/namespaces", stored, (n) => (n.spec.finalizers = [])).object.spec.finalizers).toEqual(["kubernetes"]);
});

test.each([
  ["/services", "createOnUpdate"],
  ["/events", "createOnUpdate"],
  ["/endpoints", "createOnUpdate"],
  ["/limitranges", "createOnUpdate"],
  ["node.k8s.io/runtimeclasses", "createOnUpdate"],
  ["coordination.k8s.io/leases", "createOnUpdate"],
  ["coordination.k8s.io/leases", "requiresRevision"],
  ["policy/poddisruptionbudgets", "requiresRevision"],
  ["storage.k8s.io/csinodes", "requiresRevision"],
  ["admissionregistration.k8s.io/validatingwebhookconfigurations", "requiresRevision"],
  ["/pods", "returnsDeleted"],
  ["/persistentvolumes", "returnsDeleted"],
  ["resource.k8s.io/resourceslices", "returnsDeleted"],
  ["/nodes", "statusOnCreate"],
] as const)("%s: %s", (key, trait) => {
  expect(strategyFor(key)[trait]).toBe(true);
});

test("every resource gives as many selectable values as its row names", () => {
  for (const type of builtinResources()) {
    if (type.virtual || type.group === "rbac.authorization.k8s.io") continue;
    const fields =
      strategyFor(type.storageKey).selectFields?.({ apiVersion: "", kind: "", metadata: {} } as never) ?? [];
    expect([type.storageKey, fields.length]).toEqual([type.storageKey, type.selectableFields.length]);
  }
});
