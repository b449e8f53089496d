import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { StatusError } from "../../model/objects/status.ts";
import { decodeProtobuf } from "./protobuf.ts";
import { encodeProtobuf } from "./protobufEncode.ts";
import { messageNames, messageOf, type ProtobufField, type ProtobufMessage, schemaMessage } from "./protobufTable.ts";

const refused = expect.objectContaining({ status: expect.objectContaining({ code: 400, reason: "BadRequest" }) });

/** Bodies that kubectl 1.32 sent, byte for byte, and the JSON they denote. */
const kubectlBodies = JSON.parse(readFileSync(new URL("./testdata/kubectlBodies.json", import.meta.url), "utf8")) as {
  command: string;
  body: string;
  object: JsonObject;
}[];

test.each(kubectlBodies)("kubectl $command", ({ body, object }) => {
  expect(decodeProtobuf(Buffer.from(body, "base64"))).toEqual(object);
});

/** A body with a hand-written payload. */
function envelope(apiVersion: string, kind: string, payload: number[]): Buffer {
  const bytes = (text: string) => [...Buffer.from(text)];
  const field = (number: number, content: number[]) => [(number << 3) | 2, ...length(content.length), ...content];
  const type = [...field(1, bytes(apiVersion)), ...field(2, bytes(kind))];
  return Buffer.from([0x6b, 0x38, 0x73, 0, ...field(1, type), ...field(2, payload)]);
}
function length(count: number): number[] {
  const bytes: number[] = [];
  let rest = count;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}

describe("zeros", () => {
  const roundTrip = (object: JsonObject) => decodeProtobuf(encodeProtobuf(object));
  test("are kept behind pointers and dropped in values", () => {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p", deletionGracePeriodSeconds: 0, generation: 0, labels: {} },
      spec: {
        containers: [{ name: "" }],
        automountServiceAccountToken: false,
        hostNetwork: false,
        securityContext: {},
        nodeName: "",
      },
    };
    expect(roundTrip(pod)).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p", deletionGracePeriodSeconds: 0 },
      spec: { containers: [{ name: "" }], automountServiceAccountToken: false, securityContext: {} },
    });
  });
  test("empty list items and empty map values stay", () => {
    const object = {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { finalizers: [""] },
      data: { empty: "" },
      binaryData: { b: "" },
    };
    expect(roundTrip(object)).toEqual(object);
  });
  test("a missing map value is the zero of its type", () => {
    // field 2 (data), one entry with the key "k" only
    expect(decodeProtobuf(envelope("v1", "ConfigMap", [0x12, 3, 0x0a, 1, 0x6b]))["data"]).toEqual({ k: "" });
    // ResourceQuota.spec.hard
    expect(decodeProtobuf(envelope("v1", "ResourceQuota", [0x12, 5, 0x0a, 3, 0x0a, 1, 0x6b]))["spec"]).toEqual({
      hard: { k: "0" },
    });
  });
});

describe("kinds", () => {
  test.each<[string, JsonObject]>([
    [
      "DeleteOptions in any group",
      {
        apiVersion: "apps/v1",
        kind: "DeleteOptions",
        gracePeriodSeconds: 0,
        propagationPolicy: "Foreground",
        preconditions: { uid: "u" },
      },
    ],
    [
      "Eviction",
      { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "p" }, deleteOptions: { gracePeriodSeconds: 3 } },
    ],
    ["Binding", { apiVersion: "v1", kind: "Binding", metadata: { name: "p" }, target: { kind: "Node", name: "n1" } }],
    [
      "Scale",
      {
        apiVersion: "autoscaling/v1",
        kind: "Scale",
        metadata: { name: "w" },
        spec: { replicas: 3 },
        status: { replicas: 2, selector: "a=b" },
      },
    ],
    [
      "Status",
      {
        apiVersion: "v1",
        kind: "Status",
        metadata: { resourceVersion: "5" },
        status: "Failure",
        code: 404,
        details: { causes: [{ field: "x" }] },
      },
    ],
    [
      "PodList",
      {
        apiVersion: "v1",
        kind: "PodList",
        metadata: { resourceVersion: "5" },
        items: [{ metadata: { name: "a" } }, { metadata: { name: "b" } }],
      },
    ],
    [
      "Lease with microseconds",
      {
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name: "l" },
        spec: { holderIdentity: "me", leaseDurationSeconds: 15, renewTime: "2026-01-02T03:04:05.678901Z" },
      },
    ],
    [
      "TokenReview with extra",
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenReview",
        spec: { token: "t" },
        status: { user: { username: "u", groups: ["g"], extra: { k: ["a", "b"], none: [] } } },
      },
    ],
    [
      "ControllerRevision with raw JSON",
      {
        apiVersion: "apps/v1",
        kind: "ControllerRevision",
        metadata: { name: "r" },
        data: { spec: { $patch: "replace", n: [1, null] } },
        revision: 1,
      },
    ],
    [
      "managedFields",
      {
        apiVersion: "v1",
        kind: "Secret",
        metadata: {
          name: "s",
          managedFields: [
            {
              manager: "m",
              operation: "Update",
              time: "2026-01-02T03:04:05Z",
              fieldsType: "FieldsV1",
              fieldsV1: { "f:data": { ".": {} } },
            },
          ],
        },
        data: { a: "AP8=" },
      },
    ],
    [
      "an inlined probe and an int or string",
      {
        apiVersion: "v1",
        kind: "Pod",
        spec: {
          containers: [
            {
              name: "c",
              livenessProbe: { httpGet: { path: "/", port: "web" }, periodSeconds: 5 },
              readinessProbe: { tcpSocket: { port: 80 } },
            },
          ],
        },
      },
    ],
    [
      "negative numbers",
      { apiVersion: "v1", kind: "Pod", spec: { priority: -10, terminationGracePeriodSeconds: -5, containers: [] } },
    ],
    [
      "CustomResourceDefinition with every union",
      {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: "x.y" },
        spec: {
          group: "y",
          names: { plural: "x", kind: "X" },
          scope: "Namespaced",
          versions: [
            {
              name: "v1",
              served: true,
              storage: false,
              subresources: { status: {} },
              schema: {
                openAPIV3Schema: {
                  type: "object",
                  default: { a: 1 },
                  enum: ["a", 1, null],
                  maximum: 0,
                  minimum: 1.5,
                  properties: {
                    l: { type: "array", items: { type: "string" } },
                    t: { items: [{ type: "string" }, {}] },
                    m: { additionalProperties: false },
                    n: { additionalProperties: { type: "integer" } },
                  },
                  dependencies: { d: ["x", "y"], e: { type: "string" } },
                  "x-kubernetes-validations": [{ rule: "true", message: "m" }],
                },
              },
            },
          ],
        },
        status: { conditions: [], acceptedNames: { plural: "", kind: "" }, storedVersions: [] },
      },
    ],
  ])("%s", (_name, object) => {
    const decoded = decodeProtobuf(encodeProtobuf(object)) as JsonObject;
    // Repeated fields without items are not on the wire.
    const expected = JSON.parse(JSON.stringify(object), (key, value: Json) =>
      Array.isArray(value) && value.length === 0 && key !== "none" ? undefined : value,
    ) as JsonObject;
    expect(decoded).toEqual(expected);
  });

  test("numbers in a packed list are read like single ones", () => {
    // ContainerRestartRuleOnExitCodes.values is a list of int32: field 2
    const message = messageOf("core/v1.ContainerRestartRuleOnExitCodes")!;
    expect(message.byNumber.get(2)?.shape).toBe("list");
    const rule = [0x12, 3, 1, 42, 7];
    const single = [0x10, 1, 0x10, 42, 0x10, 7];
    const wrap = (payload: number[], ...path: number[]): number[] =>
      path.reduceRight((inner, number) => length((number << 3) | 2).concat(length(inner.length), inner), payload);
    const restartRules = messageOf("core/v1.Container")!.fields.find(
      (field) => field.name === "restartPolicyRules",
    )!.number;
    const exitCodes = messageOf("core/v1.ContainerRestartRule")!.fields.find(
      (field) => field.name === "exitCodes",
    )!.number;
    for (const payload of [rule, single]) {
      const pod = decodeProtobuf(envelope("v1", "Pod", wrap(payload, 2, 2, restartRules, exitCodes)));
      expect(pod).toMatchObject({
        spec: { containers: [{ restartPolicyRules: [{ exitCodes: { values: [1, 42, 7] } }] }] },
      });
    }
  });

  test("a kind that is not in the table is refused", () => {
    expect(() => decodeProtobuf(envelope("example.com/v1", "Foo", []))).toThrow(
      'no kind "Foo" is registered for version "example.com/v1"',
    );
  });
  test("an envelope without a kind is read as the one expected", () => {
    expect(
      decodeProtobuf(Buffer.from([0x6b, 0x38, 0x73, 0, 0x12, 2, 0x08, 5]), { apiVersion: "v1", kind: "DeleteOptions" }),
    ).toEqual({ apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 5 });
  });
  test("unknown fields of every wire type are skipped", () => {
    const unknown = [
      0xa0, 0x06, 0x96, 0x01, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 0x06, 2, 9, 9, 0xa5, 0x06, 1, 2, 3, 4,
    ];
    expect(decodeProtobuf(envelope("v1", "Namespace", [...unknown, 0x0a, 3, 0x0a, 1, 0x78, ...unknown]))).toEqual({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "x" },
    });
  });
  test("a message that comes in two parts is merged", () => {
    expect(
      decodeProtobuf(envelope("v1", "Namespace", [0x0a, 3, 0x0a, 1, 0x78, 0x0a, 3, 0x1a, 1, 0x79]))["metadata"],
    ).toEqual({ name: "x", namespace: "y" });
  });
  test("the epoch and Go's zero time are null", () => {
    const meta = (time: number[]) =>
      decodeProtobuf(envelope("v1", "Namespace", [0x0a, time.length + 2, 0x42, time.length, ...time]));
    expect(meta([])).not.toHaveProperty("metadata");
    expect(meta([0x08, 0, 0x10, 0])).not.toHaveProperty("metadata");
    expect(meta([0x08, 1])).toMatchObject({ metadata: { creationTimestamp: "1970-01-01T00:00:01Z" } });
  });
});

describe("hostile bodies", () => {
  const good = encodeProtobuf({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", labels: { a: "b" } },
    spec: { containers: [{ name: "c", image: "i" }] },
  });

  test.each<[string, Uint8Array]>([
    ["nothing", new Uint8Array()],
    ["JSON", Buffer.from("{}")],
    ["half the magic", Buffer.from("k8")],
    ["a length beyond the end", Buffer.from([0x6b, 0x38, 0x73, 0, 0x12, 0xff, 0xff, 0xff, 0x7f])],
    [
      "a length of 2^63",
      Buffer.from([0x6b, 0x38, 0x73, 0, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    ],
    ["a number that never ends", Buffer.from([0x6b, 0x38, 0x73, 0, ...new Array(20).fill(0xff)])],
    ["field number zero", Buffer.from([0x6b, 0x38, 0x73, 0, 0x00, 0x00])],
    ["a group", envelope("v1", "Pod", [0xa3, 0x06, 0xa4, 0x06])],
    ["a wrong wire type", envelope("v1", "Pod", [0x08, 1])],
    ["text that is not UTF-8", envelope("v1", "Namespace", [0x0a, 3, 0x0a, 1, 0xff])],
    [
      "a number beyond doubles",
      envelope("v1", "DeleteOptions", [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    ],
    [
      "a moment beyond the calendar",
      envelope("v1", "Namespace", [0x0a, 9, 0x42, 7, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    ],
    [
      "a map key that reaches a prototype",
      envelope("v1", "ConfigMap", [0x12, 11, 0x0a, 9, ...Buffer.from("__proto__")]),
    ],
    ["raw JSON that is none", envelope("apps/v1", "ControllerRevision", [0x12, 3, 0x0a, 1, 0x7b])],
    [
      "raw JSON with a prototype",
      envelope("apps/v1", "ControllerRevision", [0x12, 17, 0x0a, 15, ...Buffer.from('{"__proto__":1}')]),
    ],
  ])("%s", (_name, bytes) => {
    expect(() => decodeProtobuf(bytes)).toThrow(refused);
  });

  test("every beginning of a good body is refused or read, never worse", () => {
    for (let end = 0; end < good.length; end++) {
      try {
        decodeProtobuf(good.subarray(0, end));
      } catch (error) {
        expect(error).toBeInstanceOf(StatusError);
      }
    }
    expect(() => decodeProtobuf(good.subarray(0, good.length >> 1))).toThrow(/unexpected EOF/);
  });

  test("schemas inside schemas stop at the limit", () => {
    let payload: number[] = [];
    const not = [...length((28 << 3) | 2)];
    let inner = Buffer.alloc(0);
    for (let i = 0; i < 5000; i++) inner = Buffer.concat([Buffer.from([...not, ...length(inner.length)]), inner]);
    payload = [...inner];
    for (const number of [1, 4, 7, 2]) payload = [...length((number << 3) | 2), ...length(payload.length), ...payload];
    const crd = messageOf("apiextensions.k8s.io/v1.CustomResourceDefinitionVersion")!;
    expect(crd.byNumber.get(4)?.name).toBe("schema");
    expect(() => decodeProtobuf(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", payload))).toThrow(
      /max depth/,
    );
  });

  test("envelopes inside raw JSON stop at the limit", () => {
    const lead = envelope("v1", "List", []).subarray(0, -2);
    let body = envelope("v1", "List", []);
    for (let i = 0; i < 1500; i++) {
      const raw = Buffer.concat([Buffer.from([0x0a, ...length(body.length)]), body]);
      const item = Buffer.concat([Buffer.from([0x12, ...length(raw.length)]), raw]);
      body = Buffer.concat([lead, Buffer.from([0x12, ...length(item.length)]), item]);
    }
    expect(() => decodeProtobuf(body)).toThrow(/max depth/);
  });

  test("random bytes and flipped bits never do more than be refused", () => {
    const attempt = (bytes: Uint8Array) => {
      try {
        const object = decodeProtobuf(bytes);
        expect(object["kind"]).toBeTypeOf("string");
      } catch (error) {
        expect(error).toBeInstanceOf(StatusError);
        expect((error as StatusError).status.code).toBe(400);
      }
    };
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (tail) => attempt(envelope("v1", "Pod", [...tail]))),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        (changes) => {
          const bytes = Buffer.from(good);
          for (const [at, value] of changes) bytes[at] = value;
          attempt(bytes);
        },
      ),
      { numRuns: 1000 },
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("every message of the table is the same after encoding and decoding", () => {
  /** Draws from a seed: objects are large, and trees of arbitraries for them are slow. */
  type Draw = (bound: number) => number;
  function drawFrom(seed: number): Draw {
    let state = seed >>> 0;
    return (bound) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 0x1_0000_0000) * bound);
    };
  }
  const words = ["a", "web", "ü", "🚀x", "9", "a/b"];
  const pick = <T>(draw: Draw, from: readonly T[]): T => from[draw(from.length)]!;
  const iso = (draw: Draw) => new Date((1 + draw(4_000_000_000)) * 1000).toISOString().slice(0, 19);

  function scalar(field: ProtobufField, draw: Draw): Json {
    switch (field.scalar!) {
      case "string":
        return pick(draw, words);
      case "bool":
        return true;
      case "int32":
        return pick(draw, [1, -1, 127, 128, 2 ** 31 - 1, -(2 ** 31), 300]);
      case "int64":
        return pick(draw, [1, -1, 2 ** 31, 2 ** 32, -(2 ** 35), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]);
      case "double":
        return pick(draw, [0.5, -1e300, 5e-324, 3]);
      case "bytes":
        return pick(draw, ["AA==", "/w==", "aGVsbG8="]);
      case "quantity":
        return pick(draw, ["500m", "1Gi", "3"]);
      case "time":
        return `${iso(draw)}Z`;
      case "microTime":
        return `${iso(draw)}.${String(draw(1_000_000)).padStart(6, "0")}Z`;
      case "intOrString":
        return pick<Json>(draw, ["http", "50%", 80, -1]);
      case "raw":
        return pick<Json>(draw, [{ a: [1, null, "x"] }, [], "text", {}]);
      case "strings":
        return ["a", "b"];
      case "schemaOrArray":
        return pick<Json>(draw, [{ type: "string" }, [{ type: "string" }, {}]]);
      case "schemaOrBool":
        return pick<Json>(draw, [true, false, { type: "string" }]);
      case "schemaOrStrings":
        return pick<Json>(draw, [{ type: "string" }, ["a"]]);
    }
  }

  function build(message: ProtobufMessage, depth: number, draw: Draw): JsonObject {
    const object: JsonObject = {};
    for (const field of message.fields) {
      const item = () =>
        field.scalar === undefined ? build(messageOf(field.message)!, depth - 1, draw) : scalar(field, draw);
      if (field.name === ".") Object.assign(object, item());
      else if (draw(5) < 2 && (field.scalar !== undefined || depth > 0)) {
        if (field.shape === "list") object[field.name] = draw(2) === 0 ? [item()] : [item(), item()];
        else if (field.shape === "map") object[field.name] = { [pick(draw, words)]: item() };
        else object[field.name] = item();
      }
    }
    return object;
  }

  const kinds = messageNames().filter((name) => {
    const message = messageOf(name)!;
    return message.fields.some((field) => field.name === "metadata" && field.number === 1) && !name.startsWith("meta/");
  });
  test("there are many kinds", () => expect(kinds.length).toBeGreaterThan(100));

  test.each(kinds)("%s", (name) => {
    const dot = name.lastIndexOf(".");
    const apiVersion = name.slice(0, dot).replace(/^core\//, "");
    const message = messageOf(name)!;
    for (let seed = 0; seed < 20; seed++) {
      const object = {
        apiVersion,
        kind: name.slice(dot + 1),
        ...build(message, 4, drawFrom(seed * 7919 + name.length)),
      };
      expect(decodeProtobuf(encodeProtobuf(object)), `seed ${seed}`).toEqual(withZeros(object, message));
    }
  });

  /** Go writes value structs always, so what they must show appears even where the object did not have them. */
  function withZeros(object: JsonObject, message: ProtobufMessage): JsonObject {
    const result: JsonObject = { ...object };
    for (const field of message.fields) {
      const value = field.name === "." ? result : result[field.name];
      if (field.shape === "list") {
        if (field.scalar === undefined && value !== undefined)
          result[field.name] = (value as JsonObject[]).map((item) => withZeros(item, messageOf(field.message)!));
      } else if (field.shape === "map") {
        if (field.scalar === undefined && value !== undefined) {
          result[field.name] = Object.fromEntries(
            Object.entries(value as JsonObject).map(([key, item]) => [
              key,
              withZeros(item as JsonObject, messageOf(field.message)!),
            ]),
          );
        }
      } else if (field.scalar === undefined) {
        if (field.shape === "pointer" && value === undefined) continue;
        const child = withZeros((value as JsonObject | undefined) ?? {}, messageOf(field.message)!);
        if (field.name === ".") {
          for (const key of Object.keys(result)) if (!Object.hasOwn(child, key)) delete result[key];
          Object.assign(result, child);
        } else if (field.keep || field.shape === "pointer" || Object.keys(child).length > 0) result[field.name] = child;
        else delete result[field.name];
      } else if (field.shape === "value" && value === undefined) {
        if (field.scalar === "quantity") result[field.name] = "0";
        else if (field.keep) {
          const zeros: Record<string, Json> = {
            string: "",
            bool: false,
            int32: 0,
            int64: 0,
            double: 0,
            bytes: "",
            intOrString: 0,
            time: null,
            microTime: null,
            raw: null,
            strings: [],
          };
          result[field.name] = zeros[field.scalar]!;
        }
      }
    }
    return result;
  }
});

test("the message of a JSON schema refers to itself", () => {
  expect(messageOf(schemaMessage)?.byNumber.get(28)).toMatchObject({
    name: "not",
    message: schemaMessage,
    shape: "pointer",
  });
});
