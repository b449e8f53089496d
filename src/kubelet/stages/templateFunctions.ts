/** The functions that KWOK adds to templates, answered from the simulated node instead of a process's flags. */
import { stringify } from "yaml";
import { healthyConditions } from "../node/nodeConditions.ts";
import type { TemplateFunctions } from "./goTemplate.ts";

export interface TemplateContext {
  readonly nowMs: number;
  /** When the simulator began. */
  readonly startMs: number;
  /** The name of the node of the object; a node has its own. */
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

export function templateFunctions(world: TemplateContext): TemplateFunctions {
  const podIps = (args: readonly unknown[]): readonly string[] => {
    const [node, hostNetwork, uid, name, namespace] = args;
    return world.podIps({
      node: String(node ?? ""),
      hostNetwork: hostNetwork === true,
      uid: String(uid ?? ""),
      name: String(name ?? ""),
      namespace: String(namespace ?? ""),
    });
  };
  const functions: Record<(typeof names)[number], (...args: unknown[]) => unknown> = {
    Quote: (value) => JSON.stringify(typeof value === "string" ? value : String(value ?? "")),
    Now: () => nanoTime(world.nowMs),
    StartTime: () => nanoTime(world.startMs),
    YAML: (value, indent) => indented(value, Number(indent ?? 0)),
    Version: () => world.version,
    NodeConditions: () => healthyConditions(world.nowMs),
    NodeIP: () => world.nodeIps(world.nodeName)[0] ?? "",
    NodeName: () => world.nodeName,
    NodePort: () => world.nodePort,
    PodIP: () => podIps([world.nodeName, false, "", "", ""])[0] ?? "",
    NodeIPWith: (node) => world.nodeIps(String(node))[0] ?? "",
    NodeIPsWith: (node) => [...world.nodeIps(String(node))],
    PodIPWith: (...args) => podIps(args)[0] ?? "",
    PodIPsWith: (...args) => [...podIps(args)],
  };
  return functions;
}

/** With fractions: stages that compare moments need them. */
function nanoTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.?0*Z$/, "Z");
}

/** A value as YAML on lines of its own; every level is two spaces before each line. */
function indented(value: unknown, levels: number): string {
  const text = stringify(value ?? null, { indent: 2, lineWidth: 0 }).trimEnd();
  return text.replace(/^/gm, "  ".repeat(levels));
}
