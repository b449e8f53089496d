/** A pod for a Job: tracked by a finalizer, and in an Indexed Job with its completion index. */
import type { Container, Job, PodSpec } from "../../../model/kubernetes.generated.ts";
import type { TakenNames } from "../../../model/objects/derivedName.ts";
import { podFromTemplate } from "../../../model/objects/ownership.ts";
import { failureCountKey, indexKey } from "./jobIndexes.ts";
import { trackingFinalizer } from "./jobTally.ts";

export interface IndexedPart {
  readonly index: number;
  /** How often the index has failed, where each index has its own limit. */
  readonly failures: number | undefined;
}

/** Builds the pods of a Job, each with a unique name. */
export class JobPods {
  readonly #job: Job;
  readonly #taken: TakenNames;

  constructor(job: Job, taken: TakenNames) {
    this.#job = job;
    this.#taken = taken;
  }

  make(part: IndexedPart | undefined) {
    const job = this.#job;
    const { name, uid } = job.metadata;
    const base = part === undefined ? `${name}-` : `${name}-${part.index}-`;
    const podName = this.#taken.take({ base, uid: `${uid}/${part?.index ?? ""}` });
    const pod = podFromTemplate(job, job.spec?.template, podName);
    const finalizers = [...(pod.metadata.finalizers ?? []), trackingFinalizer];
    if (part === undefined) return { ...pod, metadata: { ...pod.metadata, finalizers } };
    const text = String(part.index);
    const { failures } = part;
    return {
      ...pod,
      metadata: {
        ...pod.metadata,
        finalizers,
        labels: { ...pod.metadata.labels, [indexKey]: text },
        annotations: {
          ...pod.metadata.annotations,
          [indexKey]: text,
          ...(failures !== undefined && { [failureCountKey]: String(failures) }),
        },
      },
      spec: withIndex({ ...pod.spec, hostname: `${name}-${part.index}` }),
    };
  }
}

function withIndex(spec: PodSpec): PodSpec {
  const tell = (containers: readonly Container[]): Container[] =>
    containers.map((container) => {
      if (container.env?.some(({ name }) => name === "JOB_COMPLETION_INDEX")) return container;
      const valueFrom = { fieldRef: { apiVersion: "v1", fieldPath: `metadata.labels['${indexKey}']` } };
      return { ...container, env: [...(container.env ?? []), { name: "JOB_COMPLETION_INDEX", valueFrom }] };
    });
  return {
    ...spec,
    containers: tell(spec.containers),
    ...(spec.initContainers && { initContainers: tell(spec.initContainers) }),
  };
}
