/** The objects of a set (service account, role, token), of each replica (Service), and the autoscalers. */
import { components, groveApiVersion, labels } from "../../../model/gang/keys.ts";
import { groupsOf, standaloneCliques } from "../../../model/gang/setFacts.ts";
import type { AutoScalingConfig, PodCliqueSet } from "../../../model/gang/types.ts";
import type { NewObject } from "../../../model/intent.ts";
import type { HorizontalPodAutoscaler, Service } from "../../../model/kubernetes.generated.ts";
import { childLabels, defaultLabels, ownerOf } from "../gangLabels.ts";
import { cliqueName, groupName, roleName, setReplicaName, tokenSecretName } from "../names.ts";

function child<M extends object>(
  set: PodCliqueSet,
  apiVersion: string,
  kind: string,
  component: string,
  name: string,
  more: M,
) {
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      namespace: set.metadata.namespace ?? "default",
      labels: childLabels(set.metadata.name, component, name),
      ownerReferences: [ownerOf(set)],
    },
    ...more,
  };
}

/** In the order of their dependencies. */
export function accountObjects(set: PodCliqueSet): NewObject[] {
  const { name } = set.metadata;
  const rbac = "rbac.authorization.k8s.io";
  const role = roleName(name);
  const secret = child(set, "v1", "Secret", components.secret, tokenSecretName(name), {
    type: "kubernetes.io/service-account-token",
  });
  return [
    child(set, "v1", "ServiceAccount", components.serviceAccount, name, { automountServiceAccountToken: true }),
    child(set, `${rbac}/v1`, "Role", components.role, role, {
      rules: [{ apiGroups: [""], resources: ["pods", "pods/status"], verbs: ["get", "list", "watch"] }],
    }),
    child(set, `${rbac}/v1`, "RoleBinding", components.roleBinding, role, {
      roleRef: { apiGroup: rbac, kind: "Role", name: role },
      subjects: [{ kind: "ServiceAccount", name, namespace: set.metadata.namespace ?? "default" }],
    }),
    { ...secret, metadata: { ...secret.metadata, annotations: { "kubernetes.io/service-account.name": name } } },
  ];
}

export function serviceObject(set: PodCliqueSet, index: number): NewObject<Service> {
  const name = setReplicaName(set.metadata.name, index);
  const service = child(set, "v1", "Service", components.service, name, {
    spec: {
      clusterIP: "None",
      selector: { ...defaultLabels(set.metadata.name), [labels.setReplica]: String(index) },
      publishNotReadyAddresses: publishesNotReady(set),
    },
  });
  const { metadata } = service;
  return {
    ...service,
    metadata: { ...metadata, labels: { ...metadata.labels, [labels.setReplica]: String(index) } },
  };
}

export function publishesNotReady({ spec }: PodCliqueSet): boolean {
  return spec.template.headlessServiceConfig?.publishNotReadyAddresses ?? true;
}

/** The autoscalers of one replica of the set. */
export function autoscalerObjects(set: PodCliqueSet, index: number): NewObject<HorizontalPodAutoscaler>[] {
  const { name } = set.metadata;
  const scaler = (kind: string, target: string, config: AutoScalingConfig) =>
    child(set, "autoscaling/v2", "HorizontalPodAutoscaler", components.hpa, target, {
      spec: {
        scaleTargetRef: { apiVersion: groveApiVersion, kind, name: target },
        ...(config.minReplicas !== undefined && { minReplicas: config.minReplicas }),
        maxReplicas: config.maxReplicas,
        ...(config.metrics && { metrics: config.metrics }),
      },
    });
  return [
    ...standaloneCliques(set).flatMap(({ name: clique, spec }) =>
      spec.autoScalingConfig === undefined
        ? []
        : [scaler("PodClique", cliqueName(name, index, clique), spec.autoScalingConfig)],
    ),
    ...groupsOf(set).flatMap(({ name: group, scaleConfig }) =>
      scaleConfig === undefined ? [] : [scaler("PodCliqueScalingGroup", groupName(name, index, group), scaleConfig)],
    ),
  ];
}
