/** Builders for PodCliqueSets; every field has a default. */
import type { CliqueTemplate, GroupTemplate, PodCliqueSet, SetTemplate } from "../../src/model/gang/types.ts";

export interface CliqueOptions {
  readonly name: string;
  readonly replicas?: number;
  readonly min?: number;
  readonly after?: string[];
  readonly more?: Partial<CliqueTemplate>;
  readonly spec?: object;
  readonly pod?: object;
}

export function clique({ name, replicas = 1, min, after, more, spec, pod }: CliqueOptions): CliqueTemplate {
  return {
    name,
    ...more,
    spec: {
      roleName: `role-${name}`,
      replicas,
      ...(min !== undefined && { minAvailable: min }),
      ...(after && { startsAfter: after }),
      podSpec: { containers: [{ name: "main", image: "registry/app:1" }], ...pod },
      ...spec,
    },
  } as CliqueTemplate;
}

export function pcs(
  name: string,
  cliques: readonly CliqueTemplate[],
  wish: {
    replicas?: number;
    groups?: GroupTemplate[];
    template?: Partial<SetTemplate>;
    metadata?: object;
    spec?: object;
  } = {},
): PodCliqueSet {
  const { replicas = 1, groups, template, metadata, spec } = wish;
  return {
    apiVersion: "grove.io/v1alpha1",
    kind: "PodCliqueSet",
    metadata: { name, namespace: "default", ...metadata },
    spec: {
      replicas,
      ...spec,
      template: { cliques: [...cliques], ...(groups && { podCliqueScalingGroups: groups }), ...template },
    },
  } as unknown as PodCliqueSet;
}
