/** The kinds that the model writes, and the reads that select among them. */
import type { KubeJson } from "../httpCaller.ts";
import type { Filter } from "./history.ts";

export interface ModelKind {
  resource: string;
  root: string;
  plural: string;
  make(name: string, color: string, mark: string): object;
  filters: Filter[];
}

export const namespaces = ["model-a", "model-b"];
export const colors = ["red", "green", "blue"];
export const nodes = ["node-1", "node-2"];

const everything: Filter = { query: "", matches: () => true };

function labelled(selector: string, matches: (color: string | undefined) => boolean): Filter {
  return {
    query: `labelSelector=${encodeURIComponent(selector)}`,
    matches: (object) => matches(object.metadata.labels?.["color"]),
  };
}

const labelFilters = [
  everything,
  labelled("color=red", (color) => color === "red"),
  labelled("color!=red", (color) => color !== "red"),
  labelled("color in (red,blue)", (color) => color === "red" || color === "blue"),
  labelled("!color", (color) => color === undefined),
];

const named: Filter = {
  query: "fieldSelector=metadata.name%3Dobj-1",
  matches: (object) => object.metadata.name === "obj-1",
};

function field(object: KubeJson, part: "spec" | "status", name: string): string {
  return String((object[part] as Record<string, unknown> | undefined)?.[name] ?? "");
}

function metadata(name: string, color: string, mark: string): object {
  return { name, annotations: { mark }, ...(color === "" ? {} : { labels: { color } }) };
}

export const kinds: ModelKind[] = [
  {
    resource: "/configmaps",
    root: "/api/v1",
    plural: "configmaps",
    make: (name, color, mark) => ({ metadata: metadata(name, color, mark), data: { mark } }),
    filters: [...labelFilters, named],
  },
  {
    resource: "/pods",
    root: "/api/v1",
    plural: "pods",
    make: (name, color, mark) => ({
      metadata: metadata(name, color, mark),
      spec: { containers: [{ name: "c", image: "i" }] },
    }),
    filters: [
      ...labelFilters,
      named,
      {
        query: "fieldSelector=spec.nodeName%3Dnode-1",
        matches: (object) => field(object, "spec", "nodeName") === "node-1",
      },
      {
        query: "fieldSelector=spec.nodeName%3D",
        matches: (object) => field(object, "spec", "nodeName") === "",
      },
      {
        query: "fieldSelector=status.phase%21%3DPending",
        matches: (object) => field(object, "status", "phase") !== "Pending",
      },
      {
        query: "fieldSelector=spec.nodeName%3Dnode-2&labelSelector=color%3Dblue",
        matches: (object) =>
          field(object, "spec", "nodeName") === "node-2" && object.metadata.labels?.["color"] === "blue",
      },
    ],
  },
  {
    resource: "coordination.k8s.io/leases",
    root: "/apis/coordination.k8s.io/v1",
    plural: "leases",
    make: (name, color, mark) => ({ metadata: metadata(name, color, mark), spec: { holderIdentity: mark } }),
    filters: labelFilters,
  },
];

/** The same filter, within one namespace or across all. */
export function within(filter: Filter, namespace: string): Filter {
  if (namespace === "") return filter;
  return {
    query: filter.query,
    matches: (object) => object.metadata.namespace === namespace && filter.matches(object),
  };
}

export function collection({ root, plural }: ModelKind, namespace: string): string {
  return namespace === "" ? `${root}/${plural}` : `${root}/namespaces/${namespace}/${plural}`;
}
