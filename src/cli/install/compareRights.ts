import type { NewObject } from "../../model/intent.ts";
import { componentRights, ownNamespaceRights, type Right, reservationRights } from "./installRights.ts";

/** `create pods/binding`, `list queues.scheduling.run.ai`: a verb on a resource, as metrics and audit logs have it. */
export type RightWord = string;

export interface RightsCompared {
  /** Used, and granted by no role. */
  readonly missing: readonly RightWord[];
  /** Granted, not used, and not marked as needed only rarely. */
  readonly unused: readonly RightWord[];
  /** Granted for a rare case that did not occur. */
  readonly seldom: readonly RightWord[];
}

/** Compares the permissions that the roles of an installation grant an account with those that it used. */
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
  // A streaming watch needs no `list`; older API servers require one.
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

/** Permissions on owner kinds of other projects count as rare: no cluster has all of them. */
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
