/**
 * The hash of a clique's pod template. Grove hashes a dump of Go structures, which no other program can reproduce;
 * Muster hashes the JSON. Muster's hashes begin with letters that Grove's alphabet lacks, so the two can be
 * distinguished: a hash of Grove is adopted instead of starting a rolling update of running pods.
 */
import { cliquesOf } from "../../../model/gang/setFacts.ts";
import type { CliqueTemplate, PodCliqueSet } from "../../../model/gang/types.ts";
import { fnv32, safeText } from "../../../model/objects/derivedName.ts";
import { canonicalJson } from "../../../model/objects/podTemplate.ts";

const ours = "mu-";

export function isForeignHash(hash: string | undefined): boolean {
  return hash !== undefined && !hash.startsWith(ours);
}

export function hashText(content: string): string {
  return `${ours}${safeText(fnv32(content))}${safeText(fnv32(content, 0x01000193)).slice(0, 5)}`;
}

const known = new WeakMap<object, Map<string, string>>();

/** Includes both priorities: that of the set applies to pods that have none. */
export function templateHash(set: PodCliqueSet, clique: CliqueTemplate): string {
  let hashes = known.get(set.spec);
  if (hashes === undefined) {
    hashes = new Map();
    known.set(set.spec, hashes);
  }
  let hash = hashes.get(clique.name);
  if (hash === undefined) {
    hash = hashText(contentOf(set, clique));
    hashes.set(clique.name, hash);
  }
  return hash;
}

const sets = new WeakMap<object, string>();

export function generationHash(set: PodCliqueSet): string {
  let hash = sets.get(set.spec);
  if (hash === undefined) {
    hash = hashText(
      cliquesOf(set)
        .map((clique) => contentOf(set, clique))
        .join("\n"),
    );
    sets.set(set.spec, hash);
  }
  return hash;
}

function contentOf(set: PodCliqueSet, { labels = {}, annotations = {}, spec }: CliqueTemplate): string {
  return canonicalJson({
    labels,
    annotations,
    podSpec: spec.podSpec,
    priorityClassName: set.spec.template.priorityClassName ?? "",
  });
}
