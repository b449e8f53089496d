import type { PersistentVolume, Pod, ResourceSlice, VolumeAttachment } from "../../model/kubernetes.generated.ts";
import type { ObjectStore } from "../storage/objectStore.ts";
import type { UserInfo } from "../strategy.ts";
import type { Access, Authorizer, ResourceAccess, Verdict } from "./access.ts";
import { isMirrorPod, type PodReferences, podReferences, secretsOfPersistentVolume } from "./podReferences.ts";
import { allowsPath, allowsResource, type PolicyRule } from "./policyRule.ts";

export const nodesGroup = "system:nodes";
const nodeUserPrefix = "system:node:";

/**
 * The name of the node whose kubelet the user is; undefined for other users, and for a node user outside of
 * system:nodes.
 */
export function nodeIdentity(user: UserInfo): string | undefined {
  if (!user.groups.includes(nodesGroup) || !user.username.startsWith(nodeUserPrefix)) return undefined;
  const name = user.username.slice(nodeUserPrefix.length);
  return name === "" ? undefined : name;
}

/**
 * Authorizes kubelets. A node may read what the pods that are bound to it refer to, its own Node, Lease, CSINode and
 * ResourceSlices, and nothing of other nodes; the other rights are the list `rules`. A role may still allow what this
 * denies. Nothing is kept between requests: the pods of a node are found by index, and there are few of them.
 */
export class NodeAuthorizer implements Authorizer {
  readonly #store: ObjectStore;
  readonly #rules: readonly PolicyRule[];
  readonly #next: Authorizer;

  constructor(store: ObjectStore, rules: readonly PolicyRule[], next: Authorizer) {
    this.#store = store;
    this.#rules = rules;
    this.#next = next;
  }

  authorize(user: UserInfo, access: Access): Verdict {
    const node = nodeIdentity(user);
    if (node === undefined) return this.#next.authorize(user, access);
    const refusal = this.#refusal(node, access);
    if (refusal === undefined) return allowed;
    const verdict = this.#next.authorize(user, access);
    if (verdict.allowed || refusal === "") return verdict;
    return { allowed: false, reason: verdict.reason === "" ? refusal : `${refusal}\n${verdict.reason}` };
  }

  /** Why the node may not access the resource; undefined when it may. */
  #refusal(node: string, access: Access): string | undefined {
    if (access.path !== undefined) return this.#rules.some((rule) => allowsPath(rule, access)) ? undefined : "";
    switch (access.group === "" ? access.resource : `${access.resource}.${access.group}`) {
      case "secrets":
        return this.#readNamed(node, access, () => this.#needsSecret(node, access));
      case "configmaps":
        return this.#readNamed(node, access, () => this.#needs(node, access, ({ configMaps }) => configMaps));
      case "persistentvolumeclaims":
        if (access.subresource === "status") {
          if (access.verb !== "update" && access.verb !== "patch") return "can only get/update/patch this type";
          return related(node, access, this.#needsClaim(node, access.namespace, access.name));
        }
        return this.#getNamed(node, access, () => this.#needsClaim(node, access.namespace, access.name));
      case "persistentvolumes":
        return this.#getNamed(node, access, () => this.#needsVolume(node, access.name));
      case "resourceclaims.resource.k8s.io":
        return this.#getNamed(node, access, () => this.#needs(node, access, ({ resourceClaims }) => resourceClaims));
      case "volumeattachments.storage.k8s.io":
        return this.#getNamed(node, access, () => this.#isAttachedTo(node, access.name));
      case "serviceaccounts":
        return this.#serviceAccount(node, access);
      case "leases.coordination.k8s.io":
        return ownLease(node, access);
      case "csinodes.storage.k8s.io":
        return ownCsiNode(node, access);
      case "resourceslices.resource.k8s.io":
        return this.#resourceSlice(node, access);
      case "nodes":
        return ownNode(node, access);
      case "pods":
        return this.#pod(node, access);
      default: {
        const combined = access.subresource === "" ? access.resource : `${access.resource}/${access.subresource}`;
        return this.#rules.some((rule) => allowsResource(rule, access, combined)) ? undefined : "";
      }
    }
  }

  #readNamed(node: string, access: ResourceAccess, isRelated: () => boolean): string | undefined {
    if (!["get", "list", "watch"].includes(access.verb)) return "can only read resources of this type";
    if (access.subresource !== "") return "cannot read subresource";
    if (access.namespace === "") return "can only read namespaced object of this type";
    return related(node, access, access.name !== "" && isRelated());
  }

  #getNamed(node: string, access: ResourceAccess, isRelated: () => boolean): string | undefined {
    if (access.verb !== "get") return "can only get individual resources of this type";
    if (access.subresource !== "") return "cannot get subresource";
    return related(node, access, access.name !== "" && isRelated());
  }

  #serviceAccount(node: string, access: ResourceAccess): string | undefined {
    const runsAs = (): boolean => this.#needs(node, access, (pod) => new Set([pod.serviceAccount]));
    if (access.verb === "get" && access.subresource === "") return this.#readNamed(node, access, runsAs);
    if (access.verb !== "create" || access.name === "") return "can only create tokens for individual service accounts";
    if (access.subresource !== "token") return "can only create token subresource of serviceaccount";
    return related(node, access, runsAs());
  }

  #resourceSlice(node: string, access: ResourceAccess): string | undefined {
    if (access.subresource !== "") return "cannot authorize ResourceSlice subresources";
    switch (access.verb) {
      case "create":
        return undefined;
      case "get":
      case "update":
      case "patch":
      case "delete": {
        const slice = this.#find<ResourceSlice>("resource.k8s.io/resourceslices", "", access.name);
        return related(node, access, slice?.spec.nodeName === node);
      }
      case "watch":
      case "list":
      case "deletecollection":
        if (access.fields?.["spec.nodeName"] === node) return undefined;
        return "can only list/watch/deletecollection resourceslices with nodeName field selector";
      default:
        return "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection";
    }
  }

  #pod(node: string, access: ResourceAccess): string | undefined {
    const { verb, subresource } = access;
    if (subresource === "status") return verb === "update" || verb === "patch" ? undefined : "";
    if (subresource === "eviction") return verb === "create" ? undefined : "";
    if (subresource !== "") return "";
    const isHere = (): boolean => this.#find<Pod>("/pods", access.namespace, access.name)?.spec?.nodeName === node;
    switch (verb) {
      case "get":
        return this.#getNamed(node, access, isHere);
      case "list":
      case "watch":
        if (access.fields?.["spec.nodeName"] === node) return undefined;
        if (access.name !== "") return related(node, access, isHere());
        return "can only list/watch pods with spec.nodeName field selector";
      case "create":
      case "delete":
        return undefined;
      default:
        return "";
    }
  }

  #needs(node: string, access: ResourceAccess, names: (pod: PodReferences) => ReadonlySet<string>): boolean {
    return this.#anyPod(node, access.namespace, (pod) => names(podReferences(pod)).has(access.name));
  }

  #needsClaim(node: string, namespace: string, name: string): boolean {
    return name !== "" && this.#anyPod(node, namespace, (pod) => podReferences(pod).volumeClaims.has(name));
  }

  #needsVolume(node: string, name: string): boolean {
    const volume = this.#find<PersistentVolume>("/persistentvolumes", "", name);
    const claim = volume?.spec?.claimRef;
    return claim !== undefined && this.#needsClaim(node, claim.namespace ?? "", claim.name ?? "");
  }

  /** Secrets that a pod of the node names, or that mounting a volume of such a pod requires. */
  #needsSecret(node: string, access: ResourceAccess): boolean {
    if (this.#needs(node, access, ({ secrets }) => secrets)) return true;
    const key = `${access.namespace}/${access.name}`;
    for (const version of this.#store.collection("/persistentvolumes").all()) {
      const volume = version.object();
      if (secretsOfPersistentVolume(volume).has(key) && this.#needsVolume(node, version.name)) return true;
    }
    return false;
  }

  #isAttachedTo(node: string, name: string): boolean {
    return this.#find<VolumeAttachment>("storage.k8s.io/volumeattachments", "", name)?.spec.nodeName === node;
  }

  #anyPod(node: string, namespace: string, matches: (pod: Pod) => boolean): boolean {
    for (const version of this.#store.collection("/pods").indexed(podNodeField, node) ?? []) {
      if (version.namespace !== namespace) continue;
      const pod = version.object();
      if (!isMirrorPod(pod) && matches(pod)) return true;
    }
    return false;
  }

  #find<T>(resource: string, namespace: string, name: string): T | undefined {
    return this.#store.get(resource, namespace, name)?.object() as T | undefined;
  }
}

/** Position of `spec.nodeName` among the selectable fields of pods. */
const podNodeField = 0;
const allowed: Verdict = { allowed: true, reason: "" };

function related(node: string, access: ResourceAccess, isRelated: boolean): string | undefined {
  if (access.name === "") return "No Object name found";
  return isRelated ? undefined : `no relationship found between node '${node}' and this object`;
}

const ownVerbs = ["get", "create", "update", "patch", "delete"];

function ownLease(node: string, access: ResourceAccess): string | undefined {
  if (!ownVerbs.includes(access.verb)) return "can only get, create, update, patch, or delete a node lease";
  if (access.namespace !== "kube-node-lease") return 'can only access leases in the "kube-node-lease" system namespace';
  if (access.verb === "create" || access.name === node) return undefined;
  return "can only access node lease with the same name as the requesting node";
}

function ownCsiNode(node: string, access: ResourceAccess): string | undefined {
  if (!ownVerbs.includes(access.verb)) return "can only get, create, update, patch, or delete a CSINode";
  if (access.subresource !== "") return "cannot authorize CSINode subresources";
  if (access.verb === "create" || access.name === node) return undefined;
  return "can only access CSINode with the same name as the requesting node";
}

/** NodeRestriction admission limits the writes to the node's own object. */
function ownNode(node: string, access: ResourceAccess): string | undefined {
  const { verb, subresource, name } = access;
  if (subresource === "status") return verb === "update" || verb === "patch" ? undefined : "";
  if (subresource !== "") return "";
  if (["create", "update", "patch"].includes(verb)) return undefined;
  if (!["get", "list", "watch"].includes(verb)) return "";
  if (name === node) return undefined;
  if (name === "") return `node '${node}' cannot read all nodes, only its own Node object`;
  return `node '${node}' cannot read '${name}', only its own Node object`;
}
