import type { Node } from "../../../model/kubernetes.generated.ts";
import { labelValue, marks } from "../../../model/profiles/marks.ts";
import type { Profile } from "../../../model/profiles/profile.ts";
import { type Profiles, profilesWith } from "../../../model/profiles/profiles.ts";
import { type Check, type Evidence, judged, notApplicable } from "../check.ts";
import { objectsOf } from "../clusterSnapshot.ts";

export const shapesMatch: Check = {
  id: "S11",
  title: "nodes have the shape of the profile that was declared for them",
  byDefault: true,
  settles: false,
  needs: ["nodes"],
  run: ({ snapshot, config }) => {
    const nodes = objectsOf<Node>(snapshot, "nodes");
    const profiles = profilesWith();
    const evidence: Evidence[] = [];
    const unknown = new Set<string>();
    let looked = 0;
    for (const node of nodes) {
      const profile = config.profile === undefined ? declared(node, profiles, unknown) : forNode(node, config.profile);
      if (profile === undefined) continue;
      looked++;
      const object = `nodes/${node.metadata.name}`;
      for (const problem of mismatches(node, profile)) evidence.push({ object, problem });
    }
    const skipped = unknown.size === 0 ? "" : `; not looked at, unknown profile: ${[...unknown].sort().join(", ")}`;
    if (looked === 0 && config.profile !== undefined) {
      const object = `profiles/${config.profile.name}`;
      return judged([{ object, problem: "no node has a GPU to hold it against" }], "");
    }
    if (looked === 0) return notApplicable(`no node names a known profile${skipped}`);
    return judged(evidence, `${looked} nodes${skipped}`);
  },
};

/**
 * The profile that the node says it was made from. An unknown one is skipped; requested by name it would be an error.
 */
function declared({ metadata }: Node, profiles: Profiles, unknown: Set<string>): Profile | undefined {
  const name = metadata.annotations?.[marks.profile] ?? "";
  if (name === "") return undefined;
  const profile = profiles.get(name);
  if (profile === undefined) unknown.add(name);
  return profile;
}

/** A profile with GPUs is about the nodes with GPUs, one without about the others. */
function forNode(node: Node, profile: Profile): Profile | undefined {
  const hasGpu =
    node.metadata.labels?.["nvidia.com/gpu.present"] === "true" ||
    node.status?.capacity?.["nvidia.com/gpu"] !== undefined;
  return hasGpu === (profile.gpu !== undefined) ? profile : undefined;
}

function mismatches({ metadata, status }: Node, profile: Profile): string[] {
  const labels = metadata.labels ?? {};
  const problems: string[] = [];
  const compare = (what: string, has: string | undefined, wants: string): void => {
    if (has !== wants) problems.push(`${what} is ${has ?? "not said"}, profile ${profile.name} has ${wants}`);
  };
  compare("arch", labels["kubernetes.io/arch"] ?? status?.nodeInfo?.architecture, profile.arch);
  const { gpu } = profile;
  if (gpu === undefined) return problems;
  const product = labels["nvidia.com/gpu.product"]?.replace(/-(?:SHARED|MIG-.*)$/, "");
  compare("GPU product", product, labelValue(gpu.product));
  compare("GPU count", labels["nvidia.com/gpu.count"], String(gpu.count));
  compare("GPU memory (MiB)", labels["nvidia.com/gpu.memory"], String(gpu.memoryMiB));
  return problems;
}
