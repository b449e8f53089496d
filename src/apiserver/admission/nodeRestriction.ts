import type {
  CSIDriver,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
} from "../../model/kubernetes.generated.ts";
import { equalJson, isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { forbiddenError, notFound } from "../../model/objects/status.ts";
import { nodeIdentity } from "../auth/nodeAuthorizer.ts";
import { mirrorAnnotation, podReferences } from "../auth/podReferences.ts";
import { strings } from "../auth/policyRule.ts";
import type { Core } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";

/**
 * What a kubelet may write: its own Node without taints and reserved labels, its own Lease, CSINode and ResourceSlices,
 * the status of its own pods, and mirror pods without references to API objects. Throws a StatusError for other writes
 * of these kinds.
 */
export function restrictNode(core: Core, attributes: AdmissionAttributes): void {
  const node = nodeIdentity(attributes.user);
  if (node === undefined) return;
  const { group, plural } = attributes.type;
  const why = refusal(core, node, attributes);
  if (why !== undefined) throw forbiddenError({ group, resource: plural }, attributes.name, why);
}

function refusal(core: Core, node: string, attributes: AdmissionAttributes): string | undefined {
  switch (attributes.type.storageKey) {
    case "/pods":
      return podRefusal(core, node, attributes);
    case "/nodes":
      return nodeRefusal(node, attributes);
    case "/persistentvolumeclaims":
      return attributes.subresource === "status" ? claimRefusal(node, attributes) : "may only update PVC status";
    case "coordination.k8s.io/leases":
      if (attributes.namespace !== "kube-node-lease") {
        return 'can only access leases in the "kube-node-lease" system namespace';
      }
      return nameOf(attributes) === node
        ? undefined
        : "can only access node lease with the same name as the requesting node";
    case "storage.k8s.io/csinodes":
      return nameOf(attributes) === node
        ? undefined
        : "can only access CSINode with the same name as the requesting node";
    case "resource.k8s.io/resourceslices":
      return sliceRefusal(node, attributes);
    default:
      return undefined;
  }
}

/** On create the name is in the object, not in the URL. */
function nameOf({ operation, object, name }: AdmissionAttributes): string {
  return operation === "CREATE" ? (object?.metadata.name ?? "") : name;
}

function podRefusal(core: Core, node: string, attributes: AdmissionAttributes): string | undefined {
  const { operation, subresource } = attributes;
  const before = attributes.oldObject as Pod | undefined;
  if (subresource === "status") {
    if (operation !== "UPDATE") return `unexpected operation ${JSON.stringify(operation)}`;
    return podStatusRefusal(node, before, attributes.object as Pod | undefined);
  }
  if (subresource !== "") {
    return `unexpected pod subresource ${JSON.stringify(subresource)}, only 'status' and 'eviction' are allowed`;
  }
  if (operation === "DELETE") {
    if (before?.spec?.nodeName === node) return undefined;
    return `node ${JSON.stringify(node)} can only delete pods with spec.nodeName set to itself`;
  }
  if (operation === "CREATE") return mirrorPodRefusal(core, node, attributes.object as Pod);
  return `unexpected operation ${JSON.stringify(operation)}, node ${JSON.stringify(node)} can only create and delete mirror pods`;
}

function podStatusRefusal(node: string, before: Pod | undefined, after: Pod | undefined): string | undefined {
  const own = JSON.stringify(node);
  if (before?.spec?.nodeName !== node) {
    return `node ${own} can only update pod status for pods with spec.nodeName set to itself`;
  }
  if (!equalJson(before.metadata.labels ?? {}, after?.metadata.labels ?? {})) {
    return `node ${own} cannot update labels through pod status`;
  }
  if (!equalJson(before.status?.resourceClaimStatuses ?? [], after?.status?.resourceClaimStatuses ?? [])) {
    return `node ${own} cannot update resource claim statuses`;
  }
  if (!equalJson(before.status?.extendedResourceClaimStatus, after?.status?.extendedResourceClaimStatus)) {
    return `node ${own} cannot update extended resource claim status`;
  }
  return undefined;
}

function mirrorPodRefusal(core: Core, node: string, pod: Pod): string | undefined {
  const own = JSON.stringify(node);
  if (pod.metadata.annotations?.[mirrorAnnotation] === undefined) {
    return `pod does not have ${JSON.stringify(mirrorAnnotation)} annotation, node ${own} can only create mirror pods`;
  }
  if (pod.spec?.nodeName !== node) return `node ${own} can only create pods with spec.nodeName set to itself`;
  const owners = pod.metadata.ownerReferences ?? [];
  const [owner] = owners;
  if (owners.length > 1) return `node ${own} can only create pods with a single owner reference set to itself`;
  if (owner === undefined || owner.apiVersion !== "v1" || owner.kind !== "Node" || owner.name !== node) {
    return `node ${own} can only create pods with an owner reference set to itself`;
  }
  if (owner.controller !== true) {
    return `node ${own} can only create pods with a controller owner reference set to itself`;
  }
  if (owner.blockOwnerDeletion === true) {
    return `node ${own} must not set blockOwnerDeletion on an owner reference`;
  }
  const found = core.store.get("/nodes", "", node);
  if (found === undefined) throw notFound({ group: "", resource: "nodes" }, node);
  if (owner.uid !== found.side.uid) return `node ${node} UID mismatch: expected ${owner.uid} got ${found.side.uid}`;
  const referred = apiReferenceOf(pod);
  return referred === undefined ? undefined : `node ${own} can not create pods that reference ${referred}`;
}

/** The first kind of API object that the pod refers to. */
function apiReferenceOf(pod: Pod): string | undefined {
  const { secrets, configMaps, serviceAccount } = podReferences(pod);
  if (serviceAccount !== "") return "serviceaccounts";
  if (secrets.size > 0) return "secrets";
  if (configMaps.size > 0) return "configmaps";
  if ((pod.spec?.resourceClaims ?? []).length > 0) return "resourceclaims";
  for (const volume of pod.spec?.volumes ?? []) {
    if (volume.csi !== undefined) return "csidrivers (via CSI volumes)";
    if (volume.glusterfs !== undefined) return "endpoints (via glusterFS volumes)";
    if (volume.persistentVolumeClaim !== undefined) return "persistentvolumeclaims";
    if (volume.ephemeral !== undefined) return "persistentvolumeclaims (via ephemeral volumes)";
    for (const source of volume.projected?.sources ?? []) {
      if (source.serviceAccountToken !== undefined) return "serviceaccounts (via projected volumes)";
      if (source.clusterTrustBundle !== undefined) return "clustertrustbundles";
      if (source.podCertificate !== undefined) return "podcertificates";
    }
  }
  return undefined;
}

function nodeRefusal(node: string, { operation, name, object, oldObject }: AdmissionAttributes): string | undefined {
  const own = JSON.stringify(node);
  const asked = name === "" ? (object?.metadata.name ?? "") : name;
  if (asked !== node) return `node ${own} is not allowed to modify node ${JSON.stringify(asked)}`;
  const after = object as Node | undefined;
  const before = oldObject as Node | undefined;
  const labels = reservedLabels(after?.metadata.labels ?? {}, before?.metadata.labels ?? {});
  if (operation === "CREATE") {
    if (after?.spec?.configSource !== undefined) return `node ${own} is not allowed to set a configSource`;
    if (labels.length === 0) return undefined;
    return `node ${own} is not allowed to set the following labels: ${labels.join(", ")}`;
  }
  if (operation !== "UPDATE") return undefined;
  const source = after?.spec?.configSource;
  if (source !== undefined && !equalJson(source, before?.spec?.configSource)) {
    return `node ${own} is not allowed to update configSource to a new non-nil configSource`;
  }
  if (!equalJson(after?.spec?.taints ?? [], before?.spec?.taints ?? [])) {
    return `node ${own} is not allowed to modify taints`;
  }
  if (!equalJson(after?.metadata.ownerReferences ?? [], before?.metadata.ownerReferences ?? [])) {
    return `node ${own} is not allowed to modify ownerReferences`;
  }
  return labels.length === 0 ? undefined : `is not allowed to modify labels: ${labels.join(", ")}`;
}

/** Labels in Kubernetes' own domains that a kubelet may set on its own Node. */
const kubeletLabels = new Set([
  "kubernetes.io/hostname",
  "kubernetes.io/os",
  "kubernetes.io/arch",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/arch",
  "beta.kubernetes.io/instance-type",
  "node.kubernetes.io/instance-type",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
]);
const kubeletLabelDomains = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/** Changed labels that only administrators may set, because workloads are placed by them. */
function reservedLabels(after: Record<string, string>, before: Record<string, string>): string[] {
  const keys = new Set([...Object.keys(after), ...Object.keys(before)]);
  return [...keys].filter((key) => after[key] !== before[key] && isReserved(key)).sort();
}

function isReserved(key: string): boolean {
  const domain = key.includes("/") ? key.slice(0, key.indexOf("/")) : "";
  if (isWithin(domain, "node-restriction.kubernetes.io")) return true;
  if (!isWithin(domain, "kubernetes.io") && !isWithin(domain, "k8s.io")) return false;
  return !kubeletLabels.has(key) && !kubeletLabelDomains.some((own) => isWithin(domain, own));
}

function isWithin(domain: string, parent: string): boolean {
  return domain === parent || domain.endsWith(`.${parent}`);
}

function claimRefusal(node: string, { operation, object, oldObject }: AdmissionAttributes): string | undefined {
  if (operation !== "UPDATE") return `unexpected operation ${JSON.stringify(operation)}`;
  if (equalJson(withoutCapacity(object), withoutCapacity(oldObject))) return undefined;
  return `node ${JSON.stringify(node)} is not allowed to update fields other than status.capacity and status.conditions`;
}

function withoutCapacity(object: KubeObject | undefined): unknown {
  const { status, metadata, ...rest } = object as PersistentVolumeClaim;
  const { resourceVersion: _, managedFields: __, ...meta } = metadata;
  const { capacity: ___, conditions: ____, allocatedResources: _____, ...others } = status ?? {};
  delete others.allocatedResourceStatuses;
  return { ...rest, metadata: meta, status: others };
}

function sliceRefusal(node: string, { operation, object, oldObject }: AdmissionAttributes): string | undefined {
  const slice = operation === "DELETE" ? oldObject : object;
  const spec = slice?.["spec"];
  if (isObject(spec) && spec["nodeName"] === node) return undefined;
  const verb = operation === "CREATE" ? "create" : operation === "DELETE" ? "delete" : "update";
  return `can only ${verb} ResourceSlice with the same NodeName as the requesting node`;
}

/** Whether the node may request a token for an audience that no volume of the pod names. */
export type MayRequestAudience = (audience: string) => boolean;

/** A kubelet gets tokens only for pods that run on its node, and only for audiences that the pod requests. */
export function restrictNodeToken(
  core: Core,
  attributes: Pick<AdmissionAttributes, "user" | "namespace" | "name">,
  request: KubeObject,
  mayRequest: MayRequestAudience,
): void {
  const node = nodeIdentity(attributes.user);
  if (node === undefined) return;
  const refuse = (why: string): Error =>
    forbiddenError({ group: "", resource: "serviceaccounts" }, attributes.name, why);
  const spec = isObject(request["spec"]) ? request["spec"] : {};
  const bound = isObject(spec["boundObjectRef"]) ? spec["boundObjectRef"] : {};
  const name = bound["name"];
  if (bound["apiVersion"] !== "v1" || bound["kind"] !== "Pod" || typeof name !== "string" || name === "") {
    throw refuse("node requested token not bound to a pod");
  }
  if (!bound["uid"]) throw refuse("node requested token with a pod binding without a uid");
  const found = core.store.get("/pods", attributes.namespace, name);
  if (found === undefined) throw notFound({ group: "", resource: "pods" }, name);
  if (bound["uid"] !== found.side.uid) {
    throw refuse(
      `the UID in the bound object reference (${String(bound["uid"])}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
  const pod = found.object() as Pod;
  if (pod.spec?.nodeName !== node) throw refuse("node requested token bound to a pod scheduled on a different node");
  const audiences = strings(spec["audiences"]);
  if (audiences.length > 1) throw refuse("node may only request 0 or 1 audiences");
  const audience = audiences[0] ?? "";
  if (requestsAudience(core, pod, audience) || mayRequest(audience)) return;
  throw refuse(
    `audience ${JSON.stringify(audience)} not found in pod spec volume, ${attributes.user.username} is not authorized to request tokens for this audience`,
  );
}

function requestsAudience(core: Core, pod: Pod, audience: string): boolean {
  for (const volume of pod.spec?.volumes ?? []) {
    for (const source of volume.projected?.sources ?? []) {
      if (source.serviceAccountToken !== undefined && (source.serviceAccountToken.audience ?? "") === audience) {
        return true;
      }
    }
    const claim =
      volume.persistentVolumeClaim?.claimName ??
      (volume.ephemeral === undefined ? undefined : `${pod.metadata.name}-${volume.name}`);
    const driver = volume.csi?.driver ?? driverOfClaim(core, pod.metadata.namespace ?? "", claim);
    const found = driver === undefined ? undefined : core.store.get("storage.k8s.io/csidrivers", "", driver);
    const asked = (found?.object() as CSIDriver | undefined)?.spec.tokenRequests ?? [];
    if (asked.some((one) => one.audience === audience)) return true;
  }
  return false;
}

function driverOfClaim(core: Core, namespace: string, name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  const claim = core.store.get("/persistentvolumeclaims", namespace, name)?.object() as
    | PersistentVolumeClaim
    | undefined;
  const volume = claim?.spec?.volumeName;
  if (!volume) return undefined;
  return (core.store.get("/persistentvolumes", "", volume)?.object() as PersistentVolume | undefined)?.spec?.csi
    ?.driver;
}
