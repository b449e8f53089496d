import { createHash } from "node:crypto";
import { apiVersionOf } from "../model/objects/object.ts";
import type { ResourceType, Subresource } from "./builtinResources.ts";

/** A document that is served unchanged; its ETag changes when its bytes do. */
export interface TaggedDocument {
  readonly body: string;
  /** With quotes, as in the header. */
  readonly etag: string;
}

/** The answer to an aggregated request must repeat these parameters, or client-go reads it as the legacy form. */
export const aggregatedContentType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/**
 * Discovery in two forms: aggregated (everything in two requests) and legacy (a document per group and version).
 * Rebuilt from the list of resources whenever a custom resource is added or removed; each document is written on first
 * request.
 */
export class Discovery {
  readonly #groups: readonly Group[];
  readonly #serverAddress: string;
  readonly #documents = new Map<string, TaggedDocument>();

  /** Groups keep the order of the list; versions are sorted, the most stable first. */
  constructor(resources: Iterable<ResourceType>, serverAddress: string) {
    this.#groups = groupsOf(resources);
    this.#serverAddress = serverAddress;
  }

  /** `/api` (the core group) or `/apis` (all others), for clients that accept the aggregated form. */
  aggregated(root: "api" | "apis"): TaggedDocument {
    return this.#document(`aggregated ${root}`, () => ({
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2",
      metadata: {},
      items: this.#groups
        .filter(({ name }) => (name === "") === (root === "api"))
        .map(({ name, versions }) => ({
          metadata: name === "" ? {} : { name },
          versions: versions.map(({ version, resources }) => ({
            version,
            resources: resources.map(aggregatedResource),
            freshness: "Current",
          })),
        })),
    }));
  }

  /** `/api` */
  versions(): TaggedDocument {
    return this.#document("versions", () => ({
      kind: "APIVersions",
      versions: this.#groups.find(({ name }) => name === "")?.versions.map(({ version }) => version) ?? [],
      serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: this.#serverAddress }],
    }));
  }

  /** `/apis` */
  groups(): TaggedDocument {
    return this.#document("groups", () => ({
      kind: "APIGroupList",
      apiVersion: "v1",
      groups: this.#groups.filter(({ name }) => name !== "").map(legacyGroup),
    }));
  }

  /** `/apis/{group}` */
  group(name: string): TaggedDocument | undefined {
    const group = this.#groups.find((candidate) => candidate.name === name);
    if (group === undefined || name === "") return undefined;
    return this.#document(`group ${name}`, () => ({ kind: "APIGroup", apiVersion: "v1", ...legacyGroup(group) }));
  }

  /** `/api/v1`, `/apis/{group}/{version}` */
  resources(groupName: string, versionName: string): TaggedDocument | undefined {
    const group = this.#groups.find(({ name }) => name === groupName);
    const version = group?.versions.find((candidate) => candidate.version === versionName);
    if (version === undefined) return undefined;
    const groupVersion = apiVersionOf(groupName, versionName);
    return this.#document(`resources ${groupVersion}`, () => ({
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion,
      resources: version.resources.flatMap(legacyResources),
    }));
  }

  #document(key: string, make: () => unknown): TaggedDocument {
    let document = this.#documents.get(key);
    if (document === undefined) {
      const body = JSON.stringify(make());
      document = { body, etag: `"${createHash("sha256").update(body).digest("hex").toUpperCase()}"` };
      this.#documents.set(key, document);
    }
    return document;
  }
}

type Group = { name: string; versions: { version: string; resources: ResourceType[] }[] };

function groupsOf(resources: Iterable<ResourceType>): Group[] {
  const groups = new Map<string, Map<string, ResourceType[]>>();
  for (const resource of resources) {
    const versions = groups.get(resource.group) ?? new Map<string, ResourceType[]>();
    groups.set(resource.group, versions);
    const list = versions.get(resource.version) ?? [];
    versions.set(resource.version, list);
    list.push(resource);
  }
  return [...groups].map(([name, versions]) => ({
    name,
    versions: [...versions]
      .sort(([a], [b]) => compareVersions(a, b))
      .map(([version, list]) => ({
        version,
        resources: list.sort((a, b) => (a.plural < b.plural ? -1 : 1)),
      })),
  }));
}

/** Sorts versions by preference: v2, v1, v1beta2, v1beta1, v1alpha1, then names of another form. */
export function compareVersions(a: string, b: string): number {
  const left = versionRank(a);
  const right = versionRank(b);
  for (let at = 0; at < left.length; at++) {
    const difference = (right[at] ?? 0) - (left[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}

const versionShape = /^v([0-9]+)(?:(alpha|beta)([0-9]+))?$/;

function versionRank(version: string): [stability: number, major: number, minor: number] {
  const match = versionShape.exec(version);
  if (match === null) return [0, 0, 0];
  const stability = match[2] === undefined ? 3 : match[2] === "beta" ? 2 : 1;
  return [stability, Number(match[1]), Number(match[3] ?? 0)];
}

function aggregatedResource(resource: ResourceType): unknown {
  const { group, version, kind, shortNames, categories, subresources } = resource;
  return {
    resource: resource.plural,
    responseKind: { group, version, kind },
    scope: resource.namespaced ? "Namespaced" : "Cluster",
    singularResource: resource.singular,
    verbs: resource.verbs,
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
    ...(subresources.length > 0
      ? {
          subresources: subresources.map((sub) => ({
            subresource: sub.name,
            responseKind: { group: sub.group, version: sub.version, kind: sub.kind },
            verbs: sub.verbs,
          })),
        }
      : {}),
  };
}

function legacyGroup({ name, versions }: Group): object {
  const list = versions.map(({ version }) => ({ groupVersion: apiVersionOf(name, version), version }));
  return { name, versions: list, preferredVersion: list[0] };
}

function legacyResources(resource: ResourceType): unknown[] {
  const { plural, singular, namespaced, kind, verbs, shortNames, categories } = resource;
  const own = {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs,
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
  };
  return [own, ...resource.subresources.map((sub) => legacySubresource(resource, sub))];
}

function legacySubresource(parent: ResourceType, sub: Subresource): unknown {
  // Group and version are given only where they differ from those of the list.
  const elsewhere = sub.group !== parent.group || sub.version !== parent.version;
  return {
    name: `${parent.plural}/${sub.name}`,
    singularName: "",
    namespaced: parent.namespaced,
    ...(elsewhere ? { group: sub.group, version: sub.version } : {}),
    kind: sub.kind,
    verbs: sub.verbs,
  };
}
