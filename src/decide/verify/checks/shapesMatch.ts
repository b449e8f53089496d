import type { Node } from "../../../model/kubernetes.generated.ts";
import { labelValue, marks } from "../../../model/profiles/marks.ts";
import type { Profile } from "../../../model/profiles/profile.ts";
import { type Profiles, profilesWith } from "../../../model/profiles/profiles.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { objectsOf } from "../clusterSnapshot.ts";

export const shapesMatch: Check = {
  id: "S11",
  title: "nodes match the profile that is declared for them",
  byDefault: true,
  settles: false,
  needs: ["nodes"],
  run: ({ snapshot, config }) => {
    const nodes = objectsOf<Node>(snapshot, "nodes");
    const profiles = profilesWith();
    const evidence: Evidence[] = [];
    const unknown = new Set<string>();
    let checkedNodes = 0;
    for (const node of nodes) {
      const profile = config.profile === undefined ? declared(node, profiles, unknown) : forNode(node, config.profile);
      if (profile === undefined) continue;
      checkedNodes++;
      const object = `nodes/${node.metadata.name}`;
      for (const problem of mismatches(node, profile)) evidence.push({ object, problem });
    }
    const skipped = unknown.size === 0 ? "" : `; skipped, unknown profile: ${[...unknown].sort().join(", ")}`;
    if (checkedNodes === 0 && config.profile !== undefined) {
      const object = `profiles/${config.profile.name}`;
      return passOrFail([{ object, problem: "no node has GPUs to compare with the profile" }], "");
    }
    if (checkedNodes === 0) return notApplicable(`no node names a known profile${skipped}`);
    return passOrFail(evidence, `${checkedNodes} nodes${skipped}`);
  },
};

/** The profile in the node's annotation. An unknown profile is skipped; in `--profile` it is an error. */
function declared({ metadata }: Node, profiles: Profiles, unknown: Set<string>): Profile | undefined {
  const name = metadata.annotations?.[marks.profile] ?? "";
  if (name === "") return undefined;
  const profile = profiles.get(name);
  if (profile === undefined) unknown.add(name);
  return profile;
}

/** A profile with GPUs applies to nodes with GPUs, a profile without GPUs to the others. */
function forNode(node: Node, profile: Profile): Profile | undefined {
  const hasGpu =
    node.metadata.labels?.["nvidia.com/gpu.present"] === "true" ||
    node.status?.capacity?.["nvidia.com/gpu"] !== undefined;
  return hasGpu === (profile.gpu !== undefined) ? profile : undefined;
}

function mismatches({ metadata, status }: Node, profile: Profile): string[] {
  const labels = metadata.labels ?? {};
  const problems: string[] = [];
  const compare = (what: string, has: string | undefined, expected: string): void => {
    if (has !== expected) problems.push(`${what} is ${has ?? "not set"}, but profile ${profile.name} has ${expected}`);
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
