import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { encodeProtobuf } from "../../src/apiserver/wire/protobufEncode.ts";
import type { JsonObject } from "../../src/model/objects/json.ts";
import { type Answer, adminToken, HttpCaller, patchTypes, tokenFile } from "../httpCaller.ts";

let server: ApiServer;
let caller: HttpCaller;
/** Errors that the server took for its own. */
const ours: unknown[] = [];

const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";
const deployments = "/apis/apps/v1/namespaces/default/deployments";
const claims = "/api/v1/namespaces/default/persistentvolumeclaims";
const victim = `${maps}/victim`;

beforeAll(async () => {
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    freeze: true,
    log: ({ error }) => ours.push(error),
  });
  caller = new HttpCaller(server.url);
  expect((await caller.post(maps, { metadata: { name: "victim" }, data: { a: "1" } })).code).toBe(201);
  expect((await caller.post(deployments, deployment("victim"))).code).toBe(201);
  expect((await caller.post(pods, pod("victim"))).code).toBe(201);
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

interface Row {
  name: string;
  method?: string;
  path?: string;
  body?: unknown;
  raw?: string | Buffer;
  headers?: Record<string, string>;
  code: number;
  reason: string;
  /** Component of the message. */
  says?: string;
}

const mebibyte = 1024 * 1024;
const yaml = { "content-type": "application/yaml" };
const protobuf = { "content-type": "application/vnd.kubernetes.protobuf" };
const badRequest = { code: 400, reason: "BadRequest" };
const invalid = { code: 422, reason: "Invalid" };
const notFound = { code: 404, reason: "NotFound" };

function patch(type: keyof typeof patchTypes): Pick<Row, "method" | "path" | "headers"> {
  return { method: "PATCH", path: victim, headers: { "content-type": patchTypes[type] } };
}

const apply = { ...patch("apply"), path: `${victim}?fieldManager=m` };

describe.each<{ about: string; rows: Row[] }>([
  {
    about: "size and shape of bodies",
    rows: [
      {
        name: "a body that declares more than 3 MiB",
        raw: Buffer.alloc(3 * mebibyte + 1, " "),
        code: 413,
        reason: "RequestEntityTooLarge",
      },
      {
        name: "a body that grows beyond 3 MiB in chunks",
        raw: Buffer.alloc(4 * mebibyte, " "),
        headers: { "transfer-encoding": "chunked" },
        code: 413,
        reason: "RequestEntityTooLarge",
      },
      { name: "no body", raw: "", ...badRequest },
      { name: "a body of blanks", raw: "  \n", ...badRequest },
      { name: "a list instead of an object", raw: "[]", ...badRequest },
      { name: "a string instead of an object", raw: '"x"', ...badRequest },
      { name: "null instead of an object", raw: "null", ...badRequest },
      { name: "a number instead of an object", raw: "5", ...badRequest },
      { name: "half an object", raw: '{"metadata":{"name":"x"', ...badRequest },
      { name: "two objects", raw: '{"metadata":{"name":"x"}}{}', ...badRequest },
      { name: "JavaScript instead of JSON", raw: "{metadata:{name:'x'}}", ...badRequest },
      { name: "a hundred thousand nested lists", raw: `{"data":${"[".repeat(100_000)}`, ...badRequest },
      {
        name: "ten thousand nested objects, all closed",
        raw: `{"metadata":{"name":"x"},"data":${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}}`,
        ...badRequest,
      },
      {
        name: "a thousand nested flow lists in YAML",
        headers: yaml,
        raw: `metadata: {name: x}\ndata: ${"[".repeat(5_000)}${"]".repeat(5_000)}`,
        ...badRequest,
      },
      { name: "invalid UTF-8", raw: Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), ...badRequest },
      {
        name: "invalid UTF-8 within a value",
        raw: Buffer.concat([
          Buffer.from('{"metadata":{"name":"x"},"data":{"a":"'),
          Buffer.from([0xc3, 0x28]),
          Buffer.from('"}}'),
        ]),
        ...badRequest,
      },
      { name: "UTF-16", raw: Buffer.from('\ufeff{"metadata":{"name":"x"}}', "utf16le"), ...badRequest },
    ],
  },
  {
    about: "compressed bodies",
    rows: [
      {
        name: "gzip that is cut short",
        headers: { "content-encoding": "gzip" },
        raw: gzipSync(JSON.stringify({ metadata: { name: "x" } })).subarray(0, 20),
        ...badRequest,
      },
      { name: "gzip that is none", headers: { "content-encoding": "gzip" }, raw: '{"metadata":{}}', ...badRequest },
      {
        name: "gzip that unpacks to 200 MiB",
        headers: { "content-encoding": "gzip" },
        raw: gzipSync(Buffer.alloc(200 * mebibyte)),
        code: 413,
        reason: "RequestEntityTooLarge",
      },
      {
        name: "an encoding that was not offered",
        headers: { "content-encoding": "br" },
        raw: "{}",
        code: 415,
        reason: "UnsupportedMediaType",
      },
    ],
  },
  {
    about: "keys that reach for prototypes",
    rows: [
      { name: "__proto__ in JSON", raw: '{"metadata":{"name":"x"},"__proto__":{"polluted":"yes"}}', ...badRequest },
      {
        name: "__proto__ in JSON, spelled with escapes",
        raw: '{"metadata":{"name":"x"},"data":{"\\u005f_proto_\\u005f":"yes"}}',
        ...badRequest,
      },
      {
        name: "__proto__ among labels",
        raw: '{"metadata":{"name":"x","labels":{"__proto__":"yes"}}}',
        ...badRequest,
      },
      {
        name: "__proto__ in YAML",
        headers: yaml,
        raw: "metadata:\n  name: x\ndata:\n  __proto__: 'yes'\n",
        ...badRequest,
      },
      {
        name: "__proto__ by a YAML merge key",
        headers: yaml,
        raw: "a: &a {__proto__: {polluted: 1}}\nmetadata:\n  name: x\n  <<: *a\n",
        ...badRequest,
      },
      {
        name: "__proto__ in protobuf",
        headers: protobuf,
        raw: encodeProtobuf({
          kind: "ConfigMap",
          apiVersion: "v1",
          metadata: { name: "x" },
          data: JSON.parse('{"__proto__":"yes"}') as JsonObject,
        }),
        ...badRequest,
      },
      { name: "__proto__ in a merge patch", ...patch("merge"), raw: '{"__proto__":{"polluted":"yes"}}', ...badRequest },
      {
        name: "__proto__ in a strategic patch",
        ...patch("strategic"),
        raw: '{"data":{"__proto__":"yes"}}',
        ...badRequest,
      },
      { name: "__proto__ in an apply", ...apply, raw: '{"data":{"__proto__":"yes"}}', ...badRequest },
      {
        name: "__proto__ in the path of a JSON patch",
        ...patch("json"),
        raw: '[{"op":"add","path":"/__proto__/polluted","value":"yes"}]',
        ...invalid,
      },
      {
        name: "constructor.prototype in the path of a JSON patch",
        ...patch("json"),
        raw: '[{"op":"add","path":"/constructor/prototype/polluted","value":"yes"}]',
        ...invalid,
      },
      {
        name: "copying from a prototype by JSON patch",
        ...patch("json"),
        raw: '[{"op":"copy","from":"/__proto__","path":"/data/x"}]',
        ...invalid,
      },
      {
        name: "a constructor that is no field, strictly",
        path: `${maps}?fieldValidation=Strict`,
        raw: '{"metadata":{"name":"x"},"constructor":{"prototype":{"polluted":"yes"}}}',
        ...badRequest,
        says: 'unknown field "constructor"',
      },
      {
        name: "a prototype that is no field, strictly",
        path: `${maps}?fieldValidation=Strict`,
        raw: '{"metadata":{"name":"x","toString":"a","prototype":1}}',
        ...badRequest,
      },
    ],
  },
  {
    about: "types that do not fit",
    rows: [
      { name: "metadata as a list", body: { metadata: [] }, ...badRequest },
      { name: "metadata as text", body: { metadata: "x" }, ...badRequest },
      { name: "a name that is a number", body: { metadata: { name: 5 } }, ...badRequest },
      { name: "a name that is a list", body: { metadata: { name: ["x"] } }, ...badRequest },
      { name: "labels that are numbers", body: { metadata: { name: "x", labels: { a: 1 } } }, ...badRequest },
      { name: "labels as a list", body: { metadata: { name: "x", labels: ["a"] } }, ...badRequest },
      { name: "data that is nested", body: { metadata: { name: "x" }, data: { a: { b: "c" } } }, ...badRequest },
      { name: "a kind that is a number", body: { kind: 5, metadata: { name: "x" } }, ...badRequest },
      { name: "another kind", body: { kind: "Pod", apiVersion: "v1", metadata: { name: "x" } }, ...badRequest },
      {
        name: "another version",
        body: { kind: "ConfigMap", apiVersion: "v2", metadata: { name: "x" } },
        ...badRequest,
      },
      {
        name: "an apiVersion with three parts",
        body: { kind: "ConfigMap", apiVersion: "a/b/c", metadata: { name: "x" } },
        ...badRequest,
      },
      {
        name: "binary data that is not base64",
        body: { metadata: { name: "x" }, binaryData: { a: "***" } },
        ...badRequest,
      },
      {
        name: "a time that is none",
        body: { metadata: { name: "x", creationTimestamp: "yesterday" } },
        ...badRequest,
      },
      {
        name: "finalizers as text",
        body: { metadata: { name: "x", finalizers: "a/b" } },
        ...badRequest,
      },
      {
        name: "containers as an object",
        path: pods,
        body: { metadata: { name: "x" }, spec: { containers: {} } },
        ...badRequest,
      },
      {
        name: "a list item that is no object",
        path: pods,
        body: { metadata: { name: "x" }, spec: { containers: ["c"] } },
        ...badRequest,
      },
      {
        name: "a flag that is text",
        path: pods,
        body: { metadata: { name: "x" }, spec: { hostNetwork: "true", containers: [] } },
        ...badRequest,
      },
      { name: "no containers", path: pods, body: { metadata: { name: "x" }, spec: {} }, ...invalid },
    ],
  },
  {
    about: "numbers and quantities",
    rows: [
      ...["1e400", "9223372036854775808", "2147483648", "-2147483649", "1.5", '"3"', "true", "0x10", "01", "NaN"].map(
        (replicas): Row => ({
          name: `${replicas} replicas`,
          path: deployments,
          raw: JSON.stringify(deployment("x")).replace('"replicas":1', `"replicas":${replicas}`),
          ...badRequest,
        }),
      ),
      { name: "-1 replicas", path: deployments, body: deployment("x", -1), ...invalid },
      ...["NaN", "Infinity", "abc", "1KiB", "1e", "--1", "+-1", "0x10", ".", "1 Gi", "1e1e1", "١"].map(
        (cpu): Row => ({ name: `${JSON.stringify(cpu)} of cpu`, path: pods, body: pod("x", cpu), ...badRequest }),
      ),
      { name: "a negative request", path: pods, body: pod("x", "-1"), ...invalid },
      { name: "a quantity that is a list", path: pods, body: pod("x", []), ...badRequest },
      { name: "a quantity that is true", path: pods, body: pod("x", true), ...badRequest },
      { name: "a volume of nothing", path: claims, body: claim("x", "0"), ...invalid },
      { name: "a volume of less than nothing", path: claims, body: claim("x", "-1Gi"), ...invalid },
    ],
  },
  {
    about: "names",
    rows: [
      ...[
        "UPPER",
        "-a",
        "a-",
        "a_b",
        "a..b",
        ".",
        "..",
        "a/b",
        "a%2fb",
        "ä",
        "a b",
        "a\u0000b",
        "a\nb",
        "x".repeat(254),
        "%",
        "constructor ",
      ].map(
        (name): Row => ({
          name: `a name ${JSON.stringify(name.slice(0, 20))}`,
          body: { metadata: { name } },
          ...invalid,
        }),
      ),
      { name: "no name", body: { metadata: {} }, ...invalid },
      { name: "no metadata", body: {}, ...invalid },
      { name: "a prefix that cannot begin a name", body: { metadata: { generateName: "_-" } }, ...invalid },
      { name: "a label key that is none", body: { metadata: { name: "x", labels: { "a/b/c": "" } } }, ...invalid },
      { name: "a label value that is none", body: { metadata: { name: "x", labels: { a: "b c" } } }, ...invalid },
      {
        name: "annotations beyond 256 KiB",
        body: { metadata: { name: "x", annotations: { a: "y".repeat(262_145) } } },
        ...invalid,
      },
      { name: "data beyond 1 MiB", body: { metadata: { name: "x" }, data: { a: "y".repeat(1_048_577) } }, ...invalid },
      { name: "a data key that is a path", body: { metadata: { name: "x" }, data: { "../etc": "" } }, ...invalid },
      { name: "a finalizer without a domain", body: { metadata: { name: "x", finalizers: ["nope"] } }, ...invalid },
      {
        name: "an owner without a uid",
        body: { metadata: { name: "x", ownerReferences: [{ kind: "Pod", apiVersion: "v1", name: "p" }] } },
        ...invalid,
      },
      { name: "another namespace", body: { metadata: { name: "x", namespace: "kube-system" } }, ...badRequest },
      {
        name: "a namespace that does not exist",
        path: "/api/v1/namespaces/nowhere/configmaps",
        body: { metadata: { name: "x" } },
        ...notFound,
      },
      {
        name: "another name in a PUT",
        method: "PUT",
        path: victim,
        body: { metadata: { name: "other" } },
        ...badRequest,
      },
      { name: "no name in a PUT", method: "PUT", path: victim, body: { data: {} }, ...badRequest },
      {
        name: "a revision that is no number in a PUT",
        method: "PUT",
        path: victim,
        body: { metadata: { name: "victim", resourceVersion: "abc" } },
        ...invalid,
      },
      {
        name: "another uid in a PUT",
        method: "PUT",
        path: victim,
        body: { metadata: { name: "victim", uid: "nope" } },
        code: 409,
        reason: "Conflict",
      },
      {
        name: "a revision on a new object",
        body: { metadata: { name: "x", resourceVersion: "5" } },
        code: 500,
        reason: "InternalError",
        says: "resourceVersion should not be set",
      },
    ],
  },
  {
    about: "duplicates and unknown fields, strictly",
    rows: [
      {
        name: "a key that is given twice",
        path: `${maps}?fieldValidation=Strict`,
        raw: '{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}',
        ...badRequest,
        says: 'duplicate field "data.a"',
      },
      {
        name: "a key that is given twice in YAML",
        path: `${maps}?fieldValidation=Strict`,
        headers: yaml,
        raw: "metadata: {name: x}\ndata:\n  a: b\n  a: c\n",
        ...badRequest,
      },
      {
        name: "an unknown field",
        path: `${maps}?fieldValidation=Strict`,
        body: { metadata: { name: "x" }, dada: {} },
        ...badRequest,
        says: 'unknown field "dada"',
      },
    ],
  },
  {
    about: "YAML",
    rows: [
      { name: "a tab as indentation", headers: yaml, raw: "metadata:\n\tname: x\n", ...badRequest },
      { name: "an anchor that multiplies", headers: yaml, raw: billionLaughs(), ...badRequest },
      { name: "an alias to itself", headers: yaml, raw: "metadata: &a\n  name: x\n  labels: *a\n", ...badRequest },
      { name: "an alias to nothing", headers: yaml, raw: "metadata: *a\n", ...badRequest },
      { name: "a tag that asks for code", headers: yaml, raw: "metadata: !!js/function 'x'\n", ...badRequest },
      { name: "two documents", headers: yaml, raw: "metadata: {name: x}\n---\nmetadata: {name: y}\n", ...badRequest },
      { name: "text", headers: yaml, raw: "just words", ...badRequest },
      { name: "an unclosed bracket", headers: yaml, raw: "metadata: {name: x\n", ...badRequest },
    ],
  },
  {
    about: "patches",
    rows: [
      {
        name: "an unknown type",
        ...patch("merge"),
        headers: { "content-type": "application/json" },
        raw: "{}",
        code: 415,
        reason: "UnsupportedMediaType",
      },
      {
        name: "no type",
        ...patch("merge"),
        headers: { "content-type": "" },
        raw: "{}",
        code: 415,
        reason: "UnsupportedMediaType",
      },
      { name: "a JSON patch that is an object", ...patch("json"), raw: "{}", ...badRequest },
      { name: "a JSON patch of words", ...patch("json"), raw: '["add"]', ...badRequest },
      { name: "an unknown operation", ...patch("json"), raw: '[{"op":"frob","path":"/data"}]', ...invalid },
      { name: "an operation without a path", ...patch("json"), raw: '[{"op":"remove"}]', ...invalid },
      { name: "a path that is no pointer", ...patch("json"), raw: '[{"op":"remove","path":"data"}]', ...invalid },
      {
        name: "a removal of what is not there",
        ...patch("json"),
        raw: '[{"op":"remove","path":"/data/zz"}]',
        ...invalid,
      },
      { name: "a test that fails", ...patch("json"), raw: '[{"op":"test","path":"/data/a","value":"9"}]', ...invalid },
      {
        name: "an index beyond the end",
        method: "PATCH",
        path: `${pods}/victim`,
        headers: { "content-type": patchTypes.json },
        raw: '[{"op":"add","path":"/spec/containers/99999999","value":{}}]',
        ...invalid,
      },
      {
        name: "an index that is a word",
        method: "PATCH",
        path: `${pods}/victim`,
        headers: { "content-type": patchTypes.json },
        raw: '[{"op":"add","path":"/spec/containers/length","value":0}]',
        ...invalid,
      },
      {
        name: "copies that double thirty times",
        ...patch("json"),
        raw: JSON.stringify([
          { op: "add", path: "/data", value: { a: "x".repeat(1000) } },
          ...Array.from({ length: 30 }, (_, at) => ({ op: "copy", from: "/data", path: `/data/k${at}` })),
        ]),
        code: 413,
        reason: "RequestEntityTooLarge",
      },
      {
        name: "more than ten thousand operations",
        ...patch("json"),
        raw: JSON.stringify(Array.from({ length: 10_001 }, () => ({ op: "test", path: "/data/a", value: "1" }))),
        code: 413,
        reason: "RequestEntityTooLarge",
      },
      { name: "removal of the whole object", ...patch("json"), raw: '[{"op":"remove","path":""}]', ...invalid },
      {
        name: "replacement of the object by a list",
        ...patch("json"),
        raw: '[{"op":"replace","path":"","value":[]}]',
        ...invalid,
      },
      { name: "a merge patch that is a list", ...patch("merge"), raw: "[]", ...badRequest },
      { name: "a merge patch that is null", ...patch("merge"), raw: "null", ...badRequest },
      { name: "a merge patch that is cut short", ...patch("merge"), raw: '{"data":', ...badRequest },
      { name: "a merge patch of a wrong type", ...patch("merge"), raw: '{"data":{"a":5}}', ...invalid },
      { name: "a merge patch that renames", ...patch("merge"), raw: '{"metadata":{"name":"b"}}', ...badRequest },
      { name: "a merge patch that removes the metadata", ...patch("merge"), raw: '{"metadata":null}', ...badRequest },
      { name: "a merge patch that changes the kind", ...patch("merge"), raw: '{"kind":"Secret"}', ...invalid },
      { name: "a strategic patch that is a list", ...patch("strategic"), raw: "[]", ...badRequest },
      {
        name: "a strategic patch with an unknown directive",
        ...patch("strategic"),
        raw: '{"data":{"$patch":"frob"}}',
        ...badRequest,
      },
      {
        name: "a strategic patch whose list item has no key",
        method: "PATCH",
        path: `${pods}/victim`,
        headers: { "content-type": patchTypes.strategic },
        raw: '{"spec":{"containers":[{"image":"x"}]}}',
        ...badRequest,
      },
      { name: "an apply that is a list", ...apply, raw: "[]", ...badRequest },
      { name: "an apply without a manager", ...patch("apply"), raw: "{}", ...invalid },
      {
        name: "an apply that brings managedFields",
        ...apply,
        raw: JSON.stringify({
          kind: "ConfigMap",
          apiVersion: "v1",
          metadata: { name: "victim", managedFields: [{ manager: "x" }] },
        }),
        ...badRequest,
      },
      { name: "force on a merge patch", ...patch("merge"), path: `${victim}?force=true`, raw: "{}", ...invalid },
      { name: "a patch of what is not there", ...patch("merge"), path: `${maps}/nobody`, raw: "{}", ...notFound },
      { name: "an empty patch body", ...patch("merge"), raw: "", ...badRequest },
    ],
  },
  {
    about: "selectors",
    rows: [
      ...[
        "a in (",
        "a in b",
        "=b",
        "a=b=c",
        "a,,b",
        "!",
        "a notin ()b",
        "a>b",
        "a/b/c=1",
        "a=b c",
        "(",
        "a in (x) y",
      ].map(
        (selector): Row => ({
          name: `labelSelector=${selector}`,
          method: "GET",
          path: `${maps}?labelSelector=${encodeURIComponent(selector)}`,
          ...badRequest,
        }),
      ),
      ...["a", "metadata.name", "metadata.name>x", "spec.nope=1", "a=b\\c"].map(
        (selector): Row => ({
          name: `fieldSelector=${selector}`,
          method: "GET",
          path: `${pods}?fieldSelector=${encodeURIComponent(selector)}`,
          ...badRequest,
        }),
      ),
      {
        name: "a watch with a bad label selector",
        method: "GET",
        path: `${maps}?watch=1&labelSelector=(`,
        ...badRequest,
      },
      {
        name: "a watch with a bad field selector",
        method: "GET",
        path: `${maps}?watch=1&fieldSelector=x`,
        ...badRequest,
      },
      {
        name: "deleting a collection by a bad selector",
        method: "DELETE",
        path: `${maps}?labelSelector=(`,
        ...badRequest,
      },
    ],
  },
  {
    about: "queries",
    rows: [
      ...["limit=x", "limit=1.5", "limit=99999999999999999999", "continue=%%%", "continue=abc"].map(
        (query): Row => ({ name: query, method: "GET", path: `${maps}?${query}`, ...badRequest }),
      ),
      ...[{ rv: 1e15 }, { rv: 0 }, { rv: "1" }, { rv: 1, start: 5 }, { rv: 1, start: "" }, { v: "v9", rv: 1 }].map(
        (token): Row => ({
          name: `a forged continue token ${JSON.stringify(token)}`,
          method: "GET",
          path: `${maps}?limit=1&continue=${continueToken(token)}`,
          ...badRequest,
        }),
      ),
      { name: "a revision that is a word", method: "GET", path: `${maps}?resourceVersion=x`, ...badRequest },
      { name: "a negative revision", method: "GET", path: `${maps}?resourceVersion=-1`, ...badRequest },
      {
        name: "a revision of a hundred digits",
        method: "GET",
        path: `${maps}?resourceVersion=${"9".repeat(100)}`,
        ...badRequest,
      },
      { name: "a get at a revision that is a word", method: "GET", path: `${victim}?resourceVersion=x`, ...badRequest },
      { name: "a match without a revision", method: "GET", path: `${maps}?resourceVersionMatch=Exact`, ...invalid },
      {
        name: "an unknown match",
        method: "GET",
        path: `${maps}?resourceVersion=1&resourceVersionMatch=Foo`,
        ...invalid,
      },
      { name: "initial events on a list", method: "GET", path: `${maps}?sendInitialEvents=true`, ...invalid },
      {
        name: "initial events without a match",
        method: "GET",
        path: `${maps}?watch=1&sendInitialEvents=true`,
        ...invalid,
      },
      {
        name: "a watch with a timeout that is a word",
        method: "GET",
        path: `${maps}?watch=1&timeoutSeconds=x`,
        ...badRequest,
      },
      { name: "dryRun=Some", path: `${maps}?dryRun=Some`, body: { metadata: { name: "x" } }, ...invalid },
      {
        name: "fieldValidation=Maybe",
        path: `${maps}?fieldValidation=Maybe`,
        body: { metadata: { name: "x" } },
        ...invalid,
      },
      {
        name: "a manager with a line break",
        path: `${maps}?fieldManager=a%0ab`,
        body: { metadata: { name: "x" } },
        ...invalid,
      },
      {
        name: "a manager of 129 characters",
        path: `${maps}?fieldManager=${"m".repeat(129)}`,
        body: { metadata: { name: "x" } },
        ...invalid,
      },
      { name: "a grace that is a word", method: "DELETE", path: `${victim}?gracePeriodSeconds=x`, ...badRequest },
      { name: "an unknown policy", method: "DELETE", path: `${victim}?propagationPolicy=Maybe`, ...invalid },
    ],
  },
  {
    about: "options of a delete",
    rows: [
      { name: "a list", method: "DELETE", path: victim, raw: "[]", ...badRequest },
      { name: "another kind", method: "DELETE", path: victim, body: { kind: "Pod", apiVersion: "v1" }, ...badRequest },
      {
        name: "a grace that is text",
        method: "DELETE",
        path: victim,
        body: { gracePeriodSeconds: "0" },
        ...badRequest,
      },
      {
        name: "a grace that is a fraction",
        method: "DELETE",
        path: victim,
        body: { gracePeriodSeconds: 0.5 },
        ...badRequest,
      },
      {
        name: "a policy that is a number",
        method: "DELETE",
        path: victim,
        body: { propagationPolicy: 5 },
        ...badRequest,
      },
      {
        name: "preconditions that are text",
        method: "DELETE",
        path: victim,
        body: { preconditions: "x" },
        ...badRequest,
      },
      {
        name: "a uid that is a number",
        method: "DELETE",
        path: victim,
        body: { preconditions: { uid: 5 } },
        ...badRequest,
      },
      {
        name: "another uid",
        method: "DELETE",
        path: victim,
        body: { preconditions: { uid: "x" } },
        code: 409,
        reason: "Conflict",
      },
      { name: "an unknown dry run", method: "DELETE", path: victim, body: { dryRun: ["Some"] }, ...invalid },
      { name: "a dry run that is text", method: "DELETE", path: victim, body: { dryRun: "All" }, ...badRequest },
      {
        name: "two policies",
        method: "DELETE",
        path: victim,
        body: { orphanDependents: true, propagationPolicy: "Orphan" },
        ...invalid,
      },
      { name: "half a body", method: "DELETE", path: victim, raw: '{"preconditions":', ...badRequest },
    ],
  },
  {
    about: "paths and methods",
    rows: [
      { name: "steps upwards", method: "GET", path: "/api/v1/namespaces/default/configmaps/../secrets", ...notFound },
      {
        name: "steps upwards, encoded",
        method: "GET",
        path: `${maps}/..%2f..%2fkube-system%2fconfigmaps`,
        ...notFound,
      },
      { name: "a slash within a name", method: "GET", path: `${maps}/a%2fb`, ...notFound },
      { name: "a NUL within a name", method: "GET", path: `${maps}/victim%00`, ...notFound },
      {
        name: "a separator of our keys within a name",
        method: "GET",
        path: "/api/v1/namespaces/default%2fvictim",
        ...notFound,
      },
      { name: "an encoding that is cut short", method: "GET", path: `${maps}/%e0%a`, ...notFound },
      { name: "an encoding that is not UTF-8", method: "GET", path: `${maps}/%ff`, ...notFound },
      { name: "a prototype as a resource", method: "GET", path: "/api/v1/__proto__", ...notFound },
      { name: "a constructor as a resource", method: "GET", path: "/api/v1/constructor", ...notFound },
      { name: "a prototype as a group", method: "GET", path: "/apis/__proto__/v1/pods", ...notFound },
      { name: "a prototype as a name", method: "GET", path: `${maps}/__proto__`, ...notFound },
      {
        name: "a prototype as a namespace",
        method: "GET",
        path: "/api/v1/namespaces/__proto__/configmaps/a",
        ...notFound,
      },
      { name: "a prototype as a subresource", method: "GET", path: `${victim}/__proto__`, ...notFound },
      { name: "a version that is not served", method: "GET", path: "/api/v9/pods", ...notFound },
      { name: "a group that is not served", method: "GET", path: "/apis/nope.io/v1/pods", ...notFound },
      { name: "a subresource that is not served", method: "GET", path: `${victim}/nope`, ...notFound },
      {
        name: "a namespaced write without a namespace",
        path: "/api/v1/configmaps",
        body: { metadata: { name: "x" } },
        code: 405,
        reason: "MethodNotAllowed",
      },
      {
        name: "a cluster object in a namespace",
        method: "GET",
        path: "/api/v1/namespaces/default/nodes/x",
        ...notFound,
      },
      { name: "a version that nothing serves", method: "GET", path: "/api/v9", ...notFound },
      { name: "a path of 5000 steps", method: "GET", path: `/api/v1${"/a".repeat(5000)}`, ...notFound },
      { name: "POST to an object", method: "POST", path: victim, body: {}, code: 405, reason: "MethodNotAllowed" },
      { name: "PUT to a collection", method: "PUT", path: maps, body: {}, code: 405, reason: "MethodNotAllowed" },
      { name: "PATCH of a collection", method: "PATCH", path: maps, body: {}, code: 405, reason: "MethodNotAllowed" },
      { name: "PURGE", method: "PURGE", path: victim, code: 405, reason: "MethodNotAllowed" },
      { name: "OPTIONS", method: "OPTIONS", path: victim, code: 405, reason: "MethodNotAllowed" },
      { name: "DELETE of discovery", method: "DELETE", path: "/api/v1", code: 405, reason: "MethodNotAllowed" },
      {
        name: "GET of a review",
        method: "GET",
        path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        code: 405,
        reason: "MethodNotAllowed",
      },
    ],
  },
  {
    about: "media types and credentials",
    rows: [
      {
        name: "a body of plain text",
        headers: { "content-type": "text/plain" },
        raw: "{}",
        code: 415,
        reason: "UnsupportedMediaType",
      },
      {
        name: "a form",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        raw: "a=b",
        code: 415,
        reason: "UnsupportedMediaType",
      },
      {
        name: "an answer that is not available",
        method: "GET",
        path: victim,
        headers: { accept: "image/png" },
        code: 406,
        reason: "NotAcceptable",
      },
      { name: "protobuf without its mark", headers: protobuf, raw: Buffer.from([1, 2, 3, 4, 5]), ...badRequest },
      {
        name: "protobuf that is cut short",
        headers: protobuf,
        raw: Buffer.from([0x6b, 0x38, 0x73, 0, 0x0a, 0x7f]),
        ...badRequest,
      },
      {
        name: "protobuf with a field of 2^63 bytes",
        headers: protobuf,
        raw: Buffer.from([0x6b, 0x38, 0x73, 0, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ...badRequest,
      },
      {
        name: "no credentials",
        method: "GET",
        path: victim,
        headers: { authorization: "" },
        code: 403,
        reason: "Forbidden",
      },
      {
        name: "a wrong token",
        method: "GET",
        path: victim,
        headers: { authorization: "Bearer nope" },
        code: 401,
        reason: "Unauthorized",
      },
      {
        name: "half a JWT",
        method: "GET",
        path: victim,
        headers: { authorization: "Bearer a.b.c" },
        code: 401,
        reason: "Unauthorized",
      },
      {
        name: "another scheme",
        method: "GET",
        path: victim,
        headers: { authorization: "Basic YTpi" },
        code: 403,
        reason: "Forbidden",
      },
    ],
  },
])("$about", ({ rows }) => {
  test.each(rows)("$name: $code $reason, and nothing is written", async (row) => {
    const before = server.core.store.revision;
    const answer = await caller.call(row.method ?? "POST", row.path ?? maps, row.body, {
      ...(row.raw === undefined ? {} : { raw: row.raw }),
      ...(row.headers === undefined ? {} : { headers: row.headers }),
    });
    expectRefusal(answer, row);
    expect(server.core.store.revision).toBe(before);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(ours).toEqual([]);
  });
});

function expectRefusal({ code, json, text, headers }: Answer, row: Row): void {
  expect({ code, reason: json?.reason, text }).toMatchObject({ code: row.code, reason: row.reason });
  expect(json).toMatchObject({ kind: "Status", apiVersion: "v1", status: "Failure", code: row.code });
  expect(typeof json.message).toBe("string");
  expect(headers["content-type"]).toBe("application/json");
  if (row.says !== undefined) expect(json.message).toContain(row.says);
}

describe("broken HTTP", () => {
  const head = `POST ${maps} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: application/json\r\n`;
  test.each([
    { name: "no HTTP at all", bytes: "hello\r\n\r\n" },
    { name: "an unknown version", bytes: "GET / HTTP/9.9\r\n\r\n" },
    { name: "an unknown method", bytes: "FROB / HTTP/1.1\r\nhost: x\r\n\r\n" },
    { name: "a header without a name", bytes: "GET / HTTP/1.1\r\n: x\r\n\r\n" },
    { name: "a header with a NUL", bytes: "GET / HTTP/1.1\r\nhost: a\u0000b\r\n\r\n" },
    { name: "two lengths", bytes: `${head}content-length: 2\r\ncontent-length: 3\r\n\r\n{}` },
    { name: "a length and chunks", bytes: `${head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n` },
    { name: "a negative length", bytes: `${head}content-length: -5\r\n\r\n{}` },
    { name: "a length that is a word", bytes: `${head}content-length: x\r\n\r\n{}` },
    { name: "a chunk of unknown length", bytes: `${head}transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n` },
    { name: "a hundred kilobytes of headers", bytes: `GET / HTTP/1.1\r\nx: ${"y".repeat(100_000)}\r\n\r\n` },
    { name: "a TLS greeting", bytes: Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]) },
  ])("$name is refused, the connection closed, and nothing written", async ({ bytes }) => {
    const before = server.core.store.revision;
    const answer = await exchange(bytes);
    expect(answer).toMatch(/^HTTP\/1\.1 4[0-9]{2} /);
    await expectWell(before);
  });

  test.each([
    { name: "a request that ends within its headers", bytes: head },
    {
      name: "a body that ends before its length",
      bytes: `${head}content-length: 1000\r\n\r\n{"metadata":{"name":"x"}}`,
    },
    { name: "a chunked body without its end", bytes: `${head}transfer-encoding: chunked\r\n\r\n5\r\n{"met\r\n` },
  ])("$name and is abandoned writes nothing", async ({ bytes }) => {
    const before = server.core.store.revision;
    await abandon(bytes);
    await expectWell(before);
  });

  test("a hundred clients that vanish in the middle of their bodies leave no trace", async () => {
    const before = server.core.store.revision;
    await Promise.all(Array.from({ length: 100 }, () => abandon(`${head}content-length: 3000000\r\n\r\n{"data":"`)));
    await expectWell(before);
  });

  test("a client that vanishes after a whole body has its write, and the server continues", async () => {
    const body = JSON.stringify({ metadata: { name: "orphan" } });
    await abandon(`${head}content-length: ${body.length}\r\n\r\n${body}`);
    const answer = await caller.get("/readyz");
    expect(answer.code).toBe(200);
    expect(ours).toEqual([]);
  });

  async function expectWell(before: number): Promise<void> {
    expect((await caller.get("/readyz")).text).toBe("ok");
    expect(server.core.store.revision).toBe(before);
    expect(ours).toEqual([]);
  }
});

test("what was accepted in spite of an odd spelling is warned about", async () => {
  const twice = await caller.call("POST", maps, undefined, {
    raw: '{"metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}',
  });
  expect(twice.code).toBe(201);
  expect(twice.json["data"]).toEqual({ a: "2" });
  expect(twice.headers["warning"]).toContain('duplicate field \\"data.a\\"');
  const constructed = await caller.post(maps, {
    metadata: { name: "odd" },
    data: { constructor: "a", prototype: "b", toString: "c" },
  });
  expect(constructed.code).toBe(201);
  expect(constructed.json["data"]).toEqual({ constructor: "a", prototype: "b", toString: "c" });
});

test("a grace longer than the calendar ends with the calendar", async () => {
  const spec = {
    nodeName: "n",
    terminationGracePeriodSeconds: 9_007_199_254_740_991,
    containers: [{ name: "c", image: "i" }],
  };
  expect((await caller.post(pods, { metadata: { name: "eternal" }, spec })).code).toBe(201);
  const marked = await caller.delete(`${pods}/eternal`);
  expect({ code: marked.code, text: marked.text }).toMatchObject({ code: 200 });
  expect(marked.json.metadata["deletionTimestamp"]).toBe("9999-12-31T23:59:59Z");
  expect((await caller.delete(`${pods}/eternal`, { gracePeriodSeconds: 0 })).code).toBe(200);
  expect((await caller.get(`${pods}/eternal`)).code).toBe(404);
});

/** Sends bytes and reads until the server closes. */
function exchange(bytes: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => (error.code === "ECONNRESET" ? resolve(text) : reject(error)));
    socket.on("close", () => resolve(text));
  });
}

/** Sends bytes and breaks the connection as soon as they are out. */
function abandon(bytes: string): Promise<void> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes, () => socket.resetAndDestroy()));
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
}

function continueToken(fields: object): string {
  return Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", start: "default/a\u0000", ...fields })).toString(
    "base64url",
  );
}

function billionLaughs(): string {
  const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"];
  for (let at = 1; at < 9; at++)
    lines.push(
      `a${at}: &a${at} [${Array(9)
        .fill(`*a${at - 1}`)
        .join(", ")}]`,
    );
  return `${lines.join("\n")}\nmetadata: {name: x}\n`;
}

function deployment(name: string, replicas = 1): object {
  return {
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: { a: "b" } },
      template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
    },
  };
}

function pod(name: string, cpu: unknown = "1"): object {
  return { metadata: { name }, spec: { containers: [{ name: "c", image: "i", resources: { requests: { cpu } } }] } };
}

function claim(name: string, storage: string): object {
  return { metadata: { name }, spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } } };
}
