/** CustomResourceDefinitions that are right and wrong, and objects of those that are right. */
import type { Loose } from "../apiUnderTest.ts";
import { accepts, namespace, type Probe, patchTypes } from "../probe.ts";

const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const text = { type: "string" };
const integer = { type: "integer" };
const object = (properties: object, more: object = {}) => ({ type: "object", properties, ...more });
const list = (items: object, more: object = {}) => ({ type: "array", items, ...more });
const rule = (expression: string, more: object = {}) => ({
  "x-kubernetes-validations": [{ rule: expression, ...more }],
});

function definition(singular: string, properties: object, more: { version?: object; spec?: object } = {}): Loose {
  const kind = `${singular[0]?.toUpperCase()}${singular.slice(1)}`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${singular}s.probe.example.com` },
    spec: {
      group: "probe.example.com",
      scope: "Namespaced",
      names: { plural: `${singular}s`, singular, kind, listKind: `${kind}List` },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties } },
          ...more.version,
        },
      ],
      ...more.spec,
    },
  };
}

const wrongSchemas: Record<string, Loose> = {
  "no type": { properties: { a: text } },
  "unknown type": { type: "nope" },
  "array without items": { type: "array" },
  "default of a wrong type": { type: "string", default: 5 },
  "default not pruned": object({ a: text }, { default: { zz: 1 } }),
  "default not in enum": { type: "string", enum: ["a"], default: "b" },
  "properties and additionalProperties": object({ a: text }, { additionalProperties: text }),
  uniqueItems: list(text, { uniqueItems: true }),
  $ref: { $ref: "#/x" },
  "map without keys": list(object({ a: text }), { "x-kubernetes-list-type": "map" }),
  "map keys not required": list(object({ a: text }), {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a"],
  }),
  "set of objects": list(object({ a: text }), { "x-kubernetes-list-type": "set" }),
  "bad list type": list(text, { "x-kubernetes-list-type": "zz" }),
  "list type of a string": { type: "string", "x-kubernetes-list-type": "atomic" },
  "bad pattern": { type: "string", pattern: "(" },
  lookahead: { type: "string", pattern: "(?!a)" },
  "type in anyOf": { type: "string", anyOf: [{ type: "string" }] },
  "int-or-string with type": { type: "string", "x-kubernetes-int-or-string": true },
  "embedded without fields": { type: "object", "x-kubernetes-embedded-resource": true },
  "unknown schema field": { type: "string", zz: 1 },
  "negative maxLength": { type: "string", maxLength: -1 },
  "required not declared": object({}, { required: ["zz"] }),
  "empty enum": { type: "string", enum: [] },
  "unknown format": { type: "string", format: "zz" },
};
const celRules = [
  "self.a +",
  "self.zz > 1",
  "self.a",
  "self.a == 'x'",
  "",
  "foo(self.a)",
  "self.l.all(x)",
  "self.s.matches('(')",
  "self.a >= oldSelf.a",
  "duration('x') > duration('1s')",
  "timestamp('x') == timestamp('2020-01-01T00:00:00Z')",
  "has(self.a)",
  "self.l[0] == 'a'",
  "authorizer.check('x')",
  "math.abs(self.a) > 1",
  "sets.contains(self.l, ['a'])",
  "url(self.s).getHost() == 'a'",
  "url('::') == url('a')",
  "ip(self.s).family() == 4",
  "ip('x').family() == 4",
  "cidr(self.s).prefixLength() == 4",
  "!format.dns1123Label().validate(self.s).hasValue()",
  "semver(self.s).major() > 1",
  "self.?a.orValue(1) > 0",
  "self.l.all(i, x, i > 0)",
  "lists.range(3).size() == 3",
  "self.l.join(',') == 'a'",
  "self.li.sum() > 1",
  "self.li.isSorted()",
  "self.s.findAll('a').size() > 1",
  "self.s.reverse() == 'a'",
  "self.s.lowerAscii() == 'a'",
  "self.s.replace('a', 'b') == 'x'",
  "self.s.split(',').size() == 1",
  "timestamp(self.s).getFullYear() > 1",
  "bytes(self.s).size() > 1",
  "dyn(self.a) == 'x'",
  "{'a': 1}.size() == self.a",
  "self.l.all(x, self.l.all(y, self.l.all(z, x != y && y != z)))",
  "self.objs.all(x, self.objs.exists_one(y, x.n == y.n))",
  "self.l.all(x, x.matches('a+b+c+'))",
  "self.big.contains(self.s)",
  "self.small.all(x, self.small.exists(y, x == y))",
  "self.small.all(x, self.small.exists_one(y, x == y))",
  "self.s == self.big",
  "self.l == self.l",
  "self.objs.map(x, x.n) == ['a']",
  "self.l.filter(x, x == 'a').size() > 0",
  "quantity(self.s).isGreaterThan(quantity('1'))",
  "quantity('x') == quantity('1')",
  "cel.bind(x, self.a, x > 1)",
  "self.small.sortBy(x, x).size() > 0",
  "type(self.a) == int",
  "string(self.a) == self.s",
  "self.s.startsWith('a') || self.s.endsWith('b')",
];
const ruleOptions: Record<string, Loose> = {
  "message with a line break": { message: "a\nb" },
  "blank message": { message: "  " },
  "bad reason": { reason: "Nope" },
  "bad fieldPath": { fieldPath: ".zz" },
  "fieldPath without a dot": { fieldPath: "a" },
  "fieldPath into a list": { fieldPath: ".l[0]" },
  "messageExpression of a wrong type": { messageExpression: "1" },
  "messageExpression that does not parse": { messageExpression: "'a' +" },
  messageExpression: { messageExpression: "'bad a ' + string(self.a)" },
  "expensive messageExpression": { messageExpression: "self.l.map(x, x).join(',')" },
  "optionalOldSelf unused": { optionalOldSelf: true },
  "long message": { message: "x".repeat(3000) },
};

export async function definitions(probe: Probe): Promise<void> {
  const create = (what: string, body: Loose) =>
    probe.compare(what, "POST", `${path}?dryRun=All`, body, { ignore: /^\.status|metadata\.generation/ });
  for (const [what, schema] of Object.entries(wrongSchemas)) await create(what, definition("bad", { spec: schema }));
  const fields = {
    a: integer,
    s: text,
    big: text,
    l: list(text),
    li: list(integer),
    objs: list(object({ n: text })),
    small: list({ type: "string", maxLength: 5 }, { maxItems: 5 }),
  };
  for (const expression of celRules)
    await create(`rule ${expression}`, definition("bad", { spec: object(fields, rule(expression)) }));
  for (const [what, more] of Object.entries(ruleOptions))
    await create(what, definition("bad", { spec: object(fields, rule("self.a > 1", more)) }));
  const bounded = list(
    { type: "string", maxLength: 10 },
    { maxItems: 5, ...rule("self.all(x, x != 'no')", { messageExpression: "'bad list of ' + string(size(self))" }) },
  );
  await create("messageExpression of a bounded list", definition("bad", { l: bounded }));
  const specs: Record<string, Loose> = {
    "no versions": { versions: [] },
    "bad scope": { scope: "zz" },
    "bad group": { group: "A" },
    "no names": { names: {} },
    "webhook without a client": { conversion: { strategy: "Webhook" } },
    preserveUnknownFields: { preserveUnknownFields: true },
  };
  for (const [what, spec] of Object.entries(specs)) await create(what, definition("bad", {}, { spec }));
  const versions: Record<string, Loose> = {
    "scale without status": {
      subresources: { scale: { specReplicasPath: ".spec.r", statusReplicasPath: ".status.r" } },
    },
    "scale path with an index": {
      subresources: { scale: { specReplicasPath: ".spec.r[0]", statusReplicasPath: ".status.r" } },
    },
    "column without a path": { additionalPrinterColumns: [{ name: "a", type: "string" }] },
    "column of an unknown type": { additionalPrinterColumns: [{ name: "a", type: "zz", jsonPath: ".a" }] },
    "selectable field that is missing": { selectableFields: [{ jsonPath: ".spec.none" }] },
  };
  for (const [what, version] of Object.entries(versions))
    await create(what, definition("bad", { spec: object({ r: integer }) }, { version }));
}

const right: Record<string, { body: Loose; objects: Loose[] }> = {
  plain: {
    body: definition("plain", {
      spec: object(
        {
          s: text,
          i: integer,
          b: { type: "boolean" },
          n: { type: "number" },
          l: list(text),
          m: { type: "object", additionalProperties: text },
        },
        { required: ["s"] },
      ),
    }),
    objects: [
      { spec: { s: "x" } },
      { spec: { s: 1 } },
      { spec: {} },
      {},
      { spec: null },
      { spec: { s: "x", i: 1.5 } },
      { spec: { s: "x", i: "1" } },
      { spec: { s: "x", b: "true" } },
      { spec: { s: "x", l: [1, "a"] } },
      { spec: { s: "x", m: { a: 1 } } },
      { spec: { s: "x", zz: 1 }, yy: 2 },
      { spec: [] },
    ],
  },
  limited: {
    body: definition("limited", {
      spec: object({
        s: { type: "string", minLength: 2, maxLength: 4, pattern: "^[a-z]+$" },
        e: { type: "string", enum: ["a", "b"] },
        i: { type: "integer", minimum: 1, maximum: 5, multipleOf: 2 },
        l: list(text, { minItems: 1, maxItems: 2 }),
        f: { type: "string", format: "date-time" },
        d: { type: "string", format: "duration" },
        ip: { type: "string", format: "ipv4" },
        h: { type: "string", format: "hostname" },
        i32: { type: "integer", format: "int32" },
        u: { type: "string", format: "uri" },
        by: { type: "string", format: "byte" },
      }),
    }),
    objects: [
      { s: "a" },
      { s: "abcde" },
      { s: "AB" },
      { e: "c" },
      { i: 0 },
      { i: 3 },
      { i: 6 },
      { l: [] },
      { l: ["a", "b", "c"] },
      { f: "x" },
      { f: "2026-01-01T00:00:00Z" },
      { d: "x" },
      { d: "1h" },
      { ip: "x" },
      { h: "_x" },
      { i32: 3000000000 },
      { u: "x" },
      { by: "!!" },
    ].map((spec) => ({ spec })),
  },
  defaulted: {
    body: definition("defaulted", {
      spec: object(
        {
          a: { type: "string", default: "x" },
          b: object({ c: { type: "integer", default: 3 } }, { default: {} }),
          n: { type: "string", nullable: true, default: "nn" },
          e: { type: "string", nullable: true, enum: ["a", null] },
        },
        { default: {} },
      ),
    }),
    objects: [
      {},
      { spec: {} },
      { spec: null },
      { spec: { a: null, n: null } },
      { spec: { b: null } },
      { spec: { e: null } },
    ],
  },
  listed: {
    body: definition("listed", {
      spec: object({
        m: list(object({ k: text, v: text }, { required: ["k"] }), {
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["k"],
        }),
        s: list(text, { "x-kubernetes-list-type": "set" }),
      }),
    }),
    objects: [
      { spec: { m: [{ k: "a" }, { k: "a" }] } },
      { spec: { s: ["a", "b", "a"] } },
      { spec: { m: [{ v: "a" }] } },
      { spec: { m: [{ k: "a", v: "1" }], s: ["x"] } },
    ],
  },
  ruled: {
    body: definition(
      "ruled",
      {
        spec: object(
          {
            a: { type: "integer", ...rule("self > 0") },
            b: integer,
            s: {
              type: "string",
              maxLength: 50,
              ...rule("self.startsWith('x')", { message: "must start with x", reason: "FieldValueForbidden" }),
            },
            im: { type: "string", maxLength: 20, ...rule("self == oldSelf", { message: "immutable" }) },
            l: list({ type: "string", maxLength: 10 }, { maxItems: 5, ...rule("self.all(x, x != 'no')") }),
            q: { type: "string", maxLength: 30, ...rule("quantity(self).isGreaterThan(quantity('1'))") },
          },
          rule("!has(self.a) || !has(self.b) || self.a <= self.b", {
            message: "a <= b",
            fieldPath: ".a",
            reason: "FieldValueDuplicate",
          }),
        ),
      },
      { version: { subresources: { status: {} } } },
    ),
    objects: [
      { a: 0 },
      { a: 2, b: 1 },
      { a: 1, b: 2 },
      { s: "y" },
      { s: "x" },
      { im: "a" },
      { l: ["no"] },
      { q: "500m" },
      { q: "bad" },
      { a: 0, s: "y", l: ["no"] },
    ].map((spec) => ({ spec })),
  },
  preserved: {
    body: definition("preserved", {
      spec: {
        type: "object",
        "x-kubernetes-preserve-unknown-fields": true,
        properties: { known: object({ a: text }) },
      },
      emb: { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
    }),
    objects: [
      { spec: { zz: { y: [1, null] }, known: { a: "b", drop: 1 } } },
      { emb: {} },
      { emb: { apiVersion: "v1", kind: "Pod", metadata: { name: "A_" } } },
    ],
  },
  scaled: {
    body: definition(
      "scaled",
      { spec: object({ replicas: integer }), status: object({ replicas: integer, sel: text }) },
      {
        version: {
          subresources: {
            status: {},
            scale: {
              specReplicasPath: ".spec.replicas",
              statusReplicasPath: ".status.replicas",
              labelSelectorPath: ".status.sel",
            },
          },
          selectableFields: [{ jsonPath: ".spec.replicas" }],
          additionalPrinterColumns: [{ name: "R", type: "integer", jsonPath: ".spec.replicas" }],
        },
      },
    ),
    objects: [{ spec: { replicas: 3 }, status: { replicas: 9 } }, {}],
  },
};

export async function customResources(probe: Probe): Promise<void> {
  await probe.namespace();
  for (const [name, { body, objects }] of Object.entries(right)) {
    await probe.both("DELETE", `${path}/${body.metadata.name}`);
    await probe.until("GET", `${path}/${body.metadata.name}`, ({ status }) => status === 404);
    await probe.compare(`${name}: define`, "POST", path, body, { ignore: /^\.status|metadata\.generation/ });
    await probe.until(
      "GET",
      `/apis/probe.example.com/v1/namespaces/${namespace}/${name}s`,
      ({ status }) => status === 200,
    );
    await writes(probe, name, body.spec.names.kind, objects);
    await probe.both("DELETE", `${path}/${body.metadata.name}`);
  }
}

async function writes(probe: Probe, name: string, kind: string, objects: Loose[]): Promise<void> {
  const collection = `/apis/probe.example.com/v1/namespaces/${namespace}/${name}s`;
  const base = { apiVersion: "probe.example.com/v1", kind, metadata: { name: "o" } };
  const check = (what: string, method: string, at: string, body?: unknown, options = {}) =>
    probe.compare(`${name}: ${what}`, method, at, body, options);
  for (const fields of objects) {
    const shown = JSON.stringify(fields);
    for (const validation of ["Strict", "Warn"])
      await check(`create ${validation} ${shown}`, "POST", `${collection}?dryRun=All&fieldValidation=${validation}`, {
        ...base,
        ...fields,
      });
    await check(
      `apply ${shown}`,
      "PATCH",
      `${collection}/o?dryRun=All&fieldManager=m`,
      { ...base, ...fields },
      { headers: patchTypes.apply },
    );
  }
  const valid = objects.map((fields) => ({ ...base, ...fields }));
  for (const body of valid) {
    const { real } = await probe.both("POST", collection, body);
    if (real.status === 201) break;
  }
  await check("wrong kind", "POST", `${collection}?dryRun=All`, { ...base, kind: "Nope" });
  await check("get", "GET", `${collection}/o`);
  await check("list", "GET", collection);
  await check("table", "GET", collection, undefined, { headers: { Accept: accepts.table } });
  await check("get status", "GET", `${collection}/o/status`);
  await check("get scale", "GET", `${collection}/o/scale`);
  await check("merge kind", "PATCH", `${collection}/o?dryRun=All`, { kind: "Nope" }, { headers: patchTypes.merge });
  await check(
    "merge label",
    "PATCH",
    `${collection}/o?dryRun=All`,
    { metadata: { labels: { a: "b" } } },
    { headers: patchTypes.merge },
  );
  await check(
    "merge status",
    "PATCH",
    `${collection}/o/status?dryRun=All`,
    { status: { replicas: 1 }, metadata: { labels: { a: "b" } } },
    { headers: patchTypes.merge },
  );
  await check("strategic", "PATCH", `${collection}/o?dryRun=All`, {}, { headers: patchTypes.strategic });
  await check("delete", "DELETE", `${collection}/o`);
}
