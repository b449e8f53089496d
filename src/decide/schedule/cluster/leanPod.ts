import type { Container, EnvVar, Pod } from "../../../model/kubernetes.generated.ts";

/**
 * A pod without the fields that no decision reads. A cluster's pods are most of a controller's memory, and most of a
 * pod is environment variables, mounts, probes and managedFields. Only for caches that hold copies of their own; in the
 * API server's process the objects are in memory anyway.
 *
 * Writes are patches that carry the revision that was read, so a stripped pod is never sent back.
 */
export function leanPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const { managedFields: _, annotations, ...about } = metadata as Pod["metadata"] & { managedFields?: unknown };
  const lean = {
    ...pod,
    metadata: { ...about, ...(annotations !== undefined && { annotations: withoutBulk(annotations) }) },
  };
  if (spec === undefined) return lean;
  const { initContainers } = spec;
  // A pod that has ended is counted and cleaned up, and never placed again.
  if (status?.phase === "Succeeded" || status?.phase === "Failed") {
    const { nodeName, schedulerName, resourceClaims, restartPolicy } = spec;
    return {
      ...lean,
      spec: {
        containers: spec.containers.map(bare),
        ...(initContainers !== undefined && { initContainers: initContainers.map(bare) }),
        ...(nodeName !== undefined && { nodeName }),
        ...(schedulerName !== undefined && { schedulerName }),
        ...(resourceClaims !== undefined && { resourceClaims }),
        ...(restartPolicy !== undefined && { restartPolicy }),
      },
    };
  }
  return {
    ...lean,
    spec: {
      ...spec,
      containers: spec.containers.map(leanContainer),
      ...(initContainers !== undefined && {
        // The cliques that a pod of a gang waits for are in the arguments of an init container.
        initContainers: initContainers.map((each) => ({
          ...leanContainer(each),
          ...(each.args !== undefined && { args: each.args }),
        })),
      }),
    },
  };
}

/** The only place where the number of pods of an AmlJob can be read. */
const countedVariable = "AZUREML_NODE_COUNT";

function leanContainer(container: Container): Container {
  const { ports, resources, envFrom, env } = container;
  const sources = env?.filter(({ name, valueFrom }) => name === countedVariable || valueFrom !== undefined);
  return {
    ...bare(container),
    ...(ports !== undefined && { ports }),
    ...(resources !== undefined && { resources }),
    ...(envFrom !== undefined && { envFrom }),
    ...(sources !== undefined && sources.length > 0 && { env: sources satisfies EnvVar[] }),
  };
}

function bare({ name, restartPolicy }: Container): Container {
  return { name, ...(restartPolicy !== undefined && { restartPolicy }) };
}

/** `kubectl apply` keeps the last manifest in an annotation. */
function withoutBulk(annotations: Record<string, string>): Record<string, string> {
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...rest } = annotations;
  return rest;
}
