/**
 * One request must not cost the square of what is in it. Each row is sent with some items and with four times as many:
 * linear work then takes about four times the processor time, quadratic work sixteen times. The bound lies between, far
 * from both.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { type Answer, HttpCaller, patchTypes, tokenFile } from "../httpCaller.ts";

const times = 4;
const growthMax = 9;
const triesMin = 2;
const triesMax = 8;

let server: ApiServer;
let caller: HttpCaller;
let made = 0;

const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";
const things = "/apis/example.com/v1/namespaces/default/things";
const services = "/api/v1/namespaces/default/services";

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile });
  caller = new HttpCaller(server.url);
  const item = { type: "object", required: ["k"], properties: { k: { type: "string" }, v: { type: "string" } } };
  const spec = {
    type: "object",
    properties: {
      set: { type: "array", items: { type: "integer" }, "x-kubernetes-list-type": "set" },
      map: { type: "array", items: item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"] },
    },
  };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec } } };
  const { code } = await caller.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    metadata: { name: "things.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "things", singular: "thing", kind: "Thing" },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  });
  expect(code).toBe(201);
  while ((await caller.get(things)).code !== 200) await new Promise((resolve) => setTimeout(resolve, 10));
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

/** Items numbered from a number on that was not used before: what is remembered of earlier requests must not help. */
const list = <T>(count: number, make: (at: number) => T): T[] => {
  const from = 1_000_000 + 100_000 * (made++ % 1000);
  return Array.from({ length: count }, (_, at) => make(from + at));
};
const pod = (spec: object, metadata: object = {}) => ({
  metadata: { name: `p${made++}`, ...metadata },
  spec: { containers: [{ name: "c", image: "i" }], ...spec },
});
const map = (metadata: object, data: object = {}) => ({ metadata: { name: `m${made++}`, ...metadata }, data });
const thing = (spec: object) => ({
  apiVersion: "example.com/v1",
  kind: "Thing",
  metadata: { name: `t${made++}` },
  spec,
});

const apply = (path: string, manager: string, object: { metadata: { name: string }; [field: string]: unknown }) =>
  caller.call("PATCH", `${path}/${object.metadata.name}?fieldManager=${manager}`, object, {
    headers: { "content-type": patchTypes.apply },
  });

interface Row {
  readonly name: string;
  readonly count: number;
  /** What has to be there first; it is not measured. */
  before?(count: number): Promise<unknown>;
  send(count: number, before: unknown): Promise<Answer>;
}

const rows: readonly Row[] = [
  {
    name: "entries of managedFields",
    count: 1500,
    send: (count) =>
      caller.post(
        maps,
        map({
          managedFields: list(count, (at) => ({
            manager: `m${at}`,
            operation: "Update",
            apiVersion: "v1",
            fieldsType: "FieldsV1",
            time: "2026-01-01T00:00:00Z",
            fieldsV1: { "f:data": { [`f:k${at}`]: {} } },
          })),
        }),
      ),
  },
  {
    name: "finalizers",
    count: 5000,
    send: (count) => caller.post(maps, map({ finalizers: list(count, (at) => `example.com/f${at}`) })),
  },
  {
    name: "owner references",
    count: 2500,
    send: (count) =>
      caller.post(
        maps,
        map({ ownerReferences: list(count, (at) => ({ apiVersion: "v1", kind: "Pod", name: "p", uid: `u${at}` })) }),
      ),
  },
  {
    name: "conflicts of an apply",
    count: 5000,
    before: async (count) => {
      const keys = list(count, (at) => `k${at}`);
      const data = (value: string) => Object.fromEntries(keys.map((key) => [key, value]));
      const object = { apiVersion: "v1", kind: "ConfigMap", ...map({}, data("a")) };
      for (const manager of ["one", "two"]) await apply(maps, manager, object);
      return { ...object, data: data("b") };
    },
    send: (_count, before) => apply(maps, "three", before as { metadata: { name: string } }),
  },
  {
    name: "items of a set",
    count: 6000,
    send: (count) => caller.post(things, thing({ set: list(count, (at) => at) })),
  },
  {
    name: "items of a set in another order",
    count: 6000,
    send: (count) => caller.post(things, thing({ set: list(count, (at) => -at) })),
  },
  {
    name: "items of a map list",
    count: 4000,
    send: (count) => caller.post(things, thing({ map: list(count, (at) => ({ k: `k${at}`, v: "v" })) })),
  },
  {
    name: "items of a map list, applied",
    count: 4000,
    send: (count) => apply(things, "one", thing({ map: list(count, (at) => ({ k: `k${at}`, v: "v" })) })),
  },
  {
    name: "containers",
    count: 1200,
    send: (count) => caller.post(pods, pod({ containers: list(count, (at) => ({ name: `c${at}`, image: "i" })) })),
  },
  {
    name: "variables in a strategic merge",
    count: 4000,
    before: async () => (await caller.post(pods, pod({}))).json.metadata.name,
    send: (count, name) =>
      caller.patch(`${pods}/${name}?dryRun=All`, "strategic", {
        spec: { containers: [{ name: "c", env: list(count, (at) => ({ name: `E${at}`, value: "v" })) }] },
      }),
  },
  {
    name: "variables",
    count: 3000,
    send: (count) =>
      caller.post(
        pods,
        pod({ containers: [{ name: "c", image: "i", env: list(count, (at) => ({ name: `E${at}`, value: "v" })) }] }),
      ),
  },
  {
    name: "ports of a container, applied",
    count: 2500,
    send: (count) => apply(pods, "one", { apiVersion: "v1", kind: "Pod", ...podWithPorts(count, false) }),
  },
  {
    name: "ports of a container with names",
    count: 2500,
    send: (count) => caller.post(pods, podWithPorts(count, true)),
  },
  {
    name: "volumes and their mounts",
    count: 2000,
    send: (count) =>
      caller.post(
        pods,
        pod({
          volumes: list(count, (at) => ({ name: `v${at}`, emptyDir: {} })),
          containers: [
            { name: "c", image: "i", volumeMounts: list(count, (at) => ({ name: `v${at}`, mountPath: `/m/${at}` })) },
          ],
        }),
      ),
  },
  {
    name: "claims of volumes",
    count: 2500,
    send: (count) =>
      caller.post(
        pods,
        pod({ volumes: list(count, (at) => ({ name: `v${at}`, persistentVolumeClaim: { claimName: `c${at}` } })) }),
      ),
  },
  {
    name: "scheduling gates",
    count: 4000,
    send: (count) => caller.post(pods, pod({ schedulingGates: list(count, (at) => ({ name: `example.com/g${at}` })) })),
  },
  {
    name: "tolerations",
    count: 3000,
    send: (count) =>
      caller.post(pods, pod({ tolerations: list(count, (at) => ({ key: `k${at}`, operator: "Exists" })) })),
  },
  {
    name: "topology spread constraints",
    count: 1500,
    send: (count) =>
      caller.post(
        pods,
        pod({
          topologySpreadConstraints: list(count, (at) => ({
            maxSkew: 1,
            topologyKey: `k${at}`,
            whenUnsatisfiable: "ScheduleAnyway",
            labelSelector: { matchLabels: { a: "b" } },
          })),
        }),
      ),
  },
  {
    name: "ports of a Service",
    count: 2500,
    send: (count) =>
      caller.post(services, {
        metadata: { name: `s${made++}` },
        spec: { selector: { a: "b" }, ports: list(count, (at) => ({ name: `p${at}`, port: at % 100_000 })) },
      }),
  },
];

function podWithPorts(count: number, isNamed: boolean) {
  const ports = list(count, (at) => ({ containerPort: (at % 100_000) + 1, ...(isNamed && { name: `p${at}` }) }));
  return pod({ containers: [{ name: "c", image: "i", ports }] });
}

/** Processor time of this process, where the server runs too, in milliseconds. */
async function costOf({ before, send }: Row, count: number): Promise<number> {
  const prepared = await before?.(count);
  const start = process.cpuUsage();
  const { code } = await send(count, prepared);
  const { user, system } = process.cpuUsage(start);
  expect(code).not.toBe(500);
  return (user + system) / 1000;
}

/**
 * Garbage collection and other work of this process add to a measurement and never take away from it, so the least of
 * several is compared. Quadratic work exceeds the bound in every try; linear work has to stay below it in one.
 */
test.each(rows)("work grows with the items and not with their square: $name", async (row) => {
  await costOf(row, row.count);
  let few = Number.POSITIVE_INFINITY;
  let many = Number.POSITIVE_INFINITY;
  for (let at = 0; at < triesMin || (at < triesMax && many / few >= growthMax); at++) {
    few = Math.min(few, await costOf(row, row.count));
    many = Math.min(many, await costOf(row, times * row.count));
  }
  if (process.env["MUSTER_LONG"] === "1") console.info(`${row.name}: ${few.toFixed(0)} ms, ${many.toFixed(0)} ms`);
  expect(many / few).toBeLessThan(growthMax);
});
