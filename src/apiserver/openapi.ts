import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { isObject } from "../model/objects/json.ts";
import { notAcceptable } from "../model/objects/status.ts";
import type { ResourceType } from "./builtinResources.ts";
import { customDefinitionName, publishedSchema } from "./schema/customOpenApi.ts";
import { type PathsOf, pathsFor } from "./schema/openApiPaths.ts";
import {
  deleteOptionsDefinition,
  listMetaDefinition,
  type OpenApiSchema,
  objectMetaDefinition,
  patchDefinition,
  reference,
  schemasFor,
  statusDefinition,
} from "./schema/openApiSchemas.ts";
import { definitionOf, pathItemOf } from "./schema/openApiV2.ts";
import { bundleFingerprint } from "./schema/schemaBundle.ts";

/** A served version of a custom resource, for its OpenAPI document. */
export interface CustomOpenApi {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** The `openAPIV3Schema` of the version; absent where any content is allowed. */
  readonly schema?: unknown;
  readonly hasStatus?: boolean;
  readonly hasScale?: boolean;
}

export interface OpenApiDocument {
  readonly body: string;
  /** Hash of the content: a document requested by its hash may be cached forever. */
  readonly hash: string;
}

/** The response to a request for one document. */
export type OpenApiAnswer =
  | { readonly kind: "document"; readonly document: OpenApiDocument; readonly immutable: boolean }
  /** The hash of the request is out of date. */
  | { readonly kind: "moved"; readonly location: string };

/**
 * Increase this when the documents of the same input change: clients cache documents by hash for a year. A test
 * compares the documents with a known digest and fails when they change.
 */
export const openApiForm = 3;

/**
 * The OpenAPI v3 documents, one per group and version, and their index. kubectl requests the index on every apply and
 * caches the documents on disk by their hash. The hash is that of a document's input, so the index is cheap and a
 * document of some hundred kilobytes is written only on request.
 */
export class OpenApi {
  readonly #title: { title: string; version: string };
  readonly #builtin = new Map<string, readonly ResourceType[]>();
  #custom = new Map<string, readonly CustomOpenApi[]>();
  readonly #hashes = new Map<string, string>();
  readonly #documents = new Map<string, OpenApiDocument>();
  #index: OpenApiDocument | undefined;
  #version2: OpenApiDocument | undefined;

  constructor(resources: Iterable<ResourceType>, serverVersion: string) {
    this.#title = { title: "Kubernetes", version: serverVersion };
    this.#builtin = groupBy(resources);
  }

  /** Replaces the list of custom resources. Groups whose list did not change keep their documents. */
  setCustomResources(list: Iterable<CustomOpenApi>): void {
    const next = groupBy(list);
    for (const path of new Set([...this.#custom.keys(), ...next.keys()])) {
      const before = this.#custom.get(path) ?? [];
      const after = next.get(path) ?? [];
      if (before.length === after.length && before.every((one, at) => sameCustom(one, after[at]))) continue;
      this.#documents.delete(path);
      this.#hashes.delete(path);
      this.#index = undefined;
    }
    this.#custom = next;
  }

  /** `/openapi/v3` */
  index(): OpenApiDocument {
    if (this.#index === undefined) {
      const paths: Record<string, { serverRelativeURL: string }> = {};
      for (const path of this.#paths()) paths[path] = { serverRelativeURL: this.#url(path) };
      const body = JSON.stringify({ paths });
      this.#index = { body, hash: digest(body) };
    }
    return this.#index;
  }

  /** `/openapi/v3/{path}`, with the path `api/v1` or `apis/apps/v1`; undefined where no such version is served. */
  document(path: string): OpenApiDocument | undefined {
    const known = this.#documents.get(path);
    if (known !== undefined) return known;
    const hash = this.#hash(path);
    if (hash === undefined) return undefined;
    const document = { body: this.#write(this.#builtin.get(path) ?? [], this.#custom.get(path) ?? []), hash };
    this.#documents.set(path, document);
    return document;
  }

  #hash(path: string): string | undefined {
    const known = this.#hashes.get(path);
    if (known !== undefined) return known;
    const builtin = this.#builtin.get(path);
    const custom = this.#custom.get(path);
    if (builtin === undefined && custom === undefined) return undefined;
    const hash = digest(JSON.stringify([openApiForm, bundleFingerprint(), this.#title, builtin, custom]));
    this.#hashes.set(path, hash);
    return hash;
  }

  /**
   * Compares the hash of the query: the current hash may be cached, an outdated one is redirected, and none gets the
   * document without caching.
   */
  answer(path: string, hash: string | undefined): OpenApiAnswer | undefined {
    const current = this.#hash(path);
    if (current === undefined) return undefined;
    const asked = hash !== undefined && hash !== "";
    if (asked && hash !== current) return { kind: "moved", location: this.#url(path) };
    const document = this.document(path);
    return document === undefined ? undefined : { kind: "document", document, immutable: asked };
  }

  #paths(): string[] {
    return [...new Set([...this.#builtin.keys(), ...this.#custom.keys()])];
  }

  #url(path: string): string {
    return `/openapi/v3/${path}?hash=${this.#hash(path) ?? ""}`;
  }

  /** `/openapi/v2` as JSON: the definitions and paths of all groups and versions. */
  version2(): OpenApiDocument {
    const { hash } = this.index();
    if (this.#version2?.hash === hash) return this.#version2;
    const definitions = new Map<string, OpenApiSchema>();
    const paths: Record<string, unknown> = {};
    for (const path of this.#paths()) {
      const built = this.#build(this.#builtin.get(path) ?? [], this.#custom.get(path) ?? []);
      for (const [name, schema] of built.schemas) mergeDefinition(definitions, name, schema);
      for (const [url, item] of Object.entries(built.paths)) {
        if (isObject(item)) paths[url] = pathItemOf(item);
      }
    }
    const body = JSON.stringify({
      swagger: "2.0",
      info: this.#title,
      paths,
      definitions: Object.fromEntries([...definitions].sort(([a], [b]) => (a < b ? -1 : 1))),
    });
    this.#version2 = { body, hash };
    return this.#version2;
  }

  #write(builtin: readonly ResourceType[], custom: readonly CustomOpenApi[]): string {
    const { schemas, paths } = this.#build(builtin, custom);
    const sorted = [...schemas].sort(([a], [b]) => (a < b ? -1 : 1));
    return JSON.stringify({
      openapi: "3.0.0",
      info: this.#title,
      paths,
      components: { schemas: Object.fromEntries(sorted) },
    });
  }

  #build(
    builtin: readonly ResourceType[],
    custom: readonly CustomOpenApi[],
  ): { schemas: Map<string, OpenApiSchema>; paths: Record<string, unknown> } {
    const roots = new Set([statusDefinition, deleteOptionsDefinition, patchDefinition, listMetaDefinition]);
    if (custom.length > 0) roots.add(objectMetaDefinition);
    for (const { definition, subresources } of builtin) {
      roots.add(definition);
      for (const sub of subresources) if (sub.definition !== "") roots.add(sub.definition);
    }
    if (custom.some(({ hasScale }) => hasScale)) roots.add(scaleDefinition);

    const schemas = schemasFor(roots);
    const paths: Record<string, unknown> = {};
    for (const resource of builtin) {
      addKind(schemas, resource.definition, resource);
      for (const sub of resource.subresources) if (sub.definition !== "") addKind(schemas, sub.definition, sub);
      Object.assign(paths, pathsFor(builtinPaths(resource, schemas)));
    }
    for (const resource of custom) {
      const name = customDefinitionName(resource.group, resource.version, resource.kind);
      schemas.set(name, publishedSchema(resource.schema));
      addKind(schemas, name, resource);
      if (resource.hasScale) addKind(schemas, scaleDefinition, scaleKind);
      Object.assign(paths, pathsFor(customPaths(resource, name, schemas)));
    }
    return { schemas, paths };
  }
}

/** A definition in documents of several versions, such as DeleteOptions, has the kinds of all of them. */
function mergeDefinition(definitions: Map<string, OpenApiSchema>, name: string, schema: OpenApiSchema): void {
  const kindsOf = (one: OpenApiSchema | undefined): unknown[] => {
    const kinds = one?.[kindsKey];
    return Array.isArray(kinds) ? kinds : [];
  };
  const known = definitions.get(name);
  const kinds = new Map([...kindsOf(known), ...kindsOf(schema)].map((kind) => [JSON.stringify(kind), kind]));
  definitions.set(name, {
    ...(known ?? definitionOf(schema)),
    ...(kinds.size === 0 ? {} : { [kindsKey]: [...kinds.values()] }),
  });
}

/**
 * The protobuf form of version 2 that kubectl requests. Responses name it with a dot where the request has an at sign.
 */
const v2Protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const openApiV2Type = v2Protobuf.replace("@", ".");
const jsonTypes = ["application/json", "application/*", "*/*"];

/**
 * `/openapi/v2`: JSON, or protobuf without definitions where that is requested by name. For `kind: List` kubectl
 * requests the protobuf form and fails without it; for kinds that it does not find there it relies on the server's
 * strict validation.
 */
export function openApiV2(
  accept: string | undefined,
  info: { readonly title: string; readonly version: string },
  json: () => string,
): { readonly type: string; readonly body: Buffer } {
  if (accept?.includes(v2Protobuf) === true) {
    const title = Buffer.concat([textField(1, info.title), textField(2, info.version)]);
    const body = Buffer.concat([textField(1, "2.0"), bytesField(2, title), bytesField(8, Buffer.alloc(0))]);
    return { type: openApiV2Type, body };
  }
  const asked = (accept ?? "*/*").split(",").map((each) => (each.split(";")[0] ?? "").trim());
  if (!asked.some((type) => jsonTypes.includes(type))) throw notAcceptable([v2Protobuf, "application/json"]);
  return { type: "application/json", body: Buffer.from(json()) };
}

function textField(number: number, text: string): Buffer {
  return bytesField(number, Buffer.from(text));
}

/** A length-delimited field of less than 128 bytes. */
function bytesField(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}

const kindsKey = "x-kubernetes-group-version-kind";
const scaleDefinition = "io.k8s.api.autoscaling.v1.Scale";
const scaleKind = { group: "autoscaling", version: "v1", kind: "Scale" };
const storedVerbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const changeVerbs = ["get", "patch", "update"];

type Kind = { readonly group: string; readonly version: string; readonly kind: string };

/** Marks a schema as that of a kind. A copy: one definition may be in the documents of several versions. */
function addKind(schemas: Map<string, OpenApiSchema>, definition: string, { group, version, kind }: Kind): void {
  const schema = schemas.get(definition) ?? {};
  schemas.set(definition, { ...schema, [kindsKey]: [{ group, version, kind }] });
}

function addList(schemas: Map<string, OpenApiSchema>, definition: string, of: Kind): string {
  const name = `${definition}List`;
  schemas.set(name, {
    description: `A list of ${of.kind} objects.`,
    type: "object",
    required: ["items"],
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { allOf: [reference(listMetaDefinition)] },
      items: { type: "array", items: { allOf: [reference(definition)] } },
    },
  });
  addKind(schemas, name, { ...of, kind: `${of.kind}List` });
  return name;
}

function builtinPaths(resource: ResourceType, schemas: Map<string, OpenApiSchema>): PathsOf {
  const { group, version, kind, plural, namespaced, verbs, definition } = resource;
  return {
    group,
    version,
    kind,
    plural,
    namespaced,
    verbs,
    schema: definition,
    listSchema: verbs.includes("list") ? addList(schemas, definition, resource) : "",
    strategicMerge: true,
    subresources: resource.subresources.map((sub) => ({ ...sub, schema: sub.definition })),
  };
}

function customPaths(resource: CustomOpenApi, schema: string, schemas: Map<string, OpenApiSchema>): PathsOf {
  const { group, version, kind, plural, namespaced } = resource;
  return {
    group,
    version,
    kind,
    plural,
    namespaced,
    verbs: storedVerbs,
    schema,
    listSchema: addList(schemas, schema, resource),
    strategicMerge: false,
    subresources: [
      ...(resource.hasScale ? [{ name: "scale", ...scaleKind, verbs: changeVerbs, schema: scaleDefinition }] : []),
      ...(resource.hasStatus ? [{ name: "status", group, version, kind, verbs: changeVerbs, schema }] : []),
    ],
  };
}

function groupBy<T extends { readonly group: string; readonly version: string }>(list: Iterable<T>): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of list) {
    const path = item.group === "" ? `api/${item.version}` : `apis/${item.group}/${item.version}`;
    const found = groups.get(path);
    if (found === undefined) groups.set(path, [item]);
    else found.push(item);
  }
  return groups;
}

function sameCustom(a: CustomOpenApi, b: CustomOpenApi | undefined): boolean {
  return (
    b !== undefined &&
    a.kind === b.kind &&
    a.plural === b.plural &&
    a.namespaced === b.namespaced &&
    a.schema === b.schema &&
    a.hasStatus === b.hasStatus &&
    a.hasScale === b.hasScale
  );
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").toUpperCase();
}
