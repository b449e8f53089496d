import { type ControlPlaneOptions, controlPlane } from "../../control/assembly/controlPlane.ts";
import type { Component } from "../../control/runtime/component.ts";
import { webhookConfigurations } from "../../control/webhooks/webhookConfigurations.ts";
import type { NewObject } from "../../model/intent.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import {
  componentRights,
  ownNamespaceRights,
  type Right,
  reservationPodRights,
  reservationRights,
  startRights,
  webhookRights,
} from "./installRights.ts";
import { type Condition, each, type Tree, when } from "./installTree.ts";
import { controllerNames, installVersion } from "./installValues.ts";

/** An object of the installation, and when there is one. */
export interface InstallObject {
  /** The chart's template that it is in. */
  readonly file: string;
  readonly condition?: Condition;
  readonly tree: { readonly [field: string]: Tree };
}

export const partOf = { "app.kubernetes.io/part-of": "muster" } as const;
export const webhookService = "muster-webhooks";
export const keysSecret = "muster-webhooks";
const namespace = "«release.namespace»";
const account = "muster";
const statusPort = 8081;
const webhookPort = 9443;
const selector = { "app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "controllers" };
const labels = {
  "app.kubernetes.io/name": "muster",
  ...partOf,
  "app.kubernetes.io/version": "«chart.version»",
  "app.kubernetes.io/managed-by": "«release.service»",
};

const hasController = (name: string): Condition => ({ path: "controllers", includes: name });
const ownKeys: Condition = { all: ["webhooks.enabled", { path: "webhooks.certificates", equals: "own" }] };
const managedKeys: Condition = { all: ["webhooks.enabled", { path: "webhooks.certificates", equals: "cert-manager" }] };

/** The components that can be installed, with their defaults. */
export function installedComponents(options: ControlPlaneOptions = {}): Component[] {
  const plane = controlPlane(options);
  return controllerNames.map((name) => plane[name]);
}

/** The definitions, labelled, in order of name. */
export function installedDefinitions(): NewObject[] {
  const byName = new Map<string, NewObject>();
  for (const { definitions = [] } of installedComponents()) {
    for (const definition of definitions) {
      const { name } = definition.metadata;
      const about = { ...partOf, "app.kubernetes.io/version": installVersion };
      byName.set(name, { ...definition, metadata: { name, labels: about } });
    }
  }
  return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, definition]) => definition);
}

/** All objects except CRDs and the namespace, in the order in which they are created. */
export function installObjects(): InstallObject[] {
  return [
    ...accounts(),
    ...roles(),
    ...reservations(),
    ...priorityClasses(),
    ...network(),
    ...certificates(),
    { file: "deployment", tree: deployment() },
    ...webhooks(),
    ...monitoring(),
  ];
}

function object(
  apiVersion: string,
  kind: string,
  metadata: { readonly [field: string]: Tree },
  rest: { readonly [field: string]: Tree },
): { readonly [field: string]: Tree } {
  return { apiVersion, kind, metadata: { ...metadata, labels }, ...rest };
}

const inOwn = (name: string): { name: string; namespace: string } => ({ name, namespace });

function accounts(): InstallObject[] {
  const annotations = when("serviceAccount.annotations", "«serviceAccount.annotations»");
  const metadata = { ...inOwn(account), annotations };
  return [{ file: "serviceaccount", tree: object("v1", "ServiceAccount", metadata, {}) }];
}

const rbac = "rbac.authorization.k8s.io/v1";
const subjects = [{ kind: "ServiceAccount", name: account, namespace }];

function rule({ apiGroups, resources, resourceNames, verbs }: Right): Tree {
  return { apiGroups, resources, ...(resourceNames === undefined ? {} : { resourceNames }), verbs };
}

function clusterRole(
  name: string,
  rights: readonly Right[],
  condition?: Condition,
  more: Tree[] = [],
): InstallObject[] {
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name };
  const shown = condition === undefined ? {} : { condition };
  const rules = [...rights.map(rule), ...more];
  return [
    { file: "roles", ...shown, tree: object(rbac, "ClusterRole", { name }, { rules }) },
    { file: "roles", ...shown, tree: object(rbac, "ClusterRoleBinding", { name }, { roleRef, subjects }) },
  ];
}

function role(
  place: { readonly file: string; readonly name: string; readonly namespace: string },
  rights: readonly Right[],
  condition?: Condition,
  given: Tree = subjects,
): InstallObject[] {
  const { file, name } = place;
  const metadata = { name, namespace: place.namespace };
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name };
  const shown = condition === undefined ? {} : { condition };
  return [
    { file, ...shown, tree: object(rbac, "Role", metadata, { rules: rights.map(rule) }) },
    { file, ...shown, tree: object(rbac, "RoleBinding", metadata, { roleRef, subjects: given }) },
  ];
}

function roles(): InstallObject[] {
  const definitions = installedDefinitions().map(({ metadata }) => metadata.name);
  const configurations = webhookObjects();
  const named = (kind: string): string[] =>
    configurations.filter((each) => each.kind === kind).map(({ metadata }) => metadata.name);
  const names = {
    mutating: named("MutatingWebhookConfiguration"),
    validating: named("ValidatingWebhookConfiguration"),
  };
  const own = (name: string) => ({ file: "roles", ...inOwn(name) });
  return [
    ...clusterRole("muster", startRights(definitions)),
    ...clusterRole("muster-webhooks", webhookRights(names), ownKeys),
    ...clusterRole("muster-scheduler", componentRights.scheduler, hasController("scheduler")),
    ...clusterRole("muster-owners", [], { all: ["extraOwners", hasController("scheduler")] }, [
      each("extraOwners", { verbs: ["get"] }),
    ]),
    ...clusterRole("muster-binder", componentRights.binder, hasController("binder")),
    ...clusterRole("muster-gang", componentRights.gang, hasController("gang")),
    ...role(own("muster-lease"), ownNamespaceRights.lease),
    ...role(own("muster-webhook-keys"), ownNamespaceRights.keys, ownKeys),
  ];
}

function reservations(): InstallObject[] {
  const condition = hasController("binder");
  const place = (name: string) => ({ file: "reservations", name, namespace: reservationNamespace });
  const metadata = { name: reservationNamespace, namespace: reservationNamespace };
  const pods = [{ kind: "ServiceAccount", name: reservationNamespace, namespace: reservationNamespace }];
  return [
    { file: "reservations", condition, tree: object("v1", "Namespace", { name: reservationNamespace }, {}) },
    {
      file: "reservations",
      condition,
      tree: object("v1", "ServiceAccount", metadata, {
        // Secrets of these names must also exist in that namespace.
        imagePullSecrets: when("imagePullSecrets", "«imagePullSecrets»"),
      }),
    },
    ...role(place("muster-binder"), reservationRights, condition),
    ...role(place(reservationNamespace), reservationPodRights, condition, pods),
  ];
}

function priorityClasses(): InstallObject[] {
  const description = "Muster's controllers: without them nothing of kai-scheduler starts.";
  const own = object(
    "scheduling.k8s.io/v1",
    "PriorityClass",
    { name: "«priorityClass.name»" },
    { value: 1_000_000_000, description },
  );
  const shipped = installedComponents()
    .flatMap(({ startObjects = [] }) => startObjects)
    .filter(({ kind }) => kind === "PriorityClass")
    .map(
      ({ apiVersion, kind, metadata, ...rest }): InstallObject => ({
        file: "priorityclasses",
        condition: hasController("scheduler"),
        tree: object(apiVersion, kind, { name: metadata.name }, rest as { readonly [field: string]: Tree }),
      }),
    );
  return [{ file: "priorityclasses", condition: "priorityClass.create", tree: own }, ...shipped];
}

function network(): InstallObject[] {
  const ports = [{ name: "https", port: 443, targetPort: "webhooks", protocol: "TCP" }];
  const status = [{ name: "metrics", port: statusPort, targetPort: "status", protocol: "TCP" }];
  const to = (...numbers: number[]): Tree => numbers.map((port) => ({ port, protocol: "TCP" }));
  return [
    {
      file: "services",
      condition: "webhooks.enabled",
      tree: object("v1", "Service", inOwn(webhookService), { spec: { selector, ports } }),
    },
    {
      file: "services",
      tree: object("v1", "Service", inOwn("muster-metrics"), { spec: { clusterIP: "None", selector, ports: status } }),
    },
    {
      file: "poddisruptionbudget",
      condition: "podDisruptionBudget.enabled",
      tree: object("policy/v1", "PodDisruptionBudget", inOwn("muster"), {
        spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
      }),
    },
    {
      file: "networkpolicy",
      condition: "networkPolicy.enabled",
      tree: object("networking.k8s.io/v1", "NetworkPolicy", inOwn("muster"), {
        spec: {
          podSelector: { matchLabels: selector },
          policyTypes: ["Ingress", "Egress"],
          ingress: [{ ports: to(webhookPort, statusPort) }],
          egress: [
            { ports: to(443, 6443, 8443) },
            {
              ports: [
                { port: 53, protocol: "UDP" },
                { port: 53, protocol: "TCP" },
              ],
            },
          ],
        },
      }),
    },
  ];
}

function certificates(): InstallObject[] {
  const lease = object("coordination.k8s.io/v1", "Lease", inOwn("muster"), {});
  return [
    // The processes fill the Secret. It is part of the installation so that it is deleted with it.
    { file: "lease", tree: lease },
    { file: "keys", condition: ownKeys, tree: object("v1", "Secret", inOwn(keysSecret), { type: "Opaque" }) },
    ...managedCertificates(),
  ];
}

function managedCertificates(): InstallObject[] {
  const apiVersion = "cert-manager.io/v1";
  const host = `${webhookService}.«release.namespace»`;
  return [
    {
      file: "certificates",
      condition: managedKeys,
      tree: object(apiVersion, "Issuer", inOwn("muster-webhooks"), { spec: { selfSigned: {} } }),
    },
    {
      file: "certificates",
      condition: managedKeys,
      tree: object(apiVersion, "Certificate", inOwn("muster-webhooks"), {
        spec: {
          secretName: "muster-webhooks-tls",
          dnsNames: [host, `${host}.svc`, `${host}.svc.cluster.local`],
          issuerRef: { name: "muster-webhooks", kind: "Issuer" },
          privateKey: { algorithm: "ECDSA", size: 256, rotationPolicy: "Always" },
        },
      }),
    },
  ];
}

function deployment(): { readonly [field: string]: Tree } {
  const args: Tree[] = [
    "run",
    "--installed",
    "--leader-elect",
    "--lease-namespace=«release.namespace»",
    `--status-address=0.0.0.0:${statusPort}`,
    "--log-level=«logLevel»",
    "--controllers=«controllers|join»",
    when("webhooks.enabled", `--webhook-service=«release.namespace»/${webhookService}`),
    when(managedKeys, "--webhook-cert-dir=/keys"),
    "--image=«image.repository»:«image.tag»",
    "--image-pull-policy=«image.pullPolicy»",
    when("reservations.image", "--reservation-image=«reservations.image»"),
    when("reservations.pullPolicy", "--reservation-pull-policy=«reservations.pullPolicy»"),
    when("reservations.timeout", "--reservation-timeout=«reservations.timeout»"),
    when("reservations.runtimeClassName", "--reservation-runtime-class=«reservations.runtimeClassName»"),
    each("extraArgs"),
  ];
  const probe = (path: string, more: { readonly [field: string]: Tree }): Tree => ({
    httpGet: { path, port: "status" },
    ...more,
  });
  const container: Tree = {
    name: "muster",
    image: "«image.repository»:«image.tag»",
    imagePullPolicy: "«image.pullPolicy»",
    args,
    ports: [
      { name: "status", containerPort: statusPort, protocol: "TCP" },
      { name: "webhooks", containerPort: webhookPort, protocol: "TCP" },
    ],
    // The first lists of a large cluster take a while.
    startupProbe: probe("/healthz", { periodSeconds: 2, failureThreshold: 60 }),
    livenessProbe: probe("/healthz", { periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }),
    readinessProbe: probe("/readyz", { periodSeconds: 5, timeoutSeconds: 3 }),
    resources: "«resources»",
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: when(managedKeys, [{ name: "keys", mountPath: "/keys", readOnly: true }]),
  };
  const keys = { name: "keys", secret: { secretName: "muster-webhooks-tls" } };
  const apart = {
    weight: 100,
    podAffinityTerm: { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: selector } },
  };
  const zones = {
    maxSkew: 1,
    topologyKey: "topology.kubernetes.io/zone",
    whenUnsatisfiable: "ScheduleAnyway",
    labelSelector: { matchLabels: selector },
  };
  const spec: Tree = {
    serviceAccountName: account,
    priorityClassName: "«priorityClass.name»",
    terminationGracePeriodSeconds: 45,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    },
    imagePullSecrets: when("imagePullSecrets", "«imagePullSecrets»"),
    nodeSelector: when("nodeSelector", "«nodeSelector»"),
    tolerations: when("tolerations", "«tolerations»"),
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [apart] } },
    topologySpreadConstraints: [zones],
    containers: [container],
    volumes: when(managedKeys, [keys]),
  };
  const own = { ...selector, ...labels, more: each("podLabels") };
  const metadata = { labels: own, annotations: when("podAnnotations", "«podAnnotations»") };
  return object("apps/v1", "Deployment", inOwn("muster"), {
    spec: {
      replicas: "«replicas»",
      selector: { matchLabels: selector },
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: { metadata, spec },
    },
  });
}

type WebhookObject = NewObject & { readonly webhooks: readonly { readonly clientConfig: { [field: string]: Tree } }[] };

function webhookObjects(): WebhookObject[] {
  const service = { namespace, name: webhookService, port: 443 };
  const place = { client: { service }, authority: "", ownNamespace: namespace };
  return webhookConfigurations(installedComponents(), place) as WebhookObject[];
}

function webhooks(): InstallObject[] {
  const inject = { "cert-manager.io/inject-ca-from": "«release.namespace»/muster-webhooks" };
  return webhookObjects().map(({ apiVersion, kind, metadata, webhooks: all }) => {
    const component = metadata.name.replace(/^muster-/, "");
    const wanted = all.map(({ clientConfig: { caBundle: _, ...clientConfig }, ...webhook }) => ({
      ...webhook,
      clientConfig,
      failurePolicy: "«webhooks.failurePolicy»",
      timeoutSeconds: "«webhooks.timeoutSeconds»",
    }));
    const about = { name: metadata.name, annotations: when(managedKeys, inject) };
    return {
      file: "webhooks",
      condition: { all: ["webhooks.enabled", hasController(component)] },
      tree: object(apiVersion, kind, about, { webhooks: wanted }),
    };
  });
}

function monitoring(): InstallObject[] {
  const endpoint = { port: "metrics", path: "/metrics", interval: "«serviceMonitor.interval»" };
  const monitor = {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: {
      ...inOwn("muster"),
      labels: { ...labels, more: each("serviceMonitor.labels") },
    },
    spec: { selector: { matchLabels: { "app.kubernetes.io/name": "muster" } }, endpoints: [endpoint] },
  };
  return [{ file: "servicemonitor", condition: "serviceMonitor.enabled", tree: monitor }];
}
