import type { Container, Pod, PodSpec, ServiceAccount, Volume } from "../../../model/kubernetes.generated.ts";
import { forbiddenError } from "../../../model/objects/status.ts";
import type { WriteContext } from "../../strategy.ts";

const defaultAccount = "default";
const volumePrefix = "kube-api-access-";
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";
/** Slightly more than an hour, as upstream, so that clients that do not reload the token can be detected. */
const tokenSeconds = 3607;
const mirrorAnnotation = "kubernetes.io/config.mirror";

/**
 * Service account admission: sets the service account of a pod, and mounts a token of the account unless pod or account
 * opt out.
 */
export function admitServiceAccount(pod: Pod, spec: PodSpec, context: WriteContext): void {
  // A mirror pod cannot use API objects.
  if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) return;
  const name = spec.serviceAccountName || defaultAccount;
  spec.serviceAccountName = name;
  spec.serviceAccount = name;
  const { namespace = "" } = pod.metadata;
  const account = context.get("/serviceaccounts", namespace, name) as ServiceAccount | undefined;
  // The default account of a new namespace is still being created; a pod need not wait for it.
  if (account === undefined && name !== defaultAccount) {
    const why = `error looking up service account ${namespace}/${name}: serviceaccount ${JSON.stringify(name)} not found`;
    throw forbiddenError({ group: "", resource: "pods" }, pod.metadata.name, why);
  }
  if (spec.automountServiceAccountToken ?? account?.automountServiceAccountToken ?? true) mountToken(pod, spec);
  const pullSecrets = account?.imagePullSecrets ?? [];
  if ((spec.imagePullSecrets ?? []).length === 0 && pullSecrets.length > 0) {
    spec.imagePullSecrets = pullSecrets.map((secret) => ({ ...secret }));
  }
}

function mountToken(pod: Pod, spec: PodSpec): void {
  const existing = spec.volumes?.find(({ name }) => name.startsWith(volumePrefix))?.name;
  const name = existing ?? `${volumePrefix}${suffixOf(pod.metadata.uid)}`;
  let isMounted = false;
  const mounted = (container: Container): Container => {
    const mounts = container.volumeMounts ?? [];
    if (mounts.some(({ mountPath }) => mountPath === tokenPath)) return container;
    isMounted = true;
    return { ...container, volumeMounts: [...mounts, { name, readOnly: true, mountPath: tokenPath }] };
  };
  if (spec.initContainers !== undefined) spec.initContainers = spec.initContainers.map(mounted);
  spec.containers = spec.containers.map(mounted);
  if (isMounted && existing === undefined) spec.volumes = [...(spec.volumes ?? []), tokenVolume(name)];
}

/** A suffix of five characters for the volume's name, derived from the pod's UID. */
function suffixOf(uid: string): string {
  const alphabet = "bcdfghjklmnpqrstvwxz2456789";
  let rest = Number.parseInt(uid.slice(0, 8), 16) || 0;
  let suffix = "";
  for (let at = 0; at < 5; at++) {
    suffix += alphabet[rest % alphabet.length];
    rest = Math.floor(rest / alphabet.length);
  }
  return suffix;
}

function tokenVolume(name: string): Volume {
  const authority = { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] };
  const namespace = { path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } };
  return {
    name,
    projected: {
      sources: [
        { serviceAccountToken: { expirationSeconds: tokenSeconds, path: "token" } },
        { configMap: authority },
        { downwardAPI: { items: [namespace] } },
      ],
      defaultMode: 420,
    },
  };
}
