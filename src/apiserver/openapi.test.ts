import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { builtinResources } from "./builtinResources.ts";
import { type CustomOpenApi, OpenApi, openApiForm, openApiV2 } from "./openapi.ts";

type Loose = { [key: string]: unknown };
type Document = {
  paths: Record<string, Record<string, Loose>>;
  components: { schemas: Record<string, Loose> };
};

const gang: CustomOpenApi = {
  group: "example.com",
  version: "v1",
  kind: "Gang",
  plural: "gangs",
  namespaced: true,
  hasStatus: true,
  hasScale: true,
  schema: {
    type: "object",
    properties: {
      metadata: { type: "object", properties: { name: { type: "string", maxLength: 5 } } },
      spec: {
        type: "object",
        required: ["size"],
        properties: {
          size: { type: "integer", minimum: 1, default: 2 },
          members: {
            type: "array",
            items: { type: "object" },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
          },
          template: { type: "object", "x-kubernetes-embedded-resource": true },
        },
      },
    },
  },
};

function serve(custom: CustomOpenApi[] = []): OpenApi {
  const openApi = new OpenApi(builtinResources(), "v1.36.4");
  openApi.setCustomResources(custom);
  return openApi;
}

function read(openApi: OpenApi, path: string): Document {
  return JSON.parse(openApi.document(path)?.body ?? "null") as Document;
}

function indexed(openApi: OpenApi): Record<string, { serverRelativeURL: string }> {
  return (JSON.parse(openApi.index().body) as { paths: Record<string, { serverRelativeURL: string }> }).paths;
}

const core = (name: string) => `io.k8s.api.core.v1.${name}`;

describe("the index", () => {
  test("every served version is in it, with the hash of its document", () => {
    const openApi = serve([gang]);
    const paths = indexed(openApi);
    for (const { group, version } of builtinResources()) {
      expect(paths).toHaveProperty([group === "" ? `api/${version}` : `apis/${group}/${version}`]);
    }
    for (const [path, { serverRelativeURL }] of Object.entries(paths)) {
      expect(serverRelativeURL).toBe(`/openapi/v3/${path}?hash=${openApi.document(path)?.hash}`);
    }
    expect(paths).toHaveProperty(["apis/example.com/v1"]);
  });

  test("a change of one custom resource changes one hash", () => {
    const openApi = serve([gang, { ...gang, group: "other.example.com" }]);
    const before = indexed(openApi);
    openApi.setCustomResources([
      { ...gang, schema: { type: "object" } },
      { ...gang, group: "other.example.com" },
    ]);
    const after = indexed(openApi);
    const changed = Object.keys(before).filter(
      (path) => before[path]?.serverRelativeURL !== after[path]?.serverRelativeURL,
    );
    expect(changed).toEqual(["apis/example.com/v1"]);
    openApi.setCustomResources([]);
    expect(indexed(openApi)).not.toHaveProperty(["apis/example.com/v1"]);
    expect(openApi.document("apis/example.com/v1")).toBeUndefined();
  });
});

describe("an answer", () => {
  test("to the right hash may be kept for ever, to none may not, to a stale one moves on", () => {
    const openApi = serve();
    const document = openApi.document("apis/apps/v1");
    expect(openApi.answer("apis/apps/v1", document?.hash)).toEqual({ kind: "document", document, immutable: true });
    expect(openApi.answer("apis/apps/v1", undefined)).toEqual({ kind: "document", document, immutable: false });
    expect(openApi.answer("apis/apps/v1", "OLD")).toEqual({
      kind: "moved",
      location: `/openapi/v3/apis/apps/v1?hash=${document?.hash}`,
    });
    expect(openApi.answer("apis/nowhere/v1", undefined)).toBeUndefined();
  });

  const v2Title = { title: "T", version: "v9" };

  test("to version 2 are an empty document as protobuf, for kubectl and a list of objects", () => {
    const asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const { type, body } = openApiV2(asked, v2Title, () => "");
    expect(type).toBe(asked.replace("@", "."));
    expect(body.toString("hex")).toBe("0a03322e3012070a0154120276394200");
  });

  test.each([undefined, "application/json", "*/*", "application/json, */*;q=0.5"])(
    "to version 2 are JSON with Accept %s",
    (accept) => {
      const { type, body } = openApiV2(accept, v2Title, () => "{}");
      expect([type, body.toString()]).toEqual(["application/json", "{}"]);
    },
  );

  test("to version 2 are a refusal in any other form", () => {
    const refused = expect.objectContaining({ status: expect.objectContaining({ code: 406 }) });
    expect(() => openApiV2("application/yaml", v2Title, () => "")).toThrow(refused);
  });
});

describe("version 2", () => {
  type Swagger = { paths: Record<string, Record<string, unknown>>; definitions: Record<string, Loose> };
  const openApi = serve();
  const document = JSON.parse(openApi.version2().body) as Swagger;

  test("has a definition for every reference", () => {
    const references = [...openApi.version2().body.matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] as string);
    expect(references.length).toBeGreaterThan(1000);
    const missing = references.filter((one) => document.definitions[one.replace("#/definitions/", "")] === undefined);
    expect(missing).toEqual([]);
  });

  test("has plain references instead of allOf", () => {
    const pod = document.definitions["io.k8s.api.core.v1.Pod"] as { properties: Record<string, object> };
    expect(pod.properties["spec"]).toEqual({ $ref: "#/definitions/io.k8s.api.core.v1.PodSpec" });
    expect(openApi.version2().body).not.toContain('"allOf":[');
  });

  test("has bodies as parameters and schemas of responses", () => {
    expect(document.paths["/api/v1/namespaces/{namespace}/pods"]?.["post"]).toMatchObject({
      consumes: ["*/*"],
      parameters: expect.arrayContaining([
        { name: "body", in: "body", required: true, schema: { $ref: "#/definitions/io.k8s.api.core.v1.Pod" } },
        { name: "dryRun", in: "query", type: "string", uniqueItems: true },
      ]),
      responses: { 201: { description: "OK", schema: { $ref: "#/definitions/io.k8s.api.core.v1.Pod" } } },
    });
  });

  test("has the kinds of all groups in a shared definition", () => {
    expect(document.definitions["io.k8s.api.autoscaling.v1.Scale"]?.["x-kubernetes-group-version-kind"]).toEqual([
      { group: "autoscaling", version: "v1", kind: "Scale" },
    ]);
  });

  test("has custom resources without what version 2 cannot describe, until they are removed", () => {
    const schema = {
      type: "object",
      properties: {
        spec: {
          type: "object",
          properties: {
            size: { type: "integer", anyOf: [{ minimum: 1 }] },
            note: { type: "string", nullable: true, description: "free" },
            open: {
              type: "object",
              "x-kubernetes-preserve-unknown-fields": true,
              properties: { a: { type: "string" } },
            },
          },
        },
      },
    };
    openApi.setCustomResources([
      {
        group: "example.com",
        version: "v1",
        kind: "Toy",
        plural: "toys",
        namespaced: true,
        schema,
        hasStatus: false,
        hasScale: false,
      },
    ]);
    const { definitions, paths } = JSON.parse(openApi.version2().body) as Swagger;
    expect(definitions["com.example.v1.Toy"]).toMatchObject({
      properties: {
        metadata: {
          description: expect.any(String),
          $ref: "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        },
        spec: {
          properties: {
            size: { type: "integer" },
            note: { description: "free" },
            open: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          },
        },
      },
    });
    expect(paths["/apis/example.com/v1/namespaces/{namespace}/toys"]).toBeDefined();
    openApi.setCustomResources([]);
    expect(openApi.version2().body).not.toContain("com.example.v1.Toy");
  });
});

describe("a document of built-in kinds", () => {
  const document = read(serve(), "api/v1");

  test("every reference resolves, in every document", () => {
    const openApi = serve([gang]);
    for (const path of Object.keys(indexed(openApi))) {
      const body = openApi.document(path)?.body ?? "";
      const { schemas } = (JSON.parse(body) as Document).components;
      for (const [, name] of body.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)) {
        expect(schemas, `${path} refers to ${name}`).toHaveProperty([name ?? ""]);
      }
    }
  });

  test("a kind has its group, version and kind, and a description", () => {
    expect(document.components.schemas[core("Pod")]).toMatchObject({
      "x-kubernetes-group-version-kind": [{ group: "", version: "v1", kind: "Pod" }],
      description: expect.stringContaining("Pod is a collection of containers"),
    });
  });

  test("merge keys and list types are there", () => {
    const { properties, required } = document.components.schemas[core("PodSpec")] as {
      properties: Record<string, Loose>;
      required: string[];
    };
    expect(required).toEqual(["containers"]);
    expect(properties["containers"]).toMatchObject({
      type: "array",
      items: { allOf: [{ $ref: `#/components/schemas/${core("Container")}` }] },
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      "x-kubernetes-patch-strategy": "merge",
      "x-kubernetes-patch-merge-key": "name",
    });
    expect(properties["volumes"]).toMatchObject({ "x-kubernetes-patch-strategy": "merge,retainKeys" });
    expect(properties["tolerations"]).toMatchObject({ "x-kubernetes-list-type": "atomic" });
    expect(properties["nodeSelector"]).toMatchObject({ "x-kubernetes-map-type": "atomic" });
  });

  test("kubectl sees that pods can be patched strategically and are validated by the server", () => {
    const patch = document.paths["/api/v1/namespaces/{namespace}/pods/{name}"]!["patch"]!;
    expect(patch).toMatchObject({
      "x-kubernetes-action": "patch",
      "x-kubernetes-group-version-kind": { group: "", version: "v1", kind: "Pod" },
    });
    const names = (patch["parameters"] as Loose[]).map(({ name, in: place }) => `${place} ${name}`);
    expect(names).toEqual(["query dryRun", "query fieldManager", "query fieldValidation", "query force"]);
    expect(Object.keys((patch["requestBody"] as { content: Loose }).content)).toEqual([
      "application/json-patch+json",
      "application/merge-patch+json",
      "application/strategic-merge-patch+json",
      "application/apply-patch+yaml",
    ]);
  });

  test("cluster-scoped kinds have no namespace in their path, virtual ones only a POST", () => {
    expect(document.paths).toHaveProperty(["/api/v1/nodes/{name}/status", "patch"]);
    const reviews = read(serve(), "apis/authorization.k8s.io/v1").paths;
    expect(Object.keys(reviews["/apis/authorization.k8s.io/v1/subjectaccessreviews"] ?? {})).toEqual(["post"]);
  });

  test("no path has an empty list of parameters, which clients drop when they write the document again", () => {
    const empty = Object.entries(document.paths).filter(([, item]) => JSON.stringify(item["parameters"]) === "[]");
    expect(empty).toEqual([]);
  });
});

describe("a document of custom kinds", () => {
  const document = read(serve([gang]), "apis/example.com/v1");
  const schema = document.components.schemas["com.example.v1.Gang"] as { properties: Record<string, Loose> };

  test("holds the author's schema with the metadata of every object", () => {
    expect(schema).toMatchObject({
      "x-kubernetes-group-version-kind": [{ group: "example.com", version: "v1", kind: "Gang" }],
      properties: {
        apiVersion: { type: "string" },
        kind: { type: "string" },
        metadata: { allOf: [{ $ref: "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }] },
        spec: {
          required: ["size"],
          properties: {
            size: { minimum: 1, default: 2 },
            members: { "x-kubernetes-list-map-keys": ["name"] },
            template: { properties: { metadata: { allOf: [{}] } } },
          },
        },
      },
    });
  });

  test("offers no strategic merge patch", () => {
    const patch = document.paths["/apis/example.com/v1/namespaces/{namespace}/gangs/{name}"]!["patch"]!;
    expect(Object.keys((patch["requestBody"] as { content: Loose }).content)).toEqual([
      "application/json-patch+json",
      "application/merge-patch+json",
      "application/apply-patch+yaml",
    ]);
    expect(document.paths).toHaveProperty(["/apis/example.com/v1/namespaces/{namespace}/gangs/{name}/scale", "put"]);
  });

  test("a kind without a schema is an object", () => {
    const bare = read(
      serve([{ group: "a.io", version: "v1", kind: "A", plural: "as", namespaced: false }]),
      "apis/a.io/v1",
    );
    expect(bare.components.schemas["io.a.v1.A"]).toMatchObject({ type: "object" });
  });
});

test("what is written has not changed since its form number was set", () => {
  // Clients keep documents by hash, and the hash is made from the input and openApiForm. If this fails because the
  // writing changed, raise openApiForm; if only the generated data changed, the new digest is enough.
  const openApi = serve([gang]);
  const digest = createHash("sha256");
  for (const path of ["apis/policy/v1", "apis/example.com/v1"]) digest.update(openApi.document(path)?.body ?? "");
  expect(`${openApiForm} ${digest.digest("hex").slice(0, 16)}`).toBe("3 e156fd5020cee964");
});
