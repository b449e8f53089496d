import type { NewObject } from "../../model/intent.ts";
import { componentRights, ownNamespaceRights, type Right, reservationRights } from "./installRights.ts";

/** `create pods/binding`, `list queues.scheduling.run.ai`: as metrics and audit logs can say it. */
export type RightWord = string;

export interface RightsCompared {
  /** Asked for, and given by no role. */
  readonly missing: readonly RightWord[];
  /** Given, not asked for, and not said to be for a rare occasion. */
  readonly unused: readonly RightWord[];
  /** Given for a rare occasion that did not come. */
  readonly seldom: readonly RightWord[];
}

/** Holds what the roles of an installation give one account against what was asked for with them. */
export function compareRights(
  objects: readonly NewObject[],
  used: ReadonlySet<RightWord>,
  account = "muster",
): RightsCompared {
  const granted = new Set<RightWord>();
  for (const role of objects.filter(({ kind }) => kind.endsWith("Role"))) {
    if (!isGiven(objects, role, account)) continue;
    for (const word of wordsOf(role["rules"] as readonly Right[])) granted.add(word);
  }
  const rare = seldomWords();
  // A watch that streams its first list needs no `list`; with an older API server it does.
  const isFirstList = (word: RightWord): boolean => word.startsWith("list ") && used.has(word.replace("list", "watch"));
  const idle = [...granted].filter((word) => !used.has(word) && !isFirstList(word)).sort();
  return {
    missing: [...used].filter((word) => !granted.has(word)).sort(),
    unused: idle.filter((word) => !rare.has(word)),
    seldom: idle.filter((word) => rare.has(word)),
  };
}

function isGiven(objects: readonly NewObject[], role: NewObject, account: string): boolean {
  return objects.some((binding) => {
    const { roleRef, subjects } = binding as unknown as {
      roleRef?: { name: string };
      subjects?: readonly { name: string }[];
    };
    const isOfRole = binding.kind === `${role.kind}Binding` && roleRef?.name === role.metadata.name;
    return isOfRole && subjects?.some(({ name }) => name === account) === true;
  });
}

function wordsOf(rules: readonly Pick<Right, "apiGroups" | "resources" | "verbs">[]): RightWord[] {
  return rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => {
        const [kind = "", below] = resource.split("/");
        const named = group === "" ? kind : `${kind}.${group}`;
        return verbs.map((verb) => `${verb} ${below === undefined ? named : `${named}/${below}`}`);
      }),
    ),
  );
}

/** Owners of other projects' kinds count as rare: no cluster has all of them. */
function seldomWords(): ReadonlySet<RightWord> {
  const all = [
    ...Object.values(componentRights).flat(),
    ...reservationRights,
    ...ownNamespaceRights.lease,
    ...ownNamespaceRights.keys,
  ];
  return new Set(
    all.flatMap((right) => {
      const verbs = right.why.startsWith("owners of pods") ? right.verbs : Object.keys(right.seldom ?? {});
      return wordsOf([{ ...right, verbs }]);
    }),
  );
}
