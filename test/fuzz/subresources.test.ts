import { request } from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { encodeProtobuf } from "../../src/apiserver/wire/protobufEncode.ts";
import type { JsonObject } from "../../src/model/objects/json.ts";
import { type Answer, adminToken, HttpCaller, type patchTypes, tokenFile } from "../httpCaller.ts";
import { type Sample, sampleOf, samples } from "../validObjects.ts";
import { expectHonestAnswer, fuzzMsMax, fuzzRuns } from "./judge.ts";
import { mutate, mutations, type Value } from "./mutate.ts";

/* The side doors: subresources, reviews, options of a delete, protobuf, queries, and kinds that users define. */

let server: ApiServer;
let caller: HttpCaller;
const mistakes: unknown[] = [];
const kinds = samples();
let names = 0;

const base = "/api/v1/namespaces/default";
const widgets = "/apis/example.com/v1/namespaces/default/widgets";

beforeAll(async () => {
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    freeze: true,
    log: ({ error }) => mistakes.push(error),
  });
  caller = new HttpCaller(server.url);
  for (const plural of ["pods", "deployments", "serviceaccounts", "certificatesigningrequests", "namespaces"]) {
    const { path, object } = sampleOf(plural);
    expect((await caller.post(path, object("door"))).code).toBe(201);
  }
  const defined = await caller.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgetDefinition());
  expect({ code: defined.code, text: defined.text }).toMatchObject({ code: 201 });
  await server.controllers.idle();
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

const runs = { numRuns: fuzzRuns };

const attributes = { namespace: "default", verb: "get", resource: "pods", name: "p" };
const doors: { method: string; path: string; body: Value }[] = [
  { method: "POST", path: `${base}/pods/door/binding`, body: { target: { kind: "Node", name: "n" } } },
  {
    method: "POST",
    path: `${base}/bindings`,
    body: { metadata: { name: "door" }, target: { kind: "Node", name: "n" } },
  },
  {
    method: "POST",
    path: `${base}/pods/door/eviction?dryRun=All`,
    body: { metadata: { name: "door" }, deleteOptions: { gracePeriodSeconds: 5, preconditions: { uid: "u" } } },
  },
  {
    method: "PUT",
    path: "/apis/apps/v1/namespaces/default/deployments/door/scale",
    body: { metadata: { name: "door" }, spec: { replicas: 2 } },
  },
  {
    method: "POST",
    path: `${base}/serviceaccounts/door/token`,
    body: {
      spec: { audiences: ["a"], expirationSeconds: 600, boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "p" } },
    },
  },
  {
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: { spec: { resourceAttributes: attributes, nonResourceAttributes: { path: "/", verb: "get" } } },
  },
  {
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    body: { spec: { user: "u", groups: ["g"], extra: { a: ["b"] }, resourceAttributes: attributes } },
  },
  {
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
    body: { metadata: { namespace: "default" }, spec: { user: "u", resourceAttributes: attributes } },
  },
  {
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    body: { spec: { namespace: "default" } },
  },
  {
    method: "POST",
    path: "/apis/authentication.k8s.io/v1/tokenreviews",
    body: { spec: { token: "t", audiences: ["a"] } },
  },
  { method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body: {} },
  {
    method: "PUT",
    path: "/api/v1/namespaces/door/finalize",
    body: { metadata: { name: "door" }, spec: { finalizers: ["kubernetes"] } },
  },
  {
    method: "PUT",
    path: "/apis/certificates.k8s.io/v1/certificatesigningrequests/door/approval",
    body: { metadata: { name: "door" }, status: { conditions: [{ type: "Approved", status: "True", reason: "r" }] } },
  },
  {
    method: "DELETE",
    path: `${base}/pods/door?dryRun=All`,
    body: {
      kind: "DeleteOptions",
      apiVersion: "v1",
      gracePeriodSeconds: 1,
      propagationPolicy: "Background",
      preconditions: { uid: "u", resourceVersion: "1" },
      dryRun: ["All"],
    },
  },
  {
    method: "PUT",
    path: `${base}/pods/door/resize`,
    body: {
      metadata: { name: "door" },
      spec: { containers: [{ name: "c", image: "i", resources: { limits: { cpu: "2" } } }] },
    },
  },
  {
    method: "PUT",
    path: `${base}/pods/door/ephemeralcontainers`,
    body: {
      metadata: { name: "door" },
      spec: { containers: [{ name: "c", image: "i" }], ephemeralContainers: [{ name: "e", image: "i" }] },
    },
  },
];

test(
  "damaged bodies of subresources, reviews and deletes",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...doors), mutations, async ({ method, path, body }, changes) => {
        const sent = mutate(body, changes);
        // A delete for real would take the object away from those who come next.
        if (method === "DELETE" && !isDry(sent)) return;
        expectHonestAnswer(await caller.call(method, path, sent), mistakes);
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "protobuf of every kind with flipped, lost and repeated bytes",
  async () => {
    const damage = fc.record({
      at: fc.nat(),
      kind: fc.constantFrom("flip", "cut", "drop", "repeat", "grow"),
      byte: fc.nat(255),
    });
    // The wire table has the stable versions; older ones of the device kinds are spoken in JSON only.
    const tabled = kinds.filter(
      ({ type }) => type.group !== "resource.k8s.io" || (type.version === "v1" && type.kind !== "DeviceTaintRule"),
    );
    const kind = fc.nat(tabled.length - 1).map((at) => tabled[at] as Sample);
    await fc.assert(
      fc.asyncProperty(kind, fc.array(damage, { minLength: 1, maxLength: 4 }), async (sample, damages) => {
        let raw: Buffer = encodeProtobuf(sample.object(`pb-${names++}`) as JsonObject);
        for (const { at, kind: how, byte } of damages) {
          const place = 4 + (at % Math.max(1, raw.length - 4));
          if (how === "flip") raw[place] = byte;
          else if (how === "cut") raw = raw.subarray(0, place);
          else if (how === "drop") raw = Buffer.concat([raw.subarray(0, place), raw.subarray(place + 1)]);
          else if (how === "repeat") raw = Buffer.concat([raw, raw.subarray(place)]);
          else raw = Buffer.concat([raw.subarray(0, place), Buffer.from([byte | 0x80, 0xff]), raw.subarray(place)]);
        }
        const answer = await caller.call("POST", sample.path, undefined, {
          raw,
          headers: { "content-type": "application/vnd.kubernetes.protobuf" },
        });
        expectHonestAnswer(answer, mistakes);
        if (answer.code === 201) await expectStable(sample.path, answer);
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "damaged objects of a kind that a user defined, sent and patched",
  async () => {
    const way = fc.constantFrom<"POST" | "PUT" | keyof typeof patchTypes>(
      "POST",
      "PUT",
      "json",
      "merge",
      "strategic",
      "apply",
    );
    await fc.assert(
      fc.asyncProperty(mutations, way, fc.boolean(), async (changes, how, atStatus) => {
        const name = `w-${names++}`;
        const body = mutate(widget(name), changes);
        if (how === "POST") {
          const answer = await caller.post(widgets, body);
          expectHonestAnswer(answer, mistakes);
          if (answer.code === 201) await expectStable(widgets, answer);
          return;
        }
        const created = await caller.post(widgets, widget(name));
        expect({ code: created.code, text: created.text }).toMatchObject({ code: 201 });
        const path = `${widgets}/${name}${atStatus ? "/status" : ""}?fieldManager=f`;
        const answer =
          how === "PUT"
            ? await caller.put(path, mutate(created.json as unknown as Value, changes))
            : await caller.patch(path, how, how === "json" ? [{ op: "replace", path: "", value: body }] : body);
        expectHonestAnswer(answer, mistakes);
        if (answer.code === 200) await expectStable(widgets, answer);
        await caller.delete(`${widgets}/${name}`);
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "queries of every sort on lists, watches and objects",
  async () => {
    const value = fc.oneof(
      fc.constantFrom(
        "",
        "0",
        "1",
        "-1",
        "1.5",
        "abc",
        "9e9",
        " 1",
        "0x1",
        "true",
        "false",
        "TRUE",
        "All",
        "Exact",
        "NotOlderThan",
      ),
      fc.constantFrom(
        "a=b",
        "a in (b,c)",
        "!a",
        "a,b",
        "a in (",
        "=",
        "((",
        "a=b,c!=d",
        "metadata.name=x",
        "spec.nodeName=n",
        "a\u0000",
        "%",
        "ä",
        "__proto__",
        "constructor=prototype",
        "a>1",
        "a<1",
      ),
      fc.constantFrom(
        "Metadata",
        "Object",
        "None",
        "Orphan",
        "Strict",
        "Ignore",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
        "💥",
      ),
      fc.string({ unit: "binary", maxLength: 12 }),
    );
    const name = fc.constantFrom(
      "watch",
      "labelSelector",
      "fieldSelector",
      "limit",
      "continue",
      "resourceVersion",
      "resourceVersionMatch",
      "allowWatchBookmarks",
      "sendInitialEvents",
      "timeoutSeconds",
      "pretty",
      "includeObject",
      "timeout",
      "exact",
      "dryRun",
      "fieldManager",
      "fieldValidation",
      "force",
      "container",
      "tailLines",
      "sinceTime",
      "follow",
      "verbose",
      "exclude",
      "__proto__",
      "constructor",
    );
    const accept = fc.constantFrom(
      "application/json",
      "*/*",
      "",
      ";;;",
      "application/json;as=Table;v=v1;g=meta.k8s.io",
      "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
      "application/yaml",
      "application/json;q=nope",
      "application/json;as=constructor;g=__proto__;v=toString",
      "text/html, image/gif;q=0.2, */*;q=0.1",
    );
    const path = fc.constantFrom(
      `${base}/pods`,
      "/api/v1/pods",
      `${base}/pods/door`,
      `${base}/pods/door/log`,
      widgets,
      "/apis",
      "/api/v1",
      "/readyz",
      "/openapi/v3",
      "/api/v1/watch/pods",
      "/api/v1/componentstatuses",
      `${base}/pods/door/exec`,
    );
    await fc.assert(
      fc.asyncProperty(
        path,
        accept,
        fc.array(fc.tuple(name, value), { maxLength: 4 }),
        async (where, accepts, pairs) => {
          const query = pairs.map(([key, text]) => `${key}=${encodeURIComponent(text)}`).join("&");
          const answer = await headOf(`${where}?${query}`, accepts);
          expectHonestAnswer(answer, mistakes);
        },
      ),
      runs,
    );
  },
  fuzzMsMax,
);

/** What was accepted reads as it was answered, and goes again. */
async function expectStable(collection: string, answer: Answer): Promise<void> {
  const path = `${collection}/${answer.json.metadata.name}`;
  for (let attempt = 0; attempt < 20; attempt++) {
    const read = await caller.get(path);
    if (read.code === 404) return;
    const written = await caller.put(path, read.json);
    if (written.code === 409 || written.code === 404) continue;
    expect({ code: written.code, text: written.text }).toMatchObject({ code: 200 });
    if (attempt === 0 && read.json.kind === "Job" && read.json.metadata.labels === undefined) continue;
    expect(written.json).toEqual(read.json);
    break;
  }
  await caller.delete(path, { gracePeriodSeconds: 0 });
  await caller.patch(path, "merge", { metadata: { finalizers: null } });
}

/** The answer to a GET; of an endless one only that it began. */
function headOf(path: string, accept: string): Promise<Answer> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const headers = { accept, authorization: `Bearer ${adminToken}` };
    const sent = request({ host: hostname, port, path, headers }, (response) => {
      const code = response.statusCode ?? 0;
      if (code === 200) {
        sent.destroy();
        resolve({ code, headers: response.headers, text: "", json: {} as Answer["json"] });
        return;
      }
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () =>
        resolve({ code, headers: response.headers, text, json: JSON.parse(text || "{}") as Answer["json"] }),
      );
    });
    sent.on("error", (error) => (sent.destroyed ? undefined : reject(error)));
    sent.end();
  });
}

function isDry(body: Value): boolean {
  const { dryRun } = (body ?? {}) as { dryRun?: Value };
  return Array.isArray(dryRun) && dryRun.length === 1 && dryRun[0] === "All";
}

function widget(name: string): Value {
  return {
    kind: "Widget",
    apiVersion: "example.com/v1",
    metadata: { name, labels: { a: "b" } },
    spec: {
      size: 3,
      port: "http",
      tags: ["x"],
      parts: [{ name: "p", count: 1 }],
      free: { any: [1] },
      when: "2026-01-01T00:00:00Z",
    },
    status: { ready: true },
  };
}

function widgetDefinition(): object {
  const spec = {
    type: "object",
    properties: {
      size: { type: "integer", format: "int32", minimum: 1, maximum: 100, default: 1 },
      port: { "x-kubernetes-int-or-string": true },
      tags: { type: "array", items: { type: "string", maxLength: 10 }, maxItems: 5, "x-kubernetes-list-type": "set" },
      parts: {
        type: "array",
        maxItems: 10,
        items: {
          type: "object",
          required: ["name"],
          properties: { name: { type: "string", maxLength: 20 }, count: { type: "number" } },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      },
      free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      when: { type: "string", format: "date-time" },
      color: { type: "string", enum: ["red", "blue"], nullable: true },
    },
    "x-kubernetes-validations": [{ rule: "!has(self.size) || self.size != 13", message: "unlucky" }],
  };
  return {
    metadata: { name: "widgets.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "widgets", singular: "widget", kind: "Widget" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec,
                status: { type: "object", properties: { ready: { type: "boolean" } } },
              },
            },
          },
        },
      ],
    },
  };
}
