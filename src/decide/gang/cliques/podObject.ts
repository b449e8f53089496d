/** The pod that a clique creates: its template with what the gang needs. */
import {
  annotations as annotationKeys,
  gangGate,
  initContainerName,
  labels,
  podInfoFolder,
  startOrderProgram,
  subGroupLabel,
  variables,
} from "../../../model/gang/keys.ts";
import { schedulerOf } from "../../../model/gang/setFacts.ts";
import {
  type GangSettings,
  marksSimulated,
  simulatedInitImage,
  startWaitAnnotation,
  startWaitPending,
} from "../../../model/gang/settings.ts";
import type { PodClique, PodCliqueSet } from "../../../model/gang/types.ts";
import type { NewObject } from "../../../model/intent.ts";
import type { Container, EnvVar, Pod, PodSpec } from "../../../model/kubernetes.generated.ts";
import { suffixOf } from "../../../model/objects/derivedName.ts";
import { defaultLabels, ownerOf } from "../gangLabels.ts";
import { serviceDomain, setReplicaName, tokenSecretName } from "../names.ts";
import { claimsOfPod, type PodPlace } from "../sets/claims.ts";
import { fromLabel, withVariables } from "./cliqueObject.ts";
import { reservedVariables, waitArguments } from "./startOrder.ts";

/**
 * The name of the pod with this index. It looks random, as Grove's names do, and is derived from the clique's UID, so
 * that a create that is sent twice creates one pod. Later attempts are used while a name is taken.
 */
export function podName(clique: PodClique, index: number, attempt: number): string {
  const { name, uid } = clique.metadata;
  return `${name}-${suffixOf(uid, index, attempt)}`;
}

/** The index of a pod in its clique. */
export function podIndexOf(pod: Pod): number | undefined {
  const text = pod.metadata.labels?.[labels.podIndex];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

export interface PodInput {
  readonly set: PodCliqueSet;
  readonly clique: PodClique;
  readonly place: PodPlace;
  readonly name: string;
  readonly settings: GangSettings;
}

export function podObject({ set, clique, place, name, settings }: PodInput): NewObject & { spec: PodSpec } {
  const { metadata, spec } = clique;
  const namespace = metadata.namespace ?? "default";
  const service = setReplicaName(set.metadata.name, place.setReplica);
  const gang = metadata.labels?.[labels.podGang] ?? service;
  const scheduler = schedulerOf(set, settings.defaultProfile);
  const isKai = scheduler === "kai-scheduler";
  const waits = waitArguments(set, place.setReplica, spec.startsAfter ?? []);
  const isSimulated = waits.length > 0 && marksSimulated(settings);
  const annotations = {
    ...metadata.annotations,
    ...(isKai && { [annotationKeys.skipPodGrouper]: "true", [annotationKeys.podGroupName]: gang }),
    ...(isSimulated && { [startWaitAnnotation]: startWaitPending }),
  };
  const told = withVariables(withoutReserved(spec.podSpec, place.group !== undefined), [
    { name: variables.setName, value: set.metadata.name },
    { name: variables.setIndex, value: String(place.setReplica) },
    { name: variables.cliqueName, value: metadata.name },
    { name: variables.service, value: serviceDomain(service, namespace) },
    fromLabel(variables.podIndex, labels.podIndex),
  ]);
  const claimed = withClaims(told, claimsOfPod(place));
  const ordered = waits.length === 0 ? claimed : withWait(claimed, waits, set, settings);
  // kai-scheduler takes the priority from the PodGroup of the whole gang; the default scheduler reads only pods.
  const priority = spec.podSpec.priorityClassName ?? (isKai ? "" : (set.spec.template.priorityClassName ?? ""));
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      labels: {
        ...defaultLabels(set.metadata.name),
        ...metadata.labels,
        [labels.clique]: metadata.name,
        [labels.setReplica]: String(place.setReplica),
        [labels.podGang]: gang,
        [labels.podIndex]: String(place.podIndex),
        ...(isKai && { [subGroupLabel]: metadata.name }),
      },
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ownerReferences: [ownerOf(clique)],
    },
    spec: {
      ...ordered,
      schedulerName: scheduler,
      schedulingGates: [{ name: gangGate }],
      hostname: `${metadata.name}-${place.podIndex}`,
      subdomain: service,
      ...(priority !== "" && { priorityClassName: priority }),
    },
  };
}

/** A user's variable of a reserved name is dropped; those of the group are in the clique's spec already and stay. */
function withoutReserved(podSpec: PodSpec, isMember: boolean): PodSpec {
  const ofGroup: string[] = isMember ? [variables.groupName, variables.groupPods, variables.groupIndex] : [];
  const isAllowed = ({ name }: EnvVar): boolean => !reservedVariables.has(name) || ofGroup.includes(name);
  const clean = (container: Container): Container =>
    container.env === undefined ? container : { ...container, env: container.env.filter(isAllowed) };
  return {
    ...podSpec,
    containers: podSpec.containers.map(clean),
    ...(podSpec.initContainers && { initContainers: podSpec.initContainers.map(clean) }),
  };
}

function withClaims(podSpec: PodSpec, names: readonly string[]): PodSpec {
  if (names.length === 0) return podSpec;
  const using = (container: Container): Container => ({
    ...container,
    resources: {
      ...container.resources,
      claims: [...(container.resources?.claims ?? []), ...names.map((name) => ({ name }))],
    },
  });
  return {
    ...podSpec,
    resourceClaims: [...(podSpec.resourceClaims ?? []), ...names.map((name) => ({ name, resourceClaimName: name }))],
    containers: podSpec.containers.map(using),
    ...(podSpec.initContainers && { initContainers: podSpec.initContainers.map(using) }),
  };
}

const tokenVolume = "sa-token-secret-vol";
const infoVolume = "pod-info-vol";

/** As the Pod Security Standard `restricted` requires of every container. */
const restricted = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  readOnlyRootFilesystem: true,
  runAsNonRoot: true,
  runAsUser: 1000,
  seccompProfile: { type: "RuntimeDefault" },
};

/** The init container that waits for other cliques, after all init containers of the user. */
function withWait(podSpec: PodSpec, args: string[], set: PodCliqueSet, { startOrder }: GangSettings): PodSpec {
  const downward = (path: string, fieldPath: string) => ({ path, fieldRef: { apiVersion: "v1", fieldPath } });
  return {
    ...podSpec,
    volumes: [
      ...(podSpec.volumes ?? []),
      { name: tokenVolume, secret: { secretName: tokenSecretName(set.metadata.name), defaultMode: 0o644 } },
      {
        name: infoVolume,
        downwardAPI: {
          defaultMode: 0o644,
          items: [
            downward("namespace", "metadata.namespace"),
            downward("podgangname", `metadata.labels['${labels.podGang}']`),
          ],
        },
      },
    ],
    initContainers: [
      ...(podSpec.initContainers ?? []),
      {
        name: initContainerName,
        ...(startOrder.by === "container"
          ? {
              image: startOrder.image,
              ...(startOrder.pullPolicy !== undefined && { imagePullPolicy: startOrder.pullPolicy }),
              args: [startOrderProgram, ...args],
              securityContext: restricted,
            }
          : { image: simulatedInitImage, args }),
        volumeMounts: [
          { name: tokenVolume, mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true },
          { name: infoVolume, mountPath: podInfoFolder, readOnly: true },
        ],
      },
    ],
  };
}
