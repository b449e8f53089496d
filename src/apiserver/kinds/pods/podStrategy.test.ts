import { expect, test } from "vitest";
import { create, type Draft, update, updateStatus, world } from "../../../../test/fixtures/kindWrites.ts";
import { strategyFor } from "../strategies.ts";

/** A pod that uses much of what a pod can say. */
function fullPod(): Draft {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "trainer", namespace: "ml", labels: { app: "trainer", rank: "0" } },
    spec: {
      containers: [
        {
          name: "main",
          image: "registry:5000/train:v2",
          command: ["python", "train.py"],
          env: [
            { name: "RANK", value: "0" },
            { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
            { name: "TOKEN", valueFrom: { secretKeyRef: { name: "hub", key: "token" } } },
          ],
          ports: [{ name: "http", containerPort: 8080 }, { containerPort: 9090 }],
          resources: {
            limits: { cpu: "4", memory: "8Gi", "nvidia.com/gpu": "2" },
            requests: { cpu: "2" },
            claims: [{ name: "gpu" }],
          },
          volumeMounts: [{ name: "data", mountPath: "/data" }],
          livenessProbe: { httpGet: { port: 8080 } },
          lifecycle: { preStop: { exec: { command: ["true"] } } },
        },
      ],
      initContainers: [
        { name: "pull", image: "busybox" },
        { name: "proxy", image: "envoy:1", restartPolicy: "Always", startupProbe: { tcpSocket: { port: 1 } } },
      ],
      volumes: [
        { name: "data", persistentVolumeClaim: { claimName: "data" } },
        { name: "conf", configMap: { name: "conf", items: [{ key: "a", path: "a" }] } },
        { name: "tmp" },
      ],
      nodeSelector: { "gpu.example.com/model": "h100" },
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["a", "b"] }] }],
          },
        },
        podAntiAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            {
              weight: 10,
              podAffinityTerm: {
                labelSelector: { matchLabels: { app: "trainer" } },
                matchLabelKeys: ["rank"],
                topologyKey: "kubernetes.io/hostname",
              },
            },
          ],
        },
      },
      tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: "zone",
          whenUnsatisfiable: "DoNotSchedule",
          labelSelector: { matchLabels: { app: "trainer" } },
        },
      ],
      schedulingGates: [{ name: "muster.dev/quota" }],
      resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "gpu" }],
    },
  };
}

function pod(spec: Record<string, unknown> = {}, container: Record<string, unknown> = {}): Draft {
  return {
    metadata: { name: "p", namespace: "ns" },
    spec: { containers: [{ name: "c", image: "i:1", ...container }], ...spec },
  };
}

const create_ = (draft: Draft, context = world()) => create("/pods", draft, context);

test("a pod that uses much of the API is accepted", () => {
  const written = create_(fullPod());
  expect(written.refused).toBeUndefined();
  expect(written.errors).toEqual([]);
});

test("defaults are those that schedulers and nodes rely on", () => {
  const { spec, status } = create_(fullPod()).object;
  expect(spec).toMatchObject({
    restartPolicy: "Always",
    dnsPolicy: "ClusterFirst",
    schedulerName: "default-scheduler",
    terminationGracePeriodSeconds: 30,
    securityContext: {},
    enableServiceLinks: true,
    priority: 0,
    preemptionPolicy: "PreemptLowerPriority",
  });
  expect(spec.containers[0]).toMatchObject({
    imagePullPolicy: "IfNotPresent",
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    ports: [{ protocol: "TCP" }, { protocol: "TCP" }],
    resources: { requests: { cpu: "2", memory: "8Gi", "nvidia.com/gpu": "2" } },
    livenessProbe: {
      timeoutSeconds: 1,
      periodSeconds: 10,
      successThreshold: 1,
      failureThreshold: 3,
      httpGet: { path: "/", scheme: "HTTP" },
    },
  });
  expect(spec.initContainers[0].imagePullPolicy).toBe("Always");
  expect(spec.volumes[1].configMap.defaultMode).toBe(0o644);
  expect(spec.volumes[2].emptyDir).toEqual({});
  expect(spec.containers[0].env[1].valueFrom.fieldRef.apiVersion).toBe("v1");
  expect(status).toEqual({
    phase: "Pending",
    qosClass: "Burstable",
    conditions: [
      {
        type: "PodScheduled",
        status: "False",
        reason: "SchedulingGated",
        message: "Scheduling is blocked due to non-empty scheduling gates",
      },
    ],
  });
});

test("defaults are idempotent", () => {
  const once = create_(fullPod()).object;
  const before = JSON.stringify(once);
  strategyFor("/pods").setDefaults?.(once);
  expect(JSON.stringify(once)).toBe(before);
});

test("keys of matchLabelKeys become expressions with the pod's own values", () => {
  const { spec } = create_(fullPod()).object;
  const term = spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm;
  expect(term.labelSelector.matchExpressions).toEqual([{ key: "rank", operator: "In", values: ["0"] }]);
});

test("tolerations for failing nodes are added once, unless something covers them", () => {
  const added = create_(pod()).object.spec.tolerations;
  expect(added).toEqual([
    { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute", tolerationSeconds: 300 },
    { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute", tolerationSeconds: 300 },
  ]);
  const all = [{ operator: "Exists" }];
  expect(create_(pod({ tolerations: all })).object.spec.tolerations).toEqual(all);
});

test("on the host's network container ports are host ports", () => {
  const made = create_(pod({ hostNetwork: true }, { ports: [{ containerPort: 80 }] })).object;
  expect(made.spec.containers[0].ports[0].hostPort).toBe(80);
});

test.each([
  ["nothing asked is BestEffort", {}, "BestEffort"],
  ["limits alone are Guaranteed", { limits: { cpu: "1", memory: "1Gi" } }, "Guaranteed"],
  [
    "equal amounts in other words are Guaranteed",
    { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "1000m" } },
    "Guaranteed",
  ],
  ["only cpu is Burstable", { limits: { cpu: "1" } }, "Burstable"],
  ["less than the limit is Burstable", { limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "1" } }, "Burstable"],
  ["a GPU alone is BestEffort", { limits: { "nvidia.com/gpu": "1" } }, "BestEffort"],
])("quality of service: %s", (_name, resources, expected) => {
  expect(create_(pod({}, { resources })).object.status.qosClass).toBe(expected);
});

const priorities = () =>
  world({
    "scheduling.k8s.io/priorityclasses": [
      { metadata: { name: "high" }, value: 1000, preemptionPolicy: "Never" },
      { metadata: { name: "usual" }, value: 7, globalDefault: true, preemptionPolicy: "PreemptLowerPriority" },
      { metadata: { name: "other-default" }, value: 9, globalDefault: true },
    ],
  });

test("priority and preemption policy come from the class", () => {
  const { spec } = create_(pod({ priorityClassName: "high" }), priorities()).object;
  expect([spec.priority, spec.preemptionPolicy]).toEqual([1000, "Never"]);
});

test("of several default classes the lowest applies", () => {
  const { spec } = create_(pod(), priorities()).object;
  expect([spec.priorityClassName, spec.priority]).toEqual(["usual", 7]);
});

test.each([
  [
    "an unknown class",
    { priorityClassName: "nope" },
    'pods "p" is forbidden: no PriorityClass with name nope was found',
  ],
  [
    "a priority of one's own",
    { priorityClassName: "high", priority: 5 },
    'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name',
  ],
  [
    "an unknown runtime class",
    { runtimeClassName: "gvisor" },
    'pods "p" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
  ],
])("admission refuses %s with 403", (_name, spec, message) => {
  const { refused } = create_(pod(spec), priorities());
  expect([refused?.status.code, refused?.status.message]).toEqual([403, message]);
});

test("a runtime class brings its overhead, node selector and tolerations", () => {
  const context = world({
    "node.k8s.io/runtimeclasses": [
      {
        metadata: { name: "kata" },
        handler: "kata",
        overhead: { podFixed: { memory: "64Mi" } },
        scheduling: { nodeSelector: { kata: "yes" }, tolerations: [{ key: "kata", operator: "Exists" }] },
      },
    ],
  });
  const { spec } = create_(pod({ runtimeClassName: "kata" }), context).object;
  expect(spec.overhead).toEqual({ memory: "64Mi" });
  expect(spec.nodeSelector).toEqual({ kata: "yes" });
  expect(spec.tolerations[0]).toEqual({ key: "kata", operator: "Exists" });
});

const ranges = (limits: Draft[]) =>
  world({ "/limitranges": [{ metadata: { name: "l", namespace: "ns" }, spec: { limits } }] });

test("a LimitRange sets default requests and limits, and annotates the pod", () => {
  const limits = [{ type: "Container", default: { cpu: "1" }, defaultRequest: { cpu: "500m" } }];
  const made = create_(pod({}, { resources: { requests: { cpu: "200m" } } }), ranges(limits)).object;
  expect(made.spec.containers[0].resources).toEqual({ requests: { cpu: "200m" }, limits: { cpu: "1" } });
  expect(made.metadata.annotations["kubernetes.io/limit-ranger"]).toBe(
    "LimitRanger plugin set: cpu limit for container c",
  );
});

test.each([
  [
    "below the minimum",
    { type: "Container", min: { cpu: "1" } },
    { requests: { cpu: "500m" } },
    "minimum cpu usage per Container is 1, but request is 500m",
  ],
  [
    "above the maximum of the pod",
    { type: "Pod", max: { memory: "1Gi" } },
    { limits: { memory: "2Gi" } },
    "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
  ],
  [
    "without a limit where there is a maximum",
    { type: "Container", max: { memory: "1Gi" } },
    {},
    "maximum memory usage per Container is 1Gi.  No limit is specified",
  ],
  [
    "too far between request and limit",
    { type: "Container", maxLimitRequestRatio: { cpu: "2" } },
    { requests: { cpu: "1" }, limits: { cpu: "3" } },
    "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
  ],
])("a LimitRange refuses a container %s", (_name, limit, resources, why) => {
  const { refused } = create_(pod({}, { resources }), ranges([limit]));
  expect(refused?.status.message).toBe(`pods "p" is forbidden: ${why}`);
});

test.each<[string, Draft, string]>([
  ["no container", pod({ containers: [] }), "spec.containers: Required value"],
  ["no image", pod({}, { image: "" }), "spec.containers[0].image: Required value"],
  [
    "padded image",
    pod({}, { image: " i:1" }),
    'spec.containers[0].image: Invalid value: " i:1": must not have leading or trailing whitespace',
  ],
  ["no container name", pod({}, { name: "" }), "spec.containers[0].name: Required value"],
  [
    "dots in a container name",
    pod({}, { name: "a.b" }),
    'spec.containers[0].name: Invalid value: "a.b": must not contain dots',
  ],
  [
    "two containers of one name",
    pod({
      containers: [
        { name: "c", image: "i" },
        { name: "c", image: "i" },
      ],
    }),
    'spec.containers[1].name: Duplicate value: "c"',
  ],
  [
    "an init container with a container's name",
    pod({ initContainers: [{ name: "c", image: "i" }] }),
    'spec.initContainers[0].name: Duplicate value: "c"',
  ],
  [
    "a probe on an ordinary init container",
    pod({ initContainers: [{ name: "i", image: "i", livenessProbe: { exec: { command: ["x"] } } }] }),
    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
  ],
  [
    "ephemeral containers at create",
    pod({ ephemeralContainers: [{ name: "d", image: "i" }] }),
    "spec.ephemeralContainers: Forbidden: cannot be set on create",
  ],
  [
    "a request above its limit",
    pod({}, { resources: { requests: { cpu: "2" }, limits: { cpu: "1" } } }),
    'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
  ],
  [
    "a GPU request that is not its limit",
    pod({}, { resources: { requests: { "nvidia.com/gpu": "1" }, limits: { "nvidia.com/gpu": "2" } } }),
    'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
  ],
  [
    "a GPU request without a limit",
    pod({}, { resources: { requests: { "nvidia.com/gpu": "1" } } }),
    "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
  ],
  [
    "half a GPU",
    pod({}, { resources: { limits: { "nvidia.com/gpu": "500m" } } }),
    'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
  ],
  [
    "a negative amount",
    pod({}, { resources: { limits: { cpu: "-1" } } }),
    'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
  ],
  [
    "huge pages alone",
    pod({}, { resources: { limits: { "hugepages-2Mi": "2Mi" } } }),
    "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
  ],
  [
    "a third of a huge page",
    pod({}, { resources: { limits: { cpu: "1", "hugepages-2Mi": "3Mi" } } }),
    'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi',
  ],
  [
    "a resource nobody knows",
    pod({}, { resources: { limits: { gpu: "1" } } }),
    'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
  ],
  [
    "a claim that the pod does not have",
    pod({}, { resources: { claims: [{ name: "gpu" }] } }),
    'spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty',
  ],
  [
    "two claims of one name",
    pod({
      resourceClaims: [
        { name: "a", resourceClaimName: "x" },
        { name: "a", resourceClaimName: "y" },
      ],
    }),
    'spec.resourceClaims[1].name: Duplicate value: "a"',
  ],
  [
    "a claim that is neither named nor templated",
    pod({ resourceClaims: [{ name: "a" }] }),
    'spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`',
  ],
  [
    "a mount of an unknown volume",
    pod({}, { volumeMounts: [{ name: "v", mountPath: "/v" }] }),
    'spec.containers[0].volumeMounts[0].name: Not found: "v"',
  ],
  [
    "two mounts at one place",
    pod(
      { volumes: [{ name: "v" }] },
      {
        volumeMounts: [
          { name: "v", mountPath: "/v" },
          { name: "v", mountPath: "/v" },
        ],
      },
    ),
    'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
  ],
  [
    "two volumes of one name",
    pod({ volumes: [{ name: "v" }, { name: "v" }] }),
    'spec.volumes[1].name: Duplicate value: "v"',
  ],
  [
    "a volume with two sources",
    pod({ volumes: [{ name: "v", emptyDir: {}, hostPath: { path: "/" } }] }),
    "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
  ],
  [
    "a secret volume without a secret",
    pod({ volumes: [{ name: "v", secret: {} }] }),
    "spec.volumes[0].secret.secretName: Required value",
  ],
  [
    "a port beyond 65535",
    pod({}, { ports: [{ containerPort: 70000 }] }),
    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
  ],
  [
    "two containers on one host port",
    pod(
      {},
      {
        ports: [
          { containerPort: 80, hostPort: 80 },
          { containerPort: 81, hostPort: 80 },
        ],
      },
    ),
    'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"',
  ],
  [
    "a probe without a handler",
    pod({}, { livenessProbe: {} }),
    "spec.containers[0].livenessProbe: Required value: must specify a handler type",
  ],
  [
    "a probe with two handlers",
    pod({}, { readinessProbe: { exec: { command: ["x"] }, tcpSocket: { port: 1 } } }),
    "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
  ],
  [
    "an environment variable with an equals sign",
    pod({}, { env: [{ name: "A=B" }] }),
    "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='",
  ],
  [
    "an unknown downward field",
    pod({}, { env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "spec.foo" } } }] }),
    'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.foo": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"',
  ],
  [
    "an unknown restart policy",
    pod({ restartPolicy: "Sometimes" }),
    'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
  ],
  ["a bad node selector key", pod({ nodeSelector: { "a b": "x" } }), 'spec.nodeSelector: Invalid value: "a b"'],
  [
    "In without values",
    pod({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "a", operator: "In" }] }],
          },
        },
      },
    }),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
  ],
  [
    "an affinity weight of 0",
    pod({
      affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 0, preference: {} }] } },
    }),
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
  ],
  [
    "pod affinity without a topology",
    pod({ affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "" }] } } }),
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
  ],
  [
    "a toleration of everything that is not Exists",
    pod({ tolerations: [{ operator: "Equal" }] }),
    'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"',
  ],
  [
    "an unknown taint effect",
    pod({ tolerations: [{ key: "a", operator: "Exists", effect: "No" }] }),
    'spec.tolerations[0].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
  ],
  [
    "toleration seconds without NoExecute",
    pod({ tolerations: [{ key: "a", operator: "Exists", tolerationSeconds: 1 }] }),
    "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
  ],
  [
    "a skew of 0",
    pod({ topologySpreadConstraints: [{ maxSkew: 0, topologyKey: "z", whenUnsatisfiable: "DoNotSchedule" }] }),
    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
  ],
  [
    "the same spread twice",
    pod({
      topologySpreadConstraints: [1, 2].map((maxSkew) => ({
        maxSkew,
        topologyKey: "z",
        whenUnsatisfiable: "DoNotSchedule",
      })),
    }),
    'spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"',
  ],
  [
    "the same gate twice",
    pod({ schedulingGates: [{ name: "a" }, { name: "a" }] }),
    'spec.schedulingGates[1]: Duplicate value: "a"',
  ],
  [
    "a node and a gate",
    pod({ nodeName: "n", schedulingGates: [{ name: "a" }] }),
    "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
  ],
  [
    "a deadline of 0",
    pod({ activeDeadlineSeconds: 0 }),
    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
  ],
  [
    "pod-level GPUs",
    pod({ resources: { limits: { "nvidia.com/gpu": "1" } } }),
    'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu"',
  ],
  [
    "no nameserver with dnsPolicy None",
    pod({ dnsPolicy: "None" }),
    "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
  ],
  [
    "another host port on the host's network",
    pod({ hostNetwork: true }, { ports: [{ containerPort: 80, hostPort: 81 }] }),
    "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
  ],
  [
    "a pod that asks for less than its containers",
    pod({ resources: { requests: { cpu: "1" } } }, { resources: { requests: { cpu: "2" } } }),
    'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2',
  ],
  [
    "a container that may use more than its pod",
    pod({ resources: { limits: { cpu: "1" } } }, { resources: { requests: { cpu: "1" }, limits: { cpu: "2" } } }),
    'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1',
  ],
  [
    "users of its own on the host's network",
    pod({ hostUsers: false, hostNetwork: true }),
    "spec.hostNetwork: Forbidden: when `hostUsers` is false",
  ],
  [
    "a host name of its own on the host's network",
    pod({ hostnameOverride: "x", hostNetwork: true }),
    "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
  ],
])("a pod is invalid: %s", (_name, draft, error) => {
  const { errors } = create_(draft);
  expect(errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test("all problems are reported together", () => {
  expect(
    create_(pod({ nodeSelector: { "": "x" }, restartPolicy: "x" }, { image: "", name: "" })).errors.length,
  ).toBeGreaterThanOrEqual(4);
});

const stored = () => create_(fullPod()).object;
const bound = () => {
  const object = create_(pod({ nodeSelector: { a: "1" } })).object;
  object.spec.nodeName = "n1";
  object.status.phase = "Running";
  return object;
};
// biome-ignore lint/suspicious/noExplicitAny: edits walk into untyped objects.
type Edit = (object: any) => void;

test.each<[string, Edit]>([
  ["an image", (p) => (p.spec.containers[0].image = "new:1")],
  ["an init container's image", (p) => (p.spec.initContainers[0].image = "new:1")],
  ["a deadline, set", (p) => (p.spec.activeDeadlineSeconds = 10)],
  ["one more toleration", (p) => p.spec.tolerations.push({ key: "more", operator: "Exists" })],
  ["longer toleration seconds", (p) => (p.spec.tolerations[1].tolerationSeconds = 900)],
  ["fewer gates", (p) => delete p.spec.schedulingGates],
  ["labels", (p) => (p.metadata.labels.new = "x")],
  ["one more node selector key while gated", (p) => (p.spec.nodeSelector.more = "x")],
  [
    "one more node affinity expression while gated",
    (p) =>
      p.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions.push(
        { key: "k", operator: "Exists" },
      ),
  ],
  [
    "preferred node affinity while gated",
    (p) =>
      (p.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution = [
        { weight: 1, preference: { matchExpressions: [{ key: "k", operator: "Exists" }] } },
      ]),
  ],
])("an update may change %s", (_name, edit) => {
  expect(update("/pods", stored(), edit).errors).toEqual([]);
});

test.each<[string, Edit, string]>([
  [
    "a command",
    (p) => (p.spec.containers[0].command = ["sh"]),
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
  ],
  ["its node", (p) => (p.spec.nodeName = "n2"), "spec: Forbidden: pod updates may not change fields other than"],
  [
    "its resources",
    (p) => (p.spec.containers[0].resources.requests.cpu = "1"),
    "spec: Forbidden: pod updates may not change fields",
  ],
  [
    "the number of containers",
    (p) => p.spec.containers.push({ name: "d", image: "i" }),
    "spec.containers: Forbidden: pod updates may not add or remove containers",
  ],
  [
    "a toleration away",
    (p) => (p.spec.tolerations = p.spec.tolerations.filter(({ key }: { key: string }) => key.startsWith("node."))),
    "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
  ],
  [
    "a new gate",
    (p) => p.spec.schedulingGates.push({ name: "b" }),
    "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'",
  ],
  [
    "a node selector value while gated",
    (p) => (p.spec.nodeSelector["gpu.example.com/model"] = "a100"),
    "spec.nodeSelector: Invalid value",
  ],
  [
    "a node affinity term more while gated",
    (p) =>
      p.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.push({
        matchExpressions: [{ key: "k", operator: "Exists" }],
      }),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value",
  ],
  [
    "pod affinity while gated",
    (p) => delete p.spec.affinity.podAntiAffinity,
    "spec: Forbidden: pod updates may not change fields",
  ],
])("an update may not change %s", (_name, edit, error) => {
  const { errors } = update("/pods", stored(), edit);
  expect(errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test.each<[string, Edit, string]>([
  ["a node selector key", (p) => (p.spec.nodeSelector.more = "x"), "spec: Forbidden: pod updates"],
  [
    "a lower deadline than none, cleared",
    (p) => (p.spec.activeDeadlineSeconds = -1),
    "spec.activeDeadlineSeconds: Invalid value: -1",
  ],
])("a pod without gates may not change %s", (_name, edit, error) => {
  const { errors } = update("/pods", bound(), edit);
  expect(errors.some((text) => text.startsWith(error))).toBe(true);
});

test("a deadline can be lowered but neither raised nor removed", () => {
  const object = bound();
  object.spec.activeDeadlineSeconds = 100;
  expect(update("/pods", object, (p) => (p.spec.activeDeadlineSeconds = 50)).errors).toEqual([]);
  expect(update("/pods", object, (p) => (p.spec.activeDeadlineSeconds = 200)).errors).toEqual([
    "spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value",
  ]);
  expect(update("/pods", object, (p) => delete p.spec.activeDeadlineSeconds).errors).toEqual([
    'spec.activeDeadlineSeconds: Invalid value: "null": must not update from a positive integer to nil value',
  ]);
});

test("a status update keeps what an older client leaves out", () => {
  const object = bound();
  object.status.observedGeneration = 3;
  const written = updateStatus("/pods", object, (p) => (p.status = { phase: "Running", podIP: "10.0.0.1" }));
  expect(written.errors).toEqual([]);
  expect(written.object.status).toMatchObject({
    qosClass: "BestEffort",
    observedGeneration: 3,
    podIPs: [{ ip: "10.0.0.1" }],
  });
});

test.each<[string, Edit, string]>([
  ["another quality of service", (p) => (p.status.qosClass = "Guaranteed"), "status.qosClass: Invalid value"],
  [
    "a nomination of a bound pod",
    (p) => (p.status.nominatedNodeName = "n2"),
    "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
  ],
  [
    "a condition without a proper name",
    (p) => (p.status.conditions = [{ type: "a b", status: "True" }]),
    "status.conditions[0].Type: Invalid value",
  ],
  ["an address that is none", (p) => (p.status.podIPs = [{ ip: "x" }]), "status.podIPs[0]: Invalid value"],
])("a status may not bring %s", (_name, edit, error) => {
  expect(updateStatus("/pods", bound(), edit).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test.each([
  ["Never", 1, false],
  ["OnFailure", 0, false],
  ["OnFailure", 1, true],
  ["Always", 0, true],
])("with restart policy %s a container that ended with %i may run again: %s", (restartPolicy, exitCode, allowed) => {
  const object = create_(pod({ restartPolicy })).object;
  object.status.containerStatuses = [{ name: "c", state: { terminated: { exitCode } } }];
  const { errors } = updateStatus("/pods", object, (p) => (p.status.containerStatuses[0].state = { running: {} }));
  expect(errors).toEqual(
    allowed ? [] : ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"],
  );
});

test.each([
  ["an unscheduled pod goes at once", { spec: {} }, undefined, 0],
  ["an ended pod goes at once", { spec: { nodeName: "n" }, status: { phase: "Failed" } }, 10, 0],
  ["the pod's own period counts", { spec: { nodeName: "n", terminationGracePeriodSeconds: 5 } }, undefined, 5],
  ["a request overrides it", { spec: { nodeName: "n", terminationGracePeriodSeconds: 5 } }, 60, 60],
  ["a negative request means one second", { spec: { nodeName: "n" } }, -1, 1],
])("grace: %s", (_name, object, requested, expected) => {
  expect(strategyFor("/pods").graceSeconds?.(object as never, requested)).toBe(expected);
});

test("selectable fields are in the order of the resource table", () => {
  const object = bound();
  object.status.podIPs = [{ ip: "10.0.0.1" }, { ip: "fd00::1" }];
  object.status.podIP = "10.0.0.1";
  expect(strategyFor("/pods").selectFields?.(object)).toEqual([
    "n1",
    "Always",
    "default-scheduler",
    "default",
    "false",
    "Running",
    "10.0.0.1",
    "10.0.0.1,fd00::1",
    "",
  ]);
});

test.each<[string, Draft, string]>([
  [
    "an old label",
    pod({ nodeSelector: { "beta.kubernetes.io/arch": "arm64" } }),
    'spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
  ],
  [
    "a variable that hides another",
    pod({}, { env: [{ name: "A" }, { name: "A" }] }),
    'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
  ],
  [
    "a tenth of a byte",
    pod({}, { resources: { limits: { memory: "100m" } } }),
    'spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer',
  ],
  [
    "a port twice",
    pod({}, { ports: [{ containerPort: 1 }, { containerPort: 1 }] }),
    "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
  ],
])("a pod is warned about %s", (_name, draft, warning) => {
  const context = world();
  expect(create_(draft, context).errors).toEqual([]);
  expect(context.warnings).toContain(warning);
});

test("an ordinary pod is warned about nothing", () => {
  const context = world();
  create_(fullPod(), context);
  expect(context.warnings).toEqual([]);
});

test("whatever create accepts, an update without a change accepts", () => {
  const { object } = create_(fullPod());
  expect(update("/pods", object, () => {}).errors).toEqual([]);
  expect(updateStatus("/pods", object, () => {}).errors).toEqual([]);
});

test("a pod with pod-level limits only gets the requests of its containers, or else its limits", () => {
  const { object, errors } = create_(
    pod({ resources: { limits: { cpu: "4", memory: "8Gi" } } }, { resources: { requests: { cpu: "1" } } }),
  );
  expect(errors).toEqual([]);
  expect(object.spec.resources.requests).toEqual({ cpu: "1", memory: "8Gi" });
  expect(object.status.qosClass).toBe("Burstable");
});
