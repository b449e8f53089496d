import type { Container, EnvVar, Pod } from "../../../model/kubernetes.generated.ts";

/**
 * A pod without what no decision reads: a cluster's pods are most of a controller's memory, and most of a pod is
 * variables, mounts, probes and managedFields. Only for caches that hold copies of their own; inside the API
 * server's process the objects are there anyway.
 *
 * Writes are patches of what changes and carry the revision that was read, so nothing of this is ever sent back.
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
  // A pod that has ended is counted and cleaned up after, and never placed again.
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
        // What a pod of a gang waits for stands in the arguments of one of these.
        initContainers: initContainers.map((each) => ({
          ...leanContainer(each),
          ...(each.args !== undefined && { args: each.args }),
        })),
      }),
    },
  };
}

/** How many pods an AmlJob has, which is said nowhere else. */
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

/** kubectl keeps whole manifests in annotations. */
function withoutBulk(annotations: Record<string, string>): Record<string, string> {
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...rest } = annotations;
  return rest;
}
