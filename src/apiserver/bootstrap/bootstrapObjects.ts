import { copyJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { aggregateAll } from "../auth/aggregateRules.ts";
import { serviceNetworkText } from "../kinds/network/serviceAddresses.ts";
import { roleRows } from "./clusterRoles.ts";
import { type NamespaceRoleRow, namespaceRoleRows } from "./namespaceRoles.ts";
import type { RoleRow } from "./roleRow.ts";

/**
 * The objects of an empty cluster. The same options give the same objects in the same order, so that two new servers
 * differ in UIDs and times only. Objects have the fields that a client could send; the verbs add the rest.
 */
export interface BootstrapOptions {
  /** The CA certificate as PEM, for `kube-root-ca.crt` in every namespace. */
  readonly authority: string;
  /** The address of the server for the endpoints of the Service `kubernetes`; without it there are none. */
  readonly address?: string | undefined;
  /** The port that the server listens on. */
  readonly port: number;
}

export interface BootstrapObject {
  /** Group and plural: `/namespaces`, `rbac.authorization.k8s.io/clusterroles`. */
  readonly resource: string;
  readonly object: KubeObject;
}

export const bootstrapNamespaces: readonly string[] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/** The first address of the service network, for the Service `kubernetes`; the server's certificate has it. */
export const kubernetesServiceIp = "10.96.0.1";

const rbacVersion = "rbac.authorization.k8s.io/v1";
const rbacGroup = "rbac.authorization.k8s.io";
const bootstrapLabel = { "kubernetes.io/bootstrapping": "rbac-defaults" };
export const autoUpdateAnnotation = "rbac.authorization.kubernetes.io/autoupdate";

export function bootstrapObjects(options: BootstrapOptions): BootstrapObject[] {
  const objects = [
    ...bootstrapNamespaces.map(namespaceObject),
    ...priorityClasses(),
    ...clusterRoles(),
    ...clusterRoleBindings(),
    ...namespaceRoleRows.flatMap(roleAndBinding),
    authenticationConfig(options.authority),
    ...bootstrapNamespaces.flatMap((namespace) => objectsOfNamespace(namespace, options.authority)),
    ...serverObjects(options),
  ];
  // The tables share lists between roles, and the store may change its objects.
  return objects.map(({ resource, object }) => ({ resource, object: copyJson(object) }));
}

/** The Service `kubernetes` and its endpoints: how pods reach the server. */
export function serverObjects({ address, port }: Pick<BootstrapOptions, "address" | "port">): BootstrapObject[] {
  return [
    kubernetesService(port),
    ...(address === undefined ? [] : [...kubernetesEndpoints(address, port), serviceNetwork()]),
  ];
}

/** The objects of every namespace: the default service account, and the CA certificate. */
export function objectsOfNamespace(namespace: string, authority: string): BootstrapObject[] {
  return [
    made("/serviceaccounts", "v1", "ServiceAccount", { name: "default", namespace }),
    made(
      "/configmaps",
      "v1",
      "ConfigMap",
      {
        name: "kube-root-ca.crt",
        namespace,
        annotations: {
          "kubernetes.io/description":
            "The certificate authority of this cluster's API server, for clients that reach it by its Service.",
        },
      },
      { data: { "ca.crt": authority } },
    ),
  ];
}

function namespaceObject(name: string): BootstrapObject {
  return made(
    "/namespaces",
    "v1",
    "Namespace",
    { name, labels: { "kubernetes.io/metadata.name": name } },
    { spec: { finalizers: ["kubernetes"] }, status: { phase: "Active" } },
  );
}

function priorityClasses(): BootstrapObject[] {
  const row = (name: string, value: number, description: string) =>
    made(
      "scheduling.k8s.io/priorityclasses",
      "scheduling.k8s.io/v1",
      "PriorityClass",
      { name },
      {
        value,
        description,
        preemptionPolicy: "PreemptLowerPriority",
      },
    );
  return [
    row("system-cluster-critical", 2_000_000_000, "For pods that the cluster needs, on whichever node they run."),
    row("system-node-critical", 2_000_001_000, "For pods that a node needs, on that very node."),
  ];
}

function clusterRoles(): BootstrapObject[] {
  const roles = roleRows.map((row) =>
    made(
      `${rbacGroup}/clusterroles`,
      rbacVersion,
      "ClusterRole",
      { name: row.name, labels: { ...bootstrapLabel, ...row.labels }, annotations: { [autoUpdateAnnotation]: "true" } },
      {
        ...(row.gathers === undefined
          ? {}
          : { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [row.gathers]: "true" } }] } }),
        rules: row.rules,
      },
    ),
  );
  // Aggregated here already, so that the first request finds `admin`, `edit` and `view` complete.
  const gathered = aggregateAll(roles.map(({ object }) => object));
  for (const { object } of roles) {
    const rules = gathered.get(object.metadata.name);
    if (rules !== undefined) object["rules"] = rules;
  }
  return roles;
}

function clusterRoleBindings(): BootstrapObject[] {
  return roleRows
    .filter((row): row is RoleRow & { boundTo: string[] } => row.boundTo !== undefined)
    .map((row) =>
      made(
        `${rbacGroup}/clusterrolebindings`,
        rbacVersion,
        "ClusterRoleBinding",
        { name: row.name, labels: bootstrapLabel, annotations: { [autoUpdateAnnotation]: "true" } },
        {
          roleRef: { apiGroup: rbacGroup, kind: "ClusterRole", name: row.name },
          ...(row.boundTo.length === 0 ? {} : { subjects: row.boundTo.map(subjectObject) }),
        },
      ),
    );
}

function roleAndBinding(row: NamespaceRoleRow): BootstrapObject[] {
  const { namespace, name } = row;
  const metadata = { namespace, labels: bootstrapLabel, annotations: { [autoUpdateAnnotation]: "true" } };
  return [
    made(`${rbacGroup}/roles`, rbacVersion, "Role", { ...metadata, name }, { rules: row.rules }),
    made(
      `${rbacGroup}/rolebindings`,
      rbacVersion,
      "RoleBinding",
      { ...metadata, name: row.bindingName ?? name },
      { roleRef: { apiGroup: rbacGroup, kind: "Role", name }, subjects: (row.boundTo ?? []).map(subjectObject) },
    ),
  ];
}

/** How aggregated API servers authenticate requests that this server forwards. */
function authenticationConfig(authority: string): BootstrapObject {
  const metadata = { name: "extension-apiserver-authentication", namespace: "kube-system" };
  return made("/configmaps", "v1", "ConfigMap", metadata, { data: { "client-ca-file": authority } });
}

function subjectObject(text: string): Record<string, string> {
  const [kind = "", name = ""] = text.split(" ");
  if (kind !== "ServiceAccount") return { apiGroup: rbacGroup, kind, name };
  const [namespace = "", own = ""] = name.split("/");
  return { kind, name: own, namespace };
}

function kubernetesService(port: number): BootstrapObject {
  return made(
    "/services",
    "v1",
    "Service",
    { name: "kubernetes", namespace: "default", labels: { component: "apiserver", provider: "kubernetes" } },
    {
      spec: {
        clusterIP: kubernetesServiceIp,
        clusterIPs: [kubernetesServiceIp],
        internalTrafficPolicy: "Cluster",
        ipFamilies: ["IPv4"],
        ipFamilyPolicy: "SingleStack",
        ports: [{ name: "https", port: 443, protocol: "TCP", targetPort: port }],
        sessionAffinity: "None",
        type: "ClusterIP",
      },
      status: { loadBalancer: {} },
    },
  );
}

/** The range that Services get their addresses from: kube-proxy and network plugins read it. */
function serviceNetwork(): BootstrapObject {
  return made(
    "networking.k8s.io/servicecidrs",
    "networking.k8s.io/v1",
    "ServiceCIDR",
    { name: "kubernetes" },
    { spec: { cidrs: [serviceNetworkText] } },
  );
}

/** The server keeps these itself, as upstream: the Service has no selector. */
function kubernetesEndpoints(address: string, port: number): BootstrapObject[] {
  const at = { name: "kubernetes", namespace: "default" };
  const ports = [{ name: "https", port, protocol: "TCP" }];
  return [
    made(
      "/endpoints",
      "v1",
      "Endpoints",
      { ...at, labels: { "endpointslice.kubernetes.io/skip-mirror": "true" } },
      { subsets: [{ addresses: [{ ip: address }], ports }] },
    ),
    made(
      "discovery.k8s.io/endpointslices",
      "discovery.k8s.io/v1",
      "EndpointSlice",
      { ...at, labels: { "kubernetes.io/service-name": "kubernetes" } },
      {
        addressType: address.includes(":") ? "IPv6" : "IPv4",
        endpoints: [{ addresses: [address], conditions: { ready: true } }],
        ports,
      },
    ),
  ];
}

function made(
  resource: string,
  apiVersion: string,
  kind: string,
  metadata: Partial<KubeObject["metadata"]> & { name: string },
  body: Record<string, unknown> = {},
): BootstrapObject {
  // The verbs that create the object set UID, revision and time.
  return { resource, object: { apiVersion, kind, metadata: metadata as KubeObject["metadata"], ...body } };
}
