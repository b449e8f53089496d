import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtinResources } from "../builtinResources.ts";
import { eventsFromCore } from "../events/convertEvent.ts";
import { tableFor } from "./table.ts";

const nowMs = Date.UTC(2026, 0, 2);
const ago = (seconds: number): string => new Date(nowMs - seconds * 1000).toISOString().replace(".000Z", "Z");
const microAgo = (seconds: number): string => new Date(nowMs - seconds * 1000).toISOString().replace("Z", "000Z");

function object(fields: object, metadata: object = {}): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Any",
    metadata: { name: "x", uid: "u", resourceVersion: "1", creationTimestamp: ago(90), ...metadata },
    ...fields,
  };
}

function row(storageKey: string, fields: object, metadata?: object): Record<string, unknown> {
  const table = tableFor(storageKey);
  const cells = table.cells(object(fields, metadata), nowMs);
  expect(cells).toHaveLength(table.columns.length);
  return Object.fromEntries(table.columns.map(({ name }, index) => [name, cells[index]]));
}

/** `Name*` for wide columns and `Name int` for those that are no strings. */
function columnsOf(storageKey: string): string {
  return tableFor(storageKey)
    .columns.map(
      ({ name, type, priority }) => `${name}${priority === 1 ? "*" : ""}${type === "string" ? "" : ` ${type}`}`,
    )
    .join(", ");
}

describe("the columns of", () => {
  test.each([
    ["/pods", "Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"],
    [
      "/nodes",
      "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
    ],
    ["/namespaces", "Name, Status, Age"],
    ["/services", "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"],
    ["/endpoints", "Name, Endpoints, Age"],
    ["discovery.k8s.io/endpointslices", "Name, AddressType, Ports, Endpoints, Age"],
    ["/configmaps", "Name, Data, Age"],
    ["/secrets", "Name, Type, Data, Age"],
    ["/serviceaccounts", "Name, Age"],
    ["/events", "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count* integer, Name*"],
    [
      "/persistentvolumes",
      "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode*",
    ],
    [
      "/persistentvolumeclaims",
      "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*",
    ],
    ["/resourcequotas", "Name, Request, Limit, Age"],
    ["apps/deployments", "Name, Ready, Up-to-date, Available, Age, Containers*, Images*, Selector*"],
    ["apps/replicasets", "Name, Desired integer, Current integer, Ready integer, Age, Containers*, Images*, Selector*"],
    [
      "/replicationcontrollers",
      "Name, Desired integer, Current integer, Ready integer, Age, Containers*, Images*, Selector*",
    ],
    ["apps/statefulsets", "Name, Ready, Age, Containers*, Images*"],
    [
      "apps/daemonsets",
      "Name, Desired integer, Current integer, Ready integer, Up-to-date integer, Available integer, Node Selector, Age, Containers*, Images*, Selector*",
    ],
    ["apps/controllerrevisions", "Name, Controller, Revision, Age"],
    ["batch/jobs", "Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*"],
    [
      "batch/cronjobs",
      "Name, Schedule, Timezone, Suspend boolean, Active integer, Last Schedule, Age, Containers*, Images*, Selector*",
    ],
    ["policy/poddisruptionbudgets", "Name, Min Available, Max Unavailable, Allowed Disruptions integer, Age"],
    ["autoscaling/horizontalpodautoscalers", "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"],
    ["scheduling.k8s.io/priorityclasses", "Name, Value integer, Global-Default boolean, Age, PreemptionPolicy"],
    ["coordination.k8s.io/leases", "Name, Holder, Age"],
    ["resource.k8s.io/resourceclaims", "Name, State, Age"],
    ["resource.k8s.io/resourceclaimtemplates", "Name, Age"],
    ["resource.k8s.io/deviceclasses", "Name, Age"],
    ["scheduling.k8s.io/workloads", "Name, Age"],
    ["resource.k8s.io/resourceslices", "Name, Node, Driver, Pool, Age"],
    ["resource.k8s.io/devicetaintrules", "Name, Key, Value, Effect, TimeAdded, Age"],
    ["scheduling.k8s.io/podgroups", "Name, Policy, Workload, Status, Age"],
    ["rbac.authorization.k8s.io/clusterroles", "Name, Created At date"],
    ["rbac.authorization.k8s.io/rolebindings", "Name, Role, Age, Users*, Groups*, ServiceAccounts*"],
    ["rbac.authorization.k8s.io/clusterrolebindings", "Name, Role, Age, Users*, Groups*, ServiceAccounts*"],
    [
      "storage.k8s.io/storageclasses",
      "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion boolean, Age",
    ],
    ["storage.k8s.io/csinodes", "Name, Drivers integer, Age"],
    ["admissionregistration.k8s.io/mutatingwebhookconfigurations", "Name, Webhooks integer, Age"],
    ["admissionregistration.k8s.io/validatingwebhookconfigurations", "Name, Webhooks integer, Age"],
    ["node.k8s.io/runtimeclasses", "Name, Handler, Age"],
    ["networking.k8s.io/ingressclasses", "Name, Controller, Parameters, Age"],
    ["networking.k8s.io/ipaddresses", "Name, ParentRef, Age"],
    ["networking.k8s.io/servicecidrs", "Name, CIDRs, Age"],
    ["networking.k8s.io/ingresses", "Name, Class, Hosts, Address, Ports, Age"],
    ["apiextensions.k8s.io/customresourcedefinitions", "Name, Created At date"],
  ])("%s", (storageKey, columns) => {
    expect(columnsOf(storageKey)).toBe(columns);
  });

  test("a kind without columns of its own are its name and its date", () => {
    expect(row("example.com/unheard", {})).toEqual({ Name: "x", "Created At": "2026-01-01T23:58:30Z" });
  });
});

test("every served kind has one column that names the row, and explains all of them", () => {
  for (const { storageKey, virtual } of builtinResources()) {
    if (virtual) continue;
    const { columns } = tableFor(storageKey);
    const naming = columns.filter(({ format }) => format === "name");
    expect(naming, storageKey).toHaveLength(1);
    for (const { description } of columns) expect(description, storageKey).not.toBe("");
  }
});

test("a freshly created workload shows zeros", () => {
  const spec = { template: { spec: { containers: [] } } };
  expect(row("apps/deployments", { spec })).toMatchObject({ Ready: "0/0", "Up-to-date": 0, Available: 0 });
});

describe("a node", () => {
  const condition = (status: string) => ({ status: { conditions: [{ type: "Ready", status }] } });
  test.each([
    { name: "is Ready", fields: condition("True"), status: "Ready" },
    { name: "is NotReady", fields: condition("False"), status: "NotReady" },
    { name: "whose agent is silent is NotReady", fields: condition("Unknown"), status: "NotReady" },
    { name: "that never reported is Unknown", fields: {}, status: "Unknown" },
    {
      name: "that is cordoned says so",
      fields: { ...condition("True"), spec: { unschedulable: true } },
      status: "Ready,SchedulingDisabled",
    },
  ])("$name", ({ fields, status }) => expect(row("/nodes", fields)["Status"]).toBe(status));

  test.each([
    { labels: {}, roles: "<none>" },
    {
      labels: { "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "" },
      roles: "control-plane,worker",
    },
    { labels: { "kubernetes.io/role": "gpu", "node-role.kubernetes.io/gpu": "" }, roles: "gpu" },
    { labels: { "node-role.kubernetes.io/": "x", "kubernetes.io/role": "" }, roles: "<none>" },
  ])("with labels $labels has the roles $roles", ({ labels, roles }) => {
    expect(row("/nodes", {}, { labels })["Roles"]).toBe(roles);
  });

  test("shows its addresses and software, or <none>", () => {
    expect(row("/nodes", {})).toMatchObject({
      "Internal-IP": "<none>",
      "External-IP": "<none>",
      "OS-Image": "<unknown>",
    });
    const addresses = [
      { type: "Hostname", address: "n1" },
      { type: "InternalIP", address: "10.0.0.1" },
    ];
    const nodeInfo = {
      kubeletVersion: "v1.36.0",
      osImage: "Linux",
      kernelVersion: "6.1",
      containerRuntimeVersion: "containerd://2",
    };
    expect(row("/nodes", { status: { addresses, nodeInfo } })).toMatchObject({
      Version: "v1.36.0",
      "Internal-IP": "10.0.0.1",
      "External-IP": "<none>",
      "OS-Image": "Linux",
      "Kernel-Version": "6.1",
      "Container-Runtime": "containerd://2",
    });
  });
});

describe("a service", () => {
  const lb = { loadBalancer: { ingress: [{ ip: "2.2.2.2" }, { hostname: "a.example" }, { ip: "2.2.2.2" }] } };
  test.each([
    { name: "inside the cluster has no outside", spec: { type: "ClusterIP" }, external: "<none>" },
    {
      name: "shows declared addresses",
      spec: { type: "NodePort", externalIPs: ["1.1.1.1", "1.1.1.2"] },
      external: "1.1.1.1,1.1.1.2",
    },
    { name: "waits for its balancer", spec: { type: "LoadBalancer" }, external: "<pending>" },
    {
      name: "shows its balancer, each address once",
      spec: { type: "LoadBalancer" },
      status: lb,
      external: "2.2.2.2,a.example",
    },
    {
      name: "shows its balancer, then declared addresses",
      spec: { type: "LoadBalancer", externalIPs: ["1.1.1.1"] },
      status: lb,
      external: "2.2.2.2,a.example,1.1.1.1",
    },
    {
      name: "that is an alias shows the name",
      spec: { type: "ExternalName", externalName: "db.example" },
      external: "db.example",
    },
  ])("$name", ({ spec, status, external }) => {
    expect(row("/services", { spec, status })["External-IP"]).toBe(external);
  });

  test("shows address, ports and selector", () => {
    const ports = [
      { port: 80, protocol: "TCP" },
      { port: 53, nodePort: 30053, protocol: "UDP" },
    ];
    const spec = { type: "NodePort", clusterIPs: ["10.96.0.7"], ports, selector: { b: "2", a: "1" } };
    expect(row("/services", { spec })).toMatchObject({
      "Cluster-IP": "10.96.0.7",
      "Port(s)": "80/TCP,53:30053/UDP",
      Selector: "a=1,b=2",
    });
    expect(row("/services", { spec: { type: "ClusterIP" } })).toMatchObject({
      "Cluster-IP": "<none>",
      "Port(s)": "<none>",
      Selector: "<none>",
    });
  });

  test("shows three of the addresses behind it and counts the others", () => {
    const addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"].map((ip) => ({ ip }));
    const ports = [{ port: 80 }];
    expect(row("/endpoints", { subsets: [{ addresses, ports }] })["Endpoints"]).toBe(
      "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more...",
    );
    expect(row("/endpoints", {})["Endpoints"]).toBe("<none>");
    expect(row("/endpoints", { subsets: [{ notReadyAddresses: addresses, ports }] })["Endpoints"]).toBe("");
    expect(row("/endpoints", { subsets: [{ addresses: [{ ip: "fd00::1" }], ports }] })["Endpoints"]).toBe(
      "[fd00::1]:80",
    );
    expect(
      row("discovery.k8s.io/endpointslices", {
        addressType: "IPv4",
        ports: [{ port: 80 }, { name: "web" }, {}],
        endpoints: [{ addresses: ["10.0.0.1"] }, { addresses: ["10.0.0.2"] }],
      }),
    ).toMatchObject({ Ports: "80,web,*", Endpoints: "10.0.0.1,10.0.0.2" });
    expect(row("discovery.k8s.io/endpointslices", {})).toMatchObject({ Ports: "<unset>", Endpoints: "<unset>" });
  });
});

describe("an ingress", () => {
  test("shows its hosts, its balancer and whether it has certificates", () => {
    const rules = [{ host: "a" }, {}, { host: "b" }, { host: "c" }, { host: "d" }];
    const status = { loadBalancer: { ingress: [{ ip: "1.1.1.1" }] } };
    const spec = { ingressClassName: "nginx", rules, tls: [{}] };
    expect(row("networking.k8s.io/ingresses", { spec, status })).toMatchObject({
      Class: "nginx",
      Hosts: "a,b,c + 1 more...",
      Address: "1.1.1.1",
      Ports: "80, 443",
    });
    expect(row("networking.k8s.io/ingresses", {})).toMatchObject({
      Class: "<none>",
      Hosts: "*",
      Address: "",
      Ports: "80",
    });
  });

  test("class names the object that configures it", () => {
    const parameters = { apiGroup: "example.com", kind: "Params", name: "p" };
    expect(row("networking.k8s.io/ingressclasses", { spec: { controller: "c", parameters } })["Parameters"]).toBe(
      "Params.example.com/p",
    );
    expect(row("networking.k8s.io/ingressclasses", { spec: { controller: "c" } })["Parameters"]).toBe("<none>");
  });
});

describe("a claim for a volume", () => {
  test("shows no size until it has a volume", () => {
    const spec = {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1Gi" } },
      storageClassName: "fast",
    };
    expect(row("/persistentvolumeclaims", { spec, status: { phase: "Pending" } })).toMatchObject({
      Status: "Pending",
      Volume: "",
      Capacity: "",
      "Access Modes": "",
      StorageClass: "fast",
      VolumeAttributesClass: "<unset>",
      VolumeMode: "<unset>",
    });
  });

  test("shows what it got", () => {
    const status = { phase: "Bound", capacity: { storage: "2Gi" }, accessModes: ["ReadWriteMany", "ReadWriteOnce"] };
    const fields = { spec: { volumeName: "pv1", volumeMode: "Block" }, status };
    expect(row("/persistentvolumeclaims", fields)).toMatchObject({
      Status: "Bound",
      Volume: "pv1",
      Capacity: "2Gi",
      "Access Modes": "RWO,RWX",
      VolumeMode: "Block",
    });
    expect(row("/persistentvolumeclaims", fields, { deletionTimestamp: ago(1) })["Status"]).toBe("Terminating");
  });

  test("and the volume name each other", () => {
    const spec = {
      capacity: { storage: "1Gi" },
      claimRef: { namespace: "default", name: "c" },
      persistentVolumeReclaimPolicy: "Retain",
    };
    expect(row("/persistentvolumes", { spec, status: { phase: "Bound" } })).toMatchObject({
      Capacity: "1Gi",
      "Reclaim Policy": "Retain",
      Status: "Bound",
      Claim: "default/c",
    });
  });

  test("of the default class shows which class that is", () => {
    const metadata = { annotations: { "storageclass.kubernetes.io/is-default-class": "true" } };
    expect(row("storage.k8s.io/storageclasses", { provisioner: "p" }, metadata)).toMatchObject({
      Name: "x (default)",
      ReclaimPolicy: "Delete",
      VolumeBindingMode: "Immediate",
      AllowVolumeExpansion: false,
    });
  });
});

describe("a workload", () => {
  const template = {
    spec: {
      containers: [
        { name: "a", image: "i1" },
        { name: "b", image: "i2" },
      ],
      nodeSelector: { gpu: "yes" },
    },
  };
  const selector = {
    matchLabels: { app: "web" },
    matchExpressions: [
      { key: "tier", operator: "In", values: ["b", "a"] },
      { key: "old", operator: "DoesNotExist" },
      { key: "env", operator: "NotIn", values: ["dev"] },
      { key: "zone", operator: "Exists" },
    ],
  };
  const text = "app=web,env notin (dev),!old,tier in (a,b),zone";

  test("of a deployment", () => {
    const status = { readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1 };
    expect(row("apps/deployments", { spec: { replicas: 3, template, selector }, status })).toMatchObject({
      Ready: "1/3",
      "Up-to-date": 2,
      Available: 1,
      Containers: "a,b",
      Images: "i1,i2",
      Selector: text,
    });
  });

  test("of a replica set, a stateful set and a daemon set", () => {
    expect(
      row("apps/replicasets", { spec: { replicas: 3, template, selector }, status: { replicas: 2, readyReplicas: 1 } }),
    ).toMatchObject({
      Desired: 3,
      Current: 2,
      Ready: 1,
      Selector: text,
    });
    expect(row("apps/statefulsets", { spec: { replicas: 2, template }, status: { readyReplicas: 2 } })["Ready"]).toBe(
      "2/2",
    );
    const status = {
      desiredNumberScheduled: 5,
      currentNumberScheduled: 4,
      numberReady: 3,
      updatedNumberScheduled: 2,
      numberAvailable: 1,
    };
    expect(row("apps/daemonsets", { spec: { template }, status })).toMatchObject({
      Desired: 5,
      Current: 4,
      Ready: 3,
      "Up-to-date": 2,
      Available: 1,
      "Node Selector": "gpu=yes",
      Selector: "<none>",
    });
  });

  test("keeps its history under its own name", () => {
    const ownerReferences = [{ apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: "u", controller: true }];
    expect(row("apps/controllerrevisions", { revision: 3 }, { ownerReferences })).toMatchObject({
      Controller: "statefulset.apps/db",
      Revision: 3,
    });
    expect(row("apps/controllerrevisions", { revision: 3 })["Controller"]).toBe("<none>");
  });
});

describe("a job", () => {
  const holds = (type: string) => ({ conditions: [{ type, status: "True" }] });
  test.each([
    { status: {}, text: "Running" },
    { status: holds("Complete"), text: "Complete" },
    { status: holds("Failed"), text: "Failed" },
    { status: holds("Suspended"), text: "Suspended" },
    { status: holds("FailureTarget"), text: "FailureTarget" },
    { status: holds("SuccessCriteriaMet"), text: "SuccessCriteriaMet" },
    { status: { conditions: [{ type: "Failed", status: "False" }] }, text: "Running" },
    { status: holds("Suspended"), deleted: true, text: "Terminating" },
    { status: holds("Complete"), deleted: true, text: "Complete" },
  ])("with $status is $text", ({ status, deleted, text }) => {
    const metadata = deleted ? { deletionTimestamp: ago(1) } : {};
    expect(row("batch/jobs", { status }, metadata)["Status"]).toBe(text);
  });

  test.each([
    { spec: { completions: 5 }, status: { succeeded: 2 }, text: "2/5" },
    { spec: { parallelism: 3 }, status: { succeeded: 1 }, text: "1/1 of 3" },
    { spec: { parallelism: 1 }, status: {}, text: "0/1" },
  ])("with $spec has completed $text", ({ spec, status, text }) => {
    const template = { spec: { containers: [] } };
    expect(row("batch/jobs", { spec: { ...spec, template }, status })["Completions"]).toBe(text);
  });

  test.each([
    { name: "has no duration before it starts", status: {}, text: "" },
    { name: "has run until now", status: { startTime: ago(300) }, text: "5m" },
    { name: "has run until its end", status: { startTime: ago(300), completionTime: ago(290) }, text: "10s" },
  ])("$name", ({ status, text }) => expect(row("batch/jobs", { status })["Duration"]).toBe(text));

  test("that is made on a schedule", () => {
    const jobTemplate = { spec: { template: { spec: { containers: [{ name: "c", image: "i" }] } } } };
    const spec = { schedule: "*/5 * * * *", suspend: false, jobTemplate };
    expect(row("batch/cronjobs", { spec, status: {} })).toMatchObject({
      Schedule: "*/5 * * * *",
      Timezone: "<none>",
      Suspend: "False",
      Active: 0,
      "Last Schedule": "<none>",
      Containers: "c",
    });
    const status = { active: [{}], lastScheduleTime: ago(60) };
    expect(row("batch/cronjobs", { spec: { ...spec, timeZone: "Etc/UTC" }, status })).toMatchObject({
      Timezone: "Etc/UTC",
      Active: 1,
      "Last Schedule": "60s",
    });
  });
});

describe("an autoscaler", () => {
  const cpu = (target: object) => ({ type: "Resource", resource: { name: "cpu", target } });
  const measured = (current: object) => ({ type: "Resource", resource: { name: "cpu", current } });
  const half = cpu({ type: "Utilization", averageUtilization: 50 });
  test.each([
    { name: "without metrics", metrics: [], text: "<none>" },
    { name: "that has not measured yet", metrics: [half], text: "cpu: <unknown>/50%" },
    { name: "of utilization", metrics: [half], current: [measured({ averageUtilization: 7 })], text: "cpu: 7%/50%" },
    {
      name: "of a value",
      metrics: [cpu({ type: "AverageValue", averageValue: "100m" })],
      current: [measured({ averageValue: "30m" })],
      text: "cpu: 30m/100m",
    },
    { name: "of pods", metrics: [{ type: "Pods", pods: { target: { averageValue: "10" } } }], text: "<unknown>/10" },
    {
      name: "of an external average",
      metrics: [{ type: "External", external: { target: { averageValue: "10" } } }],
      current: [{ type: "External", external: { current: { averageValue: "4" } } }],
      text: "4/10 (avg)",
    },
    {
      name: "of another object",
      metrics: [{ type: "Object", object: { target: { value: "10" } } }],
      text: "<unknown>/10",
    },
    { name: "of three", metrics: [half, half, half], text: "cpu: <unknown>/50%, cpu: <unknown>/50% + 1 more..." },
  ])("$name shows $text", ({ metrics, current, text }) => {
    const spec = { scaleTargetRef: { kind: "Deployment", name: "web" }, maxReplicas: 5, metrics };
    const status = { currentReplicas: 2, currentMetrics: current };
    expect(row("autoscaling/horizontalpodautoscalers", { spec, status })).toMatchObject({
      Reference: "Deployment/web",
      Targets: text,
      MinPods: "<unset>",
      MaxPods: 5,
      Replicas: 2,
    });
  });

  test("of the old version has CPU only", () => {
    const spec = {
      scaleTargetRef: { kind: "Deployment", name: "web" },
      maxReplicas: 5,
      minReplicas: 1,
      targetCPUUtilizationPercentage: 80,
    };
    const status = { currentReplicas: 2, currentCPUUtilizationPercentage: 20 };
    expect(row("autoscaling/horizontalpodautoscalers", { spec, status })).toMatchObject({
      Targets: "cpu: 20%/80%",
      MinPods: "1",
    });
  });

  test("budget shows what may be disturbed", () => {
    expect(
      row("policy/poddisruptionbudgets", { spec: { minAvailable: "50%" }, status: { disruptionsAllowed: 1 } }),
    ).toMatchObject({
      "Min Available": "50%",
      "Max Unavailable": "N/A",
      "Allowed Disruptions": 1,
    });
    expect(row("policy/poddisruptionbudgets", { spec: { maxUnavailable: 0 } })["Max Unavailable"]).toBe("0");
  });
});

describe("an event", () => {
  const old = {
    involvedObject: { kind: "Pod", name: "web", fieldPath: "spec.containers{main}" },
    reason: "Pulled",
    message: " image is here\n",
    type: "Normal",
    source: { component: "kubelet", host: "n1" },
    firstTimestamp: ago(600),
    lastTimestamp: ago(30),
    count: 3,
    eventTime: null,
    reportingComponent: "",
    reportingInstance: "",
  };

  test("of the old kind shows its times, its count and its source", () => {
    expect(row("/events", old)).toEqual({
      "Last Seen": "30s",
      Type: "Normal",
      Reason: "Pulled",
      Object: "pod/web",
      Subobject: "spec.containers{main}",
      Source: "kubelet, n1",
      Message: "image is here",
      "First Seen": "10m",
      Count: 3,
      Name: "x",
    });
  });

  test("of the new kind has one time, counts once, and names its reporting controller", () => {
    const single = {
      ...old,
      source: {},
      firstTimestamp: null,
      lastTimestamp: null,
      count: 0,
      eventTime: microAgo(45),
      reportingComponent: "scheduler",
    };
    expect(row("/events", single)).toMatchObject({
      "Last Seen": "45s",
      "First Seen": "45s",
      Count: 1,
      Source: "scheduler",
    });
  });

  test("a series has the last time and the count", () => {
    const series = { count: 9, lastObservedTime: microAgo(5) };
    expect(row("/events", { ...old, series })).toMatchObject({ "Last Seen": "5s", Count: 9 });
  });

  test("without a time is of unknown age", () => {
    expect(row("/events", { ...old, firstTimestamp: null, lastTimestamp: null })["Last Seen"]).toBe("<unknown>");
  });

  test("looks the same through both groups", () => {
    const table = tableFor("/events");
    const core = object(old);
    expect(table.cells(eventsFromCore(core), nowMs)).toEqual(table.cells(core, nowMs));
  });
});

describe("other kinds", () => {
  test("a config map and a secret count their entries", () => {
    expect(row("/configmaps", { data: { a: "1", b: "2" }, binaryData: { c: "" } })["Data"]).toBe(3);
    expect(row("/secrets", { type: "Opaque", data: { a: "" } })).toMatchObject({ Type: "Opaque", Data: 1 });
  });

  test("a quota tells requests from limits", () => {
    const status = {
      hard: { pods: "10", "limits.cpu": "4", "requests.cpu": "2" },
      used: { pods: "3", "limits.cpu": "1" },
    };
    expect(row("/resourcequotas", { status })).toMatchObject({
      Request: "pods: 3/10, requests.cpu: 0/2",
      Limit: "limits.cpu: 1/4",
    });
  });

  test.each([
    { status: {}, state: "pending" },
    { status: { allocation: {} }, state: "allocated" },
    { status: { allocation: {}, reservedFor: [{}] }, state: "allocated,reserved" },
    { status: { allocation: {}, reservedFor: [{}] }, deleted: true, state: "deleted,allocated,reserved" },
  ])("a claim for devices is $state", ({ status, deleted, state }) => {
    const metadata = deleted ? { deletionTimestamp: ago(1) } : {};
    expect(row("resource.k8s.io/resourceclaims", { status }, metadata)["State"]).toBe(state);
  });

  test("a slice names node, driver and pool", () => {
    const spec = { nodeName: "n1", driver: "gpu.example.com", pool: { name: "n1-pool" } };
    expect(row("resource.k8s.io/resourceslices", { spec })).toMatchObject({
      Node: "n1",
      Driver: "gpu.example.com",
      Pool: "n1-pool",
    });
  });

  test("a pod group names its policy, its workload and its state", () => {
    const spec = {
      schedulingPolicy: { gang: { minCount: 4 } },
      podGroupTemplateRef: { workload: { workloadName: "train", podGroupTemplateName: "w" } },
    };
    const status = { conditions: [{ type: "PodGroupScheduled", status: "False", reason: "Unschedulable" }] };
    expect(row("scheduling.k8s.io/podgroups", { spec, status })).toMatchObject({
      Policy: "Gang",
      Workload: "train",
      Status: "Unschedulable",
    });
  });

  test("a binding sorts its subjects by what they are", () => {
    const subjects = [
      { kind: "User", name: "ann" },
      { kind: "ServiceAccount", namespace: "ns", name: "sa" },
      { kind: "Group", name: "ops" },
      { kind: "User", name: "bob" },
    ];
    expect(
      row("rbac.authorization.k8s.io/rolebindings", { roleRef: { kind: "Role", name: "r" }, subjects }),
    ).toMatchObject({
      Role: "Role/r",
      Users: "ann, bob",
      Groups: "ops",
      ServiceAccounts: "ns/sa",
    });
  });

  test.each([
    { seconds: 0, age: "0s" },
    { seconds: 119, age: "119s" },
    { seconds: 125, age: "2m5s" },
    { seconds: 3 * 3600, age: "3h" },
    { seconds: 3 * 86400, age: "3d" },
    { seconds: -10, age: "<invalid>" },
  ])("an object of $seconds s is $age old", ({ seconds, age }) => {
    expect(row("/serviceaccounts", {}, { creationTimestamp: ago(seconds) })["Age"]).toBe(age);
  });
});
