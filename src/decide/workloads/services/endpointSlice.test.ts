import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { EndpointSlice, Endpoints, Node, Pod, Service, ServiceSpec } from "../../../model/kubernetes.generated.ts";
import { decideEndpointSlices } from "./endpointSlice.ts";
import { decideEndpoints } from "./endpoints.ts";

function serviceOf(cluster: TestCluster, spec: Partial<ServiceSpec> = {}): Service {
  return cluster.add<Service>({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", labels: { tier: "front" } },
    spec: {
      selector: { app: "web" },
      ipFamilies: ["IPv4"],
      ports: [{ name: "http", port: 80, targetPort: 8080 }],
      ...spec,
    },
  });
}

function podOf(cluster: TestCluster, i: number, more: { port?: number; hostname?: string } = {}): string {
  const name = `p${String(i).padStart(4, "0")}`;
  const ports = more.port === undefined ? [] : [{ name: "main", containerPort: more.port }];
  cluster.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { app: "web" } },
    spec: {
      nodeName: "n1",
      containers: [{ name: "c", image: "i", ports }],
      ...(more.hostname !== undefined && { hostname: more.hostname, subdomain: "web" }),
    },
    status: { podIP: `10.0.${Math.floor(i / 250)}.${i % 250}`, podIPs: [{ ip: `fd00::${i}` }] },
  });
  cluster.setPhase(name, "Running");
  return name;
}

const slices = (cluster: TestCluster) => cluster.all<EndpointSlice>("EndpointSlice");
const pictureOf = (cluster: TestCluster) => ({
  revision: String(cluster.revision),
  service: cluster.get<Service>("Service", "web"),
  pods: cluster.all<Pod>("Pod"),
  nodes: cluster.all<Node>("Node"),
  slices: slices(cluster),
});
const decide = (cluster: TestCluster) => decideEndpointSlices(pictureOf(cluster));
const settle = (cluster: TestCluster) => cluster.settle((each) => each.apply(decide(each)));
const endpointNames = (cluster: TestCluster) =>
  slices(cluster)
    .flatMap(({ endpoints }) => endpoints ?? [])
    .map(({ targetRef }) => targetRef?.name)
    .sort();

describe("the slices of a Service", () => {
  test("have for each pod its node, its zone and its conditions", () => {
    const cluster = new TestCluster();
    cluster.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n1", labels: { "topology.kubernetes.io/zone": "a" } },
    });
    serviceOf(cluster);
    podOf(cluster, 1, { hostname: "first" });
    settle(cluster);
    const [slice] = slices(cluster);
    expect(slice).toMatchObject({ addressType: "IPv4", ports: [{ name: "http", port: 8080, protocol: "TCP" }] });
    expect(slice?.metadata.labels).toEqual({
      tier: "front",
      "kubernetes.io/service-name": "web",
      "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    expect(slice?.endpoints).toMatchObject([
      {
        addresses: ["10.0.0.1"],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: "n1",
        zone: "a",
        hostname: "first",
        targetRef: { kind: "Pod", name: "p0001" },
      },
    ]);
  });

  test.each([
    {
      name: "a ready pod",
      leaving: false,
      ready: true,
      published: false,
      conditions: { ready: true, serving: true, terminating: false },
    },
    {
      name: "a pod that is not ready",
      leaving: false,
      ready: false,
      published: false,
      conditions: { ready: false, serving: false, terminating: false },
    },
    {
      name: "a terminating pod that still serves",
      leaving: true,
      ready: true,
      published: false,
      conditions: { ready: false, serving: true, terminating: true },
    },
    {
      name: "a pod that is published unready",
      leaving: false,
      ready: false,
      published: true,
      conditions: { ready: true, serving: false, terminating: false },
    },
  ])("show $name as $conditions", ({ leaving, ready, published, conditions }) => {
    const cluster = new TestCluster();
    serviceOf(cluster, { publishNotReadyAddresses: published });
    const name = podOf(cluster, 1);
    if (!ready) cluster.setPhase(name, "Pending");
    if (leaving) cluster.remove(cluster.get("Pod", name));
    settle(cluster);
    expect(slices(cluster)[0]?.endpoints?.[0]?.conditions).toEqual(conditions);
  });

  test("leave out pods that have finished or have no address", () => {
    const cluster = new TestCluster();
    serviceOf(cluster);
    cluster.setPhase(podOf(cluster, 1), "Succeeded");
    cluster.change<Pod>("Pod", podOf(cluster, 2), ({ status }) => {
      delete status?.podIP;
    });
    settle(cluster);
    expect(slices(cluster)).toMatchObject([{ endpoints: [] }]);
  });

  test("hold a hundred each, and a new pod is one write", () => {
    const cluster = new TestCluster();
    serviceOf(cluster);
    for (let i = 0; i < 250; i++) podOf(cluster, i);
    settle(cluster);
    expect(slices(cluster).map(({ endpoints }) => endpoints?.length)).toEqual([100, 100, 50]);
    podOf(cluster, 999);
    expect(decide(cluster).intents).toHaveLength(1);
  });

  test("are separate for pods whose named port differs", () => {
    const cluster = new TestCluster();
    serviceOf(cluster, { ports: [{ name: "http", port: 80, targetPort: "main" }] });
    podOf(cluster, 1, { port: 8080 });
    podOf(cluster, 2, { port: 9090 });
    settle(cluster);
    expect(slices(cluster).map(({ ports }) => ports?.[0]?.port)).toEqual([8080, 9090]);
  });

  test("are separate for each address family, and are deleted with it", () => {
    const cluster = new TestCluster();
    serviceOf(cluster, { ipFamilies: ["IPv4", "IPv6"] });
    podOf(cluster, 1);
    settle(cluster);
    expect(slices(cluster).map(({ addressType, endpoints }) => [addressType, endpoints?.[0]?.addresses[0]])).toEqual([
      ["IPv4", "10.0.0.1"],
      ["IPv6", "fd00::1"],
    ]);
    cluster.change<Service>("Service", "web", ({ spec }) => {
      if (spec !== undefined) spec.ipFamilies = ["IPv6"];
    });
    settle(cluster);
    expect(slices(cluster).map(({ addressType }) => addressType)).toEqual(["IPv6"]);
  });

  test("of a Service without selector are not managed", () => {
    const cluster = new TestCluster();
    serviceOf(cluster, { selector: {} });
    podOf(cluster, 1);
    expect(decide(cluster).intents).toEqual([]);
  });

  test("hold exactly the pods of the Service after any change, in any order of lists", () => {
    const change = fc.record({ kind: fc.constantFrom("add", "remove", "relabel"), at: fc.nat(200) });
    fc.assert(
      fc.property(fc.nat(220), fc.array(change, { maxLength: 30 }), (count, changes) => {
        const cluster = new TestCluster();
        serviceOf(cluster);
        for (let i = 0; i < count; i++) podOf(cluster, i);
        settle(cluster);
        for (const [i, { kind, at }] of changes.entries()) {
          const pod = cluster.all<Pod>("Pod")[at];
          if (kind === "add") podOf(cluster, 1000 + i);
          else if (pod === undefined) continue;
          else if (kind === "remove") cluster.remove(pod, 0);
          else {
            cluster.change<Pod>("Pod", pod.metadata.name, ({ metadata }) => {
              metadata.labels = {};
            });
          }
        }
        const snapshot = pictureOf(cluster);
        const reversed = { ...snapshot, pods: [...snapshot.pods].reverse(), slices: [...snapshot.slices].reverse() };
        expect(decideEndpointSlices(reversed)).toEqual(decide(cluster));
        settle(cluster);
        const selected = cluster.all<Pod>("Pod").filter(({ metadata }) => metadata.labels?.["app"] === "web");
        expect(endpointNames(cluster)).toEqual(selected.map(({ metadata }) => metadata.name).sort());
        expect(slices(cluster).every(({ endpoints }) => (endpoints?.length ?? 0) <= 100)).toBe(true);
        expect(decide(cluster).intents).toEqual([]);
        expect(cluster.conflicts).toBe(0);
      }),
      { numRuns: 25 },
    );
  });
});

test("the Endpoints of a Service list ready and unready pods separately, and reach a stable state", () => {
  const cluster = new TestCluster();
  serviceOf(cluster);
  podOf(cluster, 1);
  cluster.setPhase(podOf(cluster, 2), "Pending");
  const run = () => {
    const { revision, service, pods } = pictureOf(cluster);
    return decideEndpoints({ revision, service, pods, endpoints: cluster.all<Endpoints>("Endpoints")[0] });
  };
  cluster.settle((each) => each.apply(run()));
  expect(cluster.get<Endpoints>("Endpoints", "web").subsets).toMatchObject([
    { addresses: [{ ip: "10.0.0.1" }], notReadyAddresses: [{ ip: "10.0.0.2" }], ports: [{ name: "http", port: 8080 }] },
  ]);
  expect(run().intents).toEqual([]);
});
