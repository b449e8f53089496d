/** The functions that KWOK adds to templates, with values of the simulated node instead of flags. */
import { stringify } from "yaml";
import { healthyConditions } from "../node/nodeConditions.ts";
import type { TemplateFunctions } from "./goTemplate.ts";

export interface TemplateContext {
  readonly nowMs: number;
  /** The start time of the simulator. */
  readonly startMs: number;
  /** The name of the object's node; for a node its own name. */
  readonly nodeName: string;
  readonly nodePort: number;
  readonly version: string;
  nodeIps(node: string): readonly string[];
  /** Addresses of a pod: those it has, or free ones of its node's range. */
  podIps(pod: { node: string; hostNetwork: boolean; uid: string; name: string; namespace: string }): readonly string[];
}

const names = [
  "Quote",
  "Now",
  "StartTime",
  "YAML",
  "Version",
  "NodeConditions",
  "NodeIP",
  "NodeName",
  "NodePort",
  "PodIP",
  "NodeIPWith",
  "NodeIPsWith",
  "PodIPWith",
  "PodIPsWith",
] as const;

export const templateFunctionNames: ReadonlySet<string> = new Set(names);

export function templateFunctions(context: TemplateContext): TemplateFunctions {
  const podIps = (args: readonly unknown[]): readonly string[] => {
    const [node, hostNetwork, uid, name, namespace] = args;
    return context.podIps({
      node: String(node ?? ""),
      hostNetwork: hostNetwork === true,
      uid: String(uid ?? ""),
      name: String(name ?? ""),
      namespace: String(namespace ?? ""),
    });
  };
  const functions: Record<(typeof names)[number], (...args: unknown[]) => unknown> = {
    Quote: (value) => JSON.stringify(typeof value === "string" ? value : String(value ?? "")),
    Now: () => nanoTime(context.nowMs),
    StartTime: () => nanoTime(context.startMs),
    YAML: (value, indent) => indented(value, Number(indent ?? 0)),
    Version: () => context.version,
    NodeConditions: () => healthyConditions(context.nowMs),
    NodeIP: () => context.nodeIps(context.nodeName)[0] ?? "",
    NodeName: () => context.nodeName,
    NodePort: () => context.nodePort,
    PodIP: () => podIps([context.nodeName, false, "", "", ""])[0] ?? "",
    NodeIPWith: (node) => context.nodeIps(String(node))[0] ?? "",
    NodeIPsWith: (node) => [...context.nodeIps(String(node))],
    PodIPWith: (...args) => podIps(args)[0] ?? "",
    PodIPsWith: (...args) => [...podIps(args)],
  };
  return functions;
}

/** With fractions of a second, for stages that compare times. */
function nanoTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.?0*Z$/, "Z");
}

/** A value as YAML on new lines; `indent` levels of two spaces before each line. */
function indented(value: unknown, levels: number): string {
  const text = stringify(value ?? null, { indent: 2, lineWidth: 0 }).trimEnd();
  return text.replace(/^/gm, "  ".repeat(levels));
}
