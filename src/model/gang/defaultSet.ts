/**
 * Defaults of a PodCliqueSet. Runs on create and update, after the defaults of the schema and before its validation.
 */
import type { CliqueTemplate, GroupTemplate, PodCliqueSet } from "./types.ts";

export function defaultSet(set: PodCliqueSet): PodCliqueSet {
  const template = set.spec?.template;
  if (template === undefined || template === null) return set;
  return {
    ...set,
    spec: {
      ...set.spec,
      template: {
        ...template,
        ...(Array.isArray(template.cliques) && { cliques: template.cliques.map(defaultClique) }),
        ...(Array.isArray(template.podCliqueScalingGroups) && {
          podCliqueScalingGroups: template.podCliqueScalingGroups.map(defaultGroup),
        }),
        terminationDelay: template.terminationDelay ?? "4h0m0s",
        headlessServiceConfig: template.headlessServiceConfig ?? { publishNotReadyAddresses: true },
      },
    },
  };
}

/** Missing or zero replicas default to 1, and minAvailable defaults to replicas. */
function defaultClique(clique: CliqueTemplate): CliqueTemplate {
  const spec = clique?.spec;
  if (spec === undefined || spec === null) return clique;
  const replicas = (spec.replicas ?? 0) === 0 ? 1 : spec.replicas;
  const { autoScalingConfig } = spec;
  return {
    ...clique,
    spec: {
      ...spec,
      roleName: spec.roleName ?? "",
      replicas,
      minAvailable: spec.minAvailable ?? replicas,
      ...(spec.podSpec && {
        podSpec: {
          ...spec.podSpec,
          restartPolicy: spec.podSpec.restartPolicy ?? "Always",
          terminationGracePeriodSeconds: spec.podSpec.terminationGracePeriodSeconds ?? 30,
        },
      }),
      ...(autoScalingConfig && {
        autoScalingConfig: { ...autoScalingConfig, minReplicas: autoScalingConfig.minReplicas ?? replicas },
      }),
    },
  };
}

function defaultGroup(group: GroupTemplate): GroupTemplate {
  const { scaleConfig } = group ?? {};
  if (scaleConfig === undefined || scaleConfig === null) return group;
  return { ...group, scaleConfig: { ...scaleConfig, minReplicas: scaleConfig.minReplicas ?? group.replicas ?? 1 } };
}
