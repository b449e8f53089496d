/**
 * The names of what a set is made of. A name is always built from its parts and never taken apart: `a-b` may end in `b`
 * and be no `b`.
 */
export const setReplicaName = (set: string, index: number): string => `${set}-${index}`;

export const cliqueName = (set: string, index: number, clique: string): string => `${set}-${index}-${clique}`;

export const groupName = (set: string, index: number, group: string): string => `${set}-${index}-${group}`;

/** A clique in one replica of a scaling group, whose name is given whole. */
export const memberName = (group: string, replica: number, clique: string): string => `${group}-${replica}-${clique}`;

/** The gang of a replica beyond the group's minimum. Its number counts from there: it is not the replica's number. */
export const scaledGangName = (group: string, replica: number, minAvailable: number): string =>
  `${group}-${replica - minAvailable}`;

export const tokenSecretName = (set: string): string => `${set}-ic-sat`;

export const roleName = (set: string): string => `grove.io:pcs:${set}`;

export const claimName = (owner: string, replica: number | "all", template: string): string =>
  `${owner}-${replica}-${template}`;

export const serviceDomain = (service: string, namespace: string): string =>
  `${service}.${namespace}.svc.cluster.local`;
