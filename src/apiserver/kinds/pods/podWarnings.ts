/** Warnings for pods that are accepted and most likely mistaken; clients print them. */
import type { Container, PodSpec, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";

type Warn = (text: string) => void;

const renamedLabels = new Map([
  ["beta.kubernetes.io/os", ["v1.14", "kubernetes.io/os"]],
  ["beta.kubernetes.io/arch", ["v1.14", "kubernetes.io/arch"]],
  ["beta.kubernetes.io/instance-type", ["v1.17", "node.kubernetes.io/instance-type"]],
  ["failure-domain.beta.kubernetes.io/region", ["v1.17", "topology.kubernetes.io/region"]],
  ["failure-domain.beta.kubernetes.io/zone", ["v1.17", "topology.kubernetes.io/zone"]],
] as const);

const oldVolumes = new Map([
  ["gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"],
  ["cephfs", "deprecated in v1.28, non-functional in v1.31+"],
  ["rbd", "deprecated in v1.28, non-functional in v1.31+"],
  ["glusterfs", "deprecated in v1.25, non-functional in v1.26+"],
  ["scaleIO", "deprecated in v1.16, non-functional in v1.22+"],
  ["flocker", "deprecated in v1.22, non-functional in v1.25+"],
  ["quobyte", "deprecated in v1.22, non-functional in v1.25+"],
  ["storageos", "deprecated in v1.22, non-functional in v1.25+"],
  ["photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"],
]);

export function warnAboutTemplate(template: PodTemplateSpec | undefined, path: string, warn: Warn): void {
  if (template?.spec !== undefined) warnAboutPodSpec(template.spec, `${path}.spec`, warn);
}

export function warnAboutPodSpec(spec: PodSpec, path: string, warn: Warn): void {
  for (const key in spec.nodeSelector) {
    const renamed = renamedLabels.get(key as Parameters<typeof renamedLabels.get>[0]);
    if (renamed === undefined) continue;
    warn(`${path}.nodeSelector[${key}]: deprecated since ${renamed[0]}; use ${JSON.stringify(renamed[1])} instead`);
  }
  if ((spec.terminationGracePeriodSeconds ?? 0) < 0) {
    const why = "must be >= 0; negative values are invalid and will be treated as 1";
    warn(`${path}.terminationGracePeriodSeconds: ${why}`);
  }
  if (spec.volumes !== undefined) {
    for (const [i, volume] of spec.volumes.entries()) {
      for (const source in volume) {
        const why = oldVolumes.get(source);
        if (why !== undefined) warn(`${path}.volumes[${i}].${source}: ${why}`);
      }
    }
  }
  if (spec.imagePullSecrets !== undefined) {
    for (const [i, secret] of spec.imagePullSecrets.entries()) {
      if (!secret.name) warn(`${path}.imagePullSecrets[${i}].name: invalid empty name ""`);
    }
  }
  for (const field of ["initContainers", "containers"] as const) {
    const containers = spec[field];
    if (containers === undefined) continue;
    for (let i = 0; i < containers.length; i++) {
      const container = containers[i];
      if (container !== undefined) warnAboutContainer(container, path, field, i, warn);
    }
  }
}

function warnAboutContainer(container: Container, base: string, field: string, index: number, warn: Warn): void {
  const { env, ports, resources } = container;
  if (env !== undefined && env.length > 1) {
    const seen = new Set<string>();
    for (const [i, { name }] of env.entries()) {
      if (seen.has(name)) {
        const why = `hides previous definition of ${JSON.stringify(name)}, which may be dropped when using apply`;
        warn(`${base}.${field}[${index}].env[${i}]: ${why}`);
      }
      seen.add(name);
    }
  }
  if (ports !== undefined && ports.length > 1) {
    const places = new Map<string, number>();
    for (const [i, { containerPort, protocol, hostIP }] of ports.entries()) {
      const key = JSON.stringify([containerPort, protocol, hostIP]);
      const first = places.get(key);
      if (first === undefined) {
        places.set(key, i);
        continue;
      }
      const path = `${base}.${field}[${index}].ports`;
      warn(`${path}[${i}]: duplicate port definition with ${path}[${first}]`);
    }
  }
  for (const list of ["limits", "requests"] as const) {
    for (const name of ["memory", "ephemeral-storage"]) {
      const amount = resources?.[list]?.[name];
      // `100m` of memory is a tenth of a byte; its author most likely meant mebibytes.
      if (amount === undefined || !/[num]$/.test(amount)) continue;
      const why = `fractional byte value ${JSON.stringify(amount)} is invalid, must be an integer`;
      warn(`${base}.${field}[${index}].resources.${list}[${name}]: ${why}`);
    }
  }
}
