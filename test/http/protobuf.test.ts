import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decodeProtobuf } from "../../src/apiserver/wire/protobuf.ts";
import { ProtobufReader } from "../../src/apiserver/wire/protobufReader.ts";
import type { JsonObject } from "../../src/model/objects/json.ts";
import { adminToken } from "../httpCaller.ts";
import { namespaced, type ServedApi, serveApi } from "./servedApi.ts";

/** Responses in protobuf, which Go clients request for built-in kinds. */
const protobuf = "application/vnd.kubernetes.protobuf";
const partial = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
let served: ServedApi;

beforeAll(async () => {
  served = await serveApi();
  for (const name of ["a", "b"]) {
    await served.api.post(`${namespaced}/pods`, {
      metadata: { name, labels: { z: "1", a: "2" }, annotations: { note: "größe" } },
      spec: {
        containers: [
          {
            name: "main",
            image: "registry/app:1",
            resources: { requests: { cpu: "100m", memory: "1Gi" } },
            livenessProbe: { httpGet: { port: "web" }, initialDelaySeconds: 3 },
            ports: [{ name: "web", containerPort: 8080 }],
          },
        ],
      },
    });
  }
  await served.api.post(`${namespaced}/secrets`, { metadata: { name: "s" }, data: { key: "AAEC/w==" } });
});
afterAll(() => served.stop());

const get = (path: string, accept: string): Promise<Response> =>
  fetch(`${served.server.url}${path}`, { headers: { authorization: `Bearer ${adminToken}`, accept } });

async function decoded(path: string, accept = protobuf): Promise<JsonObject> {
  const response = await get(path, accept);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, protobuf]);
  return decodeProtobuf(Buffer.from(await response.arrayBuffer()));
}

/** JSON without managedFields, whose raw fields are compared as text, and without structs that have only zero values. */
function comparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, inner: unknown) => {
    const isEmpty = typeof inner === "object" && inner !== null && Object.keys(inner).length === 0;
    return key === "managedFields" || isEmpty ? undefined : inner;
  });
}

describe("an object in protobuf", () => {
  test.each(["pods/a", "secrets/s", "services/kubernetes", "configmaps/kube-root-ca.crt"])(
    "%s is the same as in JSON",
    async (path) => {
      const { json } = await served.api.get(`${namespaced}/${path}`);
      expect(comparable(await decoded(`${namespaced}/${path}`))).toEqual(comparable(json));
    },
  );

  test("of cluster scope and of other groups is the same as in JSON", async () => {
    for (const path of [
      "/api/v1/namespaces/default",
      "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
      "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
      "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    ]) {
      const { json } = await served.api.get(path);
      expect(comparable(await decoded(path))).toEqual(comparable(json));
    }
  });

  test("is the response to a write too", async () => {
    const response = await fetch(`${served.server.url}${namespaced}/configmaps`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${adminToken}`,
        accept: `${protobuf}, */*`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ metadata: { name: "written" }, data: { a: "b" } }),
    });
    expect([response.status, response.headers.get("content-type")]).toEqual([201, protobuf]);
    expect(decodeProtobuf(Buffer.from(await response.arrayBuffer()))).toMatchObject({
      kind: "ConfigMap",
      metadata: { name: "written" },
      data: { a: "b" },
    });
  });
});

test("a list in protobuf has the items and the metadata of the list in JSON", async () => {
  const { json } = await served.api.get(`${namespaced}/pods?limit=1`);
  const list = await decoded(`${namespaced}/pods?limit=1`);
  expect(list).toMatchObject({ kind: "PodList", apiVersion: "v1" });
  expect((list["metadata"] as JsonObject)["remainingItemCount"]).toBe(1);
  expect(comparable(list["items"])).toEqual(comparable(json.items));
});

test("metadata of objects is sent in protobuf, of custom resources too", async () => {
  await served.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    metadata: { name: "toys.example.com" },
    spec: {
      group: "example.com",
      names: { plural: "toys", kind: "Toy" },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
    },
  });
  const toys = "/apis/example.com/v1/namespaces/default/toys";
  await served.api.post(toys, { apiVersion: "example.com/v1", kind: "Toy", metadata: { name: "bear" } });
  const bear = await decoded(`${toys}/bear`, `${protobuf};${partial}`);
  expect(bear).toMatchObject({
    kind: "PartialObjectMetadata",
    apiVersion: "meta.k8s.io/v1",
    metadata: { name: "bear" },
  });
  const pods = await decoded(`${namespaced}/pods`, `${protobuf};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1`);
  expect((pods["items"] as JsonObject[]).map(({ metadata }) => (metadata as JsonObject)["name"])).toEqual(["a", "b"]);
  expect((await get(`${toys}/bear`, protobuf)).status).toBe(406);
  const fallback = await get(`${toys}/bear`, `${protobuf}, */*`);
  expect(fallback.headers.get("content-type")).toBe("application/json");
});

describe("a watch in protobuf", () => {
  interface Event {
    readonly type: string;
    readonly object: JsonObject;
  }

  /** Reads frames of a watch until there are `count`, then closes it. */
  async function events(path: string, count: number): Promise<Event[]> {
    const response = await get(path, protobuf);
    expect(response.headers.get("content-type")).toBe(`${protobuf};stream=watch`);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const found: Event[] = [];
    let bytes = Buffer.alloc(0);
    while (found.length < count) {
      const { value, done } = await reader.read();
      if (done) break;
      bytes = Buffer.concat([bytes, value]);
      while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE(0)) {
        const end = 4 + bytes.readUInt32BE(0);
        found.push(eventIn(bytes.subarray(4, end)));
        bytes = bytes.subarray(end);
      }
    }
    await reader.cancel();
    return found;
  }

  function eventIn(bytes: Buffer): Event {
    const reader = new ProtobufReader(bytes);
    expect(reader.nextField()).toBe(1);
    const type = reader.readString();
    expect(reader.nextField()).toBe(2);
    const raw = reader.readMessage();
    expect(raw.nextField()).toBe(1);
    return { type, object: decodeProtobuf(raw.readBytes()) };
  }

  test("delivers the initial events, their end, and changes", async () => {
    const query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    const reading = events(`${namespaced}/pods?${query}`, 4);
    const { json } = await served.api.get(`${namespaced}/pods/a`);
    await served.api.put(`${namespaced}/pods/a`, {
      ...json,
      metadata: { ...json.metadata, labels: { changed: "yes" } },
    });
    const [a, b, end, changed] = await reading;
    expect([a?.type, b?.type, end?.type, changed?.type]).toEqual(["ADDED", "ADDED", "BOOKMARK", "MODIFIED"]);
    expect(end?.object).toMatchObject({ metadata: { annotations: { "k8s.io/initial-events-end": "true" } } });
    expect(changed?.object).toMatchObject({ kind: "Pod", metadata: { name: "a", labels: { changed: "yes" } } });
  });

  test("from a compacted revision ends with an ERROR event", async () => {
    served.server.compactNow();
    expect(await events(`${namespaced}/pods?watch=1&resourceVersion=1`, 1)).toMatchObject([
      { type: "ERROR", object: { kind: "Status", apiVersion: "v1", code: 410, reason: "Expired" } },
    ]);
  });
});
