/**
 * The names of the objects of a set. A name is always built from its components and never parsed: `a-b` may end in `b`
 * without being a `b`.
 */
export const setReplicaName = (set: string, index: number): string => `${set}-${index}`;

export const cliqueName = (set: string, index: number, clique: string): string => `${set}-${index}-${clique}`;

export const groupName = (set: string, index: number, group: string): string => `${set}-${index}-${group}`;

/** A clique in one replica of a scaling group. `group` is the complete name of the group. */
export const memberName = (group: string, replica: number, clique: string): string => `${group}-${replica}-${clique}`;

/**
 * The gang of a replica beyond the group's minimum. Its index starts at 0 there: it is not the index of the replica.
 */
export const scaledGangName = (group: string, replica: number, minAvailable: number): string =>
  `${group}-${replica - minAvailable}`;

export const tokenSecretName = (set: string): string => `${set}-ic-sat`;

export const roleName = (set: string): string => `grove.io:pcs:${set}`;

export const claimName = (owner: string, replica: number | "all", template: string): string =>
  `${owner}-${replica}-${template}`;

export const serviceDomain = (service: string, namespace: string): string =>
  `${service}.${namespace}.svc.cluster.local`;
