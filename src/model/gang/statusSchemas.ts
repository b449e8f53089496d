/** The schemas of the status of the gang kinds. */
import {
  conditionFields,
  described,
  fields,
  flag,
  int32,
  int64,
  list,
  oneOf,
  type Schema,
  text,
  time,
  withDefault,
} from "../objects/crdSchema.ts";

const counted = (description: string): Schema => described(withDefault(int32, 0), description);

const { type, status, reason, message, lastTransitionTime } = conditionFields;
export const observedGeneration = described(int64, "The generation of the spec that the status is about.");
export const conditions = described(
  list(fields({ type, status, reason, message, lastTransitionTime, observedGeneration }, ["type", "status"])),
  "The latest observed conditions.",
);
const lastErrors = described(
  list(
    fields(
      {
        code: described(text, "The code of the error, as Grove names it."),
        description: described(text, "The error."),
        observedAt: described(time, "When it occurred."),
      },
      ["code", "description"],
    ),
  ),
  "Refused writes. An error is removed when the write succeeds.",
);
const gangTerminations = described(
  list(
    fields({
      replicaIndex: described(int32, "The replica that is terminated."),
      startedAt: described(time, "When the termination was decided."),
      because: described(text, "Why it is terminated."),
      podCliques: described(
        list(fields({ name: described(text, "The name of a PodClique."), uid: described(text, "Its UID.") })),
        "The PodCliques that are deleted.",
      ),
    }),
  ),
  "Terminations that were decided and are not complete. Not in Grove.",
);
const scheduleLoss = described(
  fields({
    count: described(int64, "How often all scheduled replicas were lost."),
    replicas: described(int32, "How many were scheduled before the last loss."),
    at: described(time, "When the last loss was observed."),
    announced: described(int64, "The last loss that has an Event."),
  }),
  "Losses of all scheduled replicas. Not in Grove.",
);

const updateStartedAt = described(time, "When the update began.");
const updateEndedAt = described(time, "When it was complete; not set while it runs.");
const podCliqueSetGenerationHash = described(text, "The hash of the template that is rolled out.");
const updatedPodCliquesCount = described(int32, "PodCliques of the new template.");
const totalPodCliquesCount = described(int32, "All PodCliques.");
const currentPodCliqueSetGenerationHash = described(text, "The hash of the template that the pods are of.");
const hpaPodSelector = described(text, "The selector of its pods, for the scale subresource.");

export const setStatus = fields({
  observedGeneration,
  conditions,
  lastErrors,
  replicas: described(int32, "The number of replicas."),
  updatedReplicas: counted("Replicas of the current template."),
  availableReplicas: counted("Replicas whose cliques and groups have their minimum."),
  hpaPodSelector,
  podGangStatuses: described(
    list(
      fields({
        name: described(text, "The name of the PodGang."),
        phase: described(oneOf("Pending", "Starting", "Running", "Failed", "Succeeded"), "The phase of the PodGang."),
        conditions,
      }),
    ),
    "The state of each PodGang. Accepted for objects of Grove and not written.",
  ),
  currentGenerationHash: described(text, "The hash of the current template."),
  updateProgress: described(
    fields({
      updateStartedAt,
      updateEndedAt,
      updatedPodCliquesCount,
      totalPodCliquesCount,
      updatedPodCliqueScalingGroupsCount: described(int32, "Scaling groups of the new template."),
      totalPodCliqueScalingGroupsCount: described(int32, "All scaling groups."),
      currentlyUpdating: described(
        list(fields({ replicaIndex: described(int32, "The index of the replica."), updateStartedAt, updateEndedAt })),
        "The replicas that are being updated.",
      ),
    }),
    "The last update of the template.",
  ),
  fullLossPolicy: described(
    text,
    "The policy of the operator for gangs without a scheduled pod, Suppress or Terminate. Not in Grove.",
  ),
  gangTerminations,
});

export const cliqueStatus = fields({
  observedGeneration,
  lastErrors,
  replicas: described(int32, "The number of pods."),
  readyReplicas: counted("Pods that are ready."),
  scheduledReplicas: counted("Pods that are bound to a node."),
  scheduleGatedReplicas: counted("Pods that have a scheduling gate."),
  updatedReplicas: counted("Pods of the current template."),
  hpaPodSelector,
  conditions,
  currentPodCliqueSetGenerationHash,
  currentPodTemplateHash: described(text, "The hash of the pod template that the pods are of."),
  updateProgress: described(
    fields({
      updateStartedAt,
      updateEndedAt,
      podCliqueSetGenerationHash,
      podTemplateHash: described(text, "The hash of the pod template that is rolled out."),
      readyPodsSelectedToUpdate: described(
        fields({
          current: described(text, "The pod that is being replaced."),
          completed: described(list(text), "Pods that were replaced."),
        }),
        "The ready pods that the update replaces, one at a time.",
      ),
    }),
    "The last update of the pods.",
  ),
  everScheduled: described(flag, "Whether the minimum was ever scheduled. Not in Grove."),
  scheduleLoss,
});

export const groupStatus = fields({
  observedGeneration,
  lastErrors,
  replicas: described(int32, "The number of replicas."),
  scheduledReplicas: counted("Replicas with the minimum of each clique scheduled."),
  availableReplicas: counted("Replicas with the minimum of each clique available."),
  updatedReplicas: counted("Available replicas of the current template."),
  selector: described(text, "The selector of its pods, for the scale subresource."),
  conditions,
  currentPodCliqueSetGenerationHash,
  updateProgress: described(
    fields({
      updateStartedAt,
      updateEndedAt,
      podCliqueSetGenerationHash,
      updatedPodCliquesCount,
      totalPodCliquesCount,
      readyReplicaIndicesSelectedToUpdate: described(
        fields({
          current: described(int32, "The replica that is being replaced."),
          completed: described(list(int32), "Replicas that were replaced."),
        }),
        "The ready replicas that the update replaces, one at a time.",
      ),
    }),
    "The last update of the replicas.",
  ),
  everHealthy: described(flag, "Whether the group was ever not in breach. Not in Grove."),
  scheduleLoss,
  gangTerminations,
});
