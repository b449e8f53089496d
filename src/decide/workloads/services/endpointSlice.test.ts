import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { EndpointSlice, Endpoints, Node, Pod, Service, ServiceSpec } from "../../../model/kubernetes.generated.ts";
import { decideEndpointSlices } from "./endpointSlice.ts";
import { decideEndpoints } from "./endpoints.ts";

function serviceOf(world: TestWorld, spec: Partial<ServiceSpec> = {}): Service {
  return world.add<Service>({
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

function podOf(world: TestWorld, i: number, more: { port?: number; hostname?: string } = {}): string {
  const name = `p${String(i).padStart(4, "0")}`;
  const ports = more.port === undefined ? [] : [{ name: "main", containerPort: more.port }];
  world.add<Pod>({
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
  world.setPhase(name, "Running");
  return name;
}

const slices = (world: TestWorld) => world.all<EndpointSlice>("EndpointSlice");
const pictureOf = (world: TestWorld) => ({
  revision: String(world.revision),
  service: world.get<Service>("Service", "web"),
  pods: world.all<Pod>("Pod"),
  nodes: world.all<Node>("Node"),
  slices: slices(world),
});
const decide = (world: TestWorld) => decideEndpointSlices(pictureOf(world));
const settle = (world: TestWorld) => world.settle((each) => each.apply(decide(each)));
const endpointNames = (world: TestWorld) =>
  slices(world)
    .flatMap(({ endpoints }) => endpoints ?? [])
    .map(({ targetRef }) => targetRef?.name)
    .sort();

describe("the slices of a Service", () => {
  test("say of each pod where it is, in which zone, and whether it serves", () => {
    const world = new TestWorld();
    world.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n1", labels: { "topology.kubernetes.io/zone": "a" } },
    });
    serviceOf(world);
    podOf(world, 1, { hostname: "first" });
    settle(world);
    const [slice] = slices(world);
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
      name: "a leaving pod that still serves",
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
    const world = new TestWorld();
    serviceOf(world, { publishNotReadyAddresses: published });
    const name = podOf(world, 1);
    if (!ready) world.setPhase(name, "Pending");
    if (leaving) world.remove(world.get("Pod", name));
    settle(world);
    expect(slices(world)[0]?.endpoints?.[0]?.conditions).toEqual(conditions);
  });

  test("leave out pods that have ended or have no address", () => {
    const world = new TestWorld();
    serviceOf(world);
    world.setPhase(podOf(world, 1), "Succeeded");
    world.change<Pod>("Pod", podOf(world, 2), ({ status }) => {
      delete status?.podIP;
    });
    settle(world);
    expect(slices(world)).toMatchObject([{ endpoints: [] }]);
  });

  test("hold a hundred each, and a new pod is one write", () => {
    const world = new TestWorld();
    serviceOf(world);
    for (let i = 0; i < 250; i++) podOf(world, i);
    settle(world);
    expect(slices(world).map(({ endpoints }) => endpoints?.length)).toEqual([100, 100, 50]);
    podOf(world, 999);
    expect(decide(world).intents).toHaveLength(1);
  });

  test("are apart for pods whose named port differs", () => {
    const world = new TestWorld();
    serviceOf(world, { ports: [{ name: "http", port: 80, targetPort: "main" }] });
    podOf(world, 1, { port: 8080 });
    podOf(world, 2, { port: 9090 });
    settle(world);
    expect(slices(world).map(({ ports }) => ports?.[0]?.port)).toEqual([8080, 9090]);
  });

  test("are apart for each family of addresses, and go with it", () => {
    const world = new TestWorld();
    serviceOf(world, { ipFamilies: ["IPv4", "IPv6"] });
    podOf(world, 1);
    settle(world);
    expect(slices(world).map(({ addressType, endpoints }) => [addressType, endpoints?.[0]?.addresses[0]])).toEqual([
      ["IPv4", "10.0.0.1"],
      ["IPv6", "fd00::1"],
    ]);
    world.change<Service>("Service", "web", ({ spec }) => {
      if (spec !== undefined) spec.ipFamilies = ["IPv6"];
    });
    settle(world);
    expect(slices(world).map(({ addressType }) => addressType)).toEqual(["IPv6"]);
  });

  test("of a Service without selector are not ours", () => {
    const world = new TestWorld();
    serviceOf(world, { selector: {} });
    podOf(world, 1);
    expect(decide(world).intents).toEqual([]);
  });

  test("hold exactly the pods of the Service after any change, in any order of lists", () => {
    const change = fc.record({ kind: fc.constantFrom("add", "remove", "relabel"), at: fc.nat(200) });
    fc.assert(
      fc.property(fc.nat(220), fc.array(change, { maxLength: 30 }), (count, changes) => {
        const world = new TestWorld();
        serviceOf(world);
        for (let i = 0; i < count; i++) podOf(world, i);
        settle(world);
        for (const [i, { kind, at }] of changes.entries()) {
          const pod = world.all<Pod>("Pod")[at];
          if (kind === "add") podOf(world, 1000 + i);
          else if (pod === undefined) continue;
          else if (kind === "remove") world.remove(pod, 0);
          else {
            world.change<Pod>("Pod", pod.metadata.name, ({ metadata }) => {
              metadata.labels = {};
            });
          }
        }
        const snapshot = pictureOf(world);
        const reversed = { ...snapshot, pods: [...snapshot.pods].reverse(), slices: [...snapshot.slices].reverse() };
        expect(decideEndpointSlices(reversed)).toEqual(decide(world));
        settle(world);
        const selected = world.all<Pod>("Pod").filter(({ metadata }) => metadata.labels?.["app"] === "web");
        expect(endpointNames(world)).toEqual(selected.map(({ metadata }) => metadata.name).sort());
        expect(slices(world).every(({ endpoints }) => (endpoints?.length ?? 0) <= 100)).toBe(true);
        expect(decide(world).intents).toEqual([]);
        expect(world.conflicts).toBe(0);
      }),
      { numRuns: 25 },
    );
  });
});

test("the Endpoints of a Service list ready and unready pods apart, and settle", () => {
  const world = new TestWorld();
  serviceOf(world);
  podOf(world, 1);
  world.setPhase(podOf(world, 2), "Pending");
  const run = () => {
    const { revision, service, pods } = pictureOf(world);
    return decideEndpoints({ revision, service, pods, endpoints: world.all<Endpoints>("Endpoints")[0] });
  };
  world.settle((each) => each.apply(run()));
  expect(world.get<Endpoints>("Endpoints", "web").subsets).toMatchObject([
    { addresses: [{ ip: "10.0.0.1" }], notReadyAddresses: [{ ip: "10.0.0.2" }], ports: [{ name: "http", port: 8080 }] },
  ]);
  expect(run().intents).toEqual([]);
});
