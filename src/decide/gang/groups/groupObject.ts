/** The PodCliqueScalingGroup that should exist for a group of a set in one of its replicas. */
import {
  annotations as annotationKeys,
  components,
  finalizers,
  groveApiVersion,
  labels,
} from "../../../model/gang/keys.ts";
import { groupMinAvailable, groupReplicas } from "../../../model/gang/setFacts.ts";
import type { GroupTemplate, PodCliqueScalingGroup, PodCliqueSet } from "../../../model/gang/types.ts";
import type { NewObject } from "../../../model/intent.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import { metadataPatch } from "../cliques/cliqueObject.ts";
import { childLabels, ownerOf } from "../gangLabels.ts";
import { groupName } from "../names.ts";

export function groupObject(
  set: PodCliqueSet,
  index: number,
  template: GroupTemplate,
): NewObject & Pick<PodCliqueScalingGroup, "spec"> {
  const name = groupName(set.metadata.name, index, template.name);
  const mnnvl = set.metadata.annotations?.[annotationKeys.mnnvlGroup];
  const annotations = { ...(mnnvl !== undefined && { [annotationKeys.mnnvlGroup]: mnnvl }), ...template.annotations };
  return {
    apiVersion: groveApiVersion,
    kind: "PodCliqueScalingGroup",
    metadata: {
      name,
      namespace: set.metadata.namespace ?? "default",
      labels: { ...childLabels(set.metadata.name, components.group, name), [labels.setReplica]: String(index) },
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ownerReferences: [ownerOf(set)],
      finalizers: [finalizers.PodCliqueScalingGroup],
    },
    spec: {
      replicas: groupReplicas(template),
      minAvailable: groupMinAvailable(template),
      cliqueNames: template.cliqueNames,
    },
  };
}

/** `replicas` is set at creation and belongs to the autoscaler or user that scales the group since. */
export function groupPatch(
  stored: PodCliqueScalingGroup,
  wanted: ReturnType<typeof groupObject>,
): JsonObject | undefined {
  const metadata = metadataPatch(stored, wanted);
  const spec: JsonObject = {};
  if (stored.spec.minAvailable !== wanted.spec.minAvailable) spec["minAvailable"] = wanted.spec.minAvailable ?? 1;
  if (!equalFields(stored.spec.cliqueNames, wanted.spec.cliqueNames))
    spec["cliqueNames"] = [...wanted.spec.cliqueNames];
  const hasSpec = Object.keys(spec).length > 0;
  if (metadata === undefined && !hasSpec) return undefined;
  return { ...(metadata && { metadata }), ...(hasSpec && { spec }) };
}
