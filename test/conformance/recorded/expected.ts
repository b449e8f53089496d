/**
 * The expected responses to the recorded requests, by the behaviour of Kubernetes 1.36: for each row its requests in
 * order, as method, resource, code, kind and reason, with the fields that matter. A watch is followed by the events
 * that must be delivered before the row ends. Reads are retried until controllers have acted.
 */
export type Expected = string | readonly [line: string, fields: object | readonly string[]];

const columns = {
  pod: ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"],
  node: [
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "Internal-IP",
    "External-IP",
    "OS-Image",
    "Kernel-Version",
    "Container-Runtime",
  ],
  service: ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"],
  configMap: ["Name", "Data", "Age"],
  deployment: ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"],
  event: ["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"],
  definition: ["Name", "Created At"],
};

/** A Table with these columns and a row for each name. */
function table(columnNames: readonly string[], ...rows: string[]): object {
  return {
    columnDefinitions: columnNames.map((name) => ({ name })),
    rows: rows.map((name) => ({ object: { kind: "PartialObjectMetadata", metadata: { name } } })),
  };
}

/** A list of objects with these names, in this order. */
function names(...all: string[]): object {
  return { items: all.map((name) => ({ metadata: { name } })) };
}

/** A pod template with these containers, in this order. */
function containers(...all: string[]): object {
  const list = all.map((one) => ({ name: one.split("=")[0], image: one.split("=")[1] }));
  return { spec: { template: { spec: { containers: list } } } };
}

function modified(resource: string, name: string): object {
  return {
    message: `Operation cannot be fulfilled on ${resource} "${name}": the object has been modified; please apply your changes to the latest version and try again`,
  };
}

const discovery = { apiVersion: "apidiscovery.k8s.io/v2" };

const defaultedPodSpec = {
  restartPolicy: "Always",
  dnsPolicy: "ClusterFirst",
  schedulerName: "default-scheduler",
  terminationGracePeriodSeconds: 30,
  enableServiceLinks: true,
  priority: 0,
  preemptionPolicy: "PreemptLowerPriority",
  containers: [{ imagePullPolicy: "IfNotPresent", terminationMessagePolicy: "File" }],
};

/** By row of the kubectl table. */
export const expected: Readonly<Record<number, readonly Expected[]>> = {
  1: [["GET /version 200", { major: "1", minor: "36", gitVersion: "v1.36.4+muster" }]],
  2: ["GET kube-system:services 200 ServiceList"],
  3: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
  ],
  4: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
  ],
  5: [["GET pods 200 Table", table(columns.pod, "runs", "waits")]],
  6: [["GET pods 200 Table", table(columns.pod, "runs", "waits")]],
  7: [["GET configmaps 200 Table", table(columns.configMap, "seven")]],
  8: [
    [
      "GET pods 200 Table",
      {
        rows: [
          { object: { metadata: { labels: { app: "web", tier: "front" } } } },
          { object: { metadata: { name: "b" } } },
        ],
      },
    ],
  ],
  9: [["GET pods 200 PodList", names("a", "b")]],
  10: [
    [
      "GET pods/a 200 Pod",
      { apiVersion: "v1", kind: "Pod", spec: defaultedPodSpec, status: { phase: "Pending", qosClass: "BestEffort" } },
    ],
  ],
  11: [
    [
      "GET pods/a 200 Pod",
      { apiVersion: "v1", kind: "Pod", metadata: { managedFields: [{ manager: "world", operation: "Update" }] } },
    ],
  ],
  12: ["GET pods/a 200 Pod", ["GET pods 200 PodList", names("a", "b")]],
  13: [["GET pods 200 PodList", names("a", "b")]],
  14: [
    ["GET pods 200 PodList", names("a")],
    ["GET pods 200 PodList", names("a", "b")],
    ["GET pods 200 PodList", names("c")],
    ["GET pods 200 Table", table(columns.pod)],
  ],
  15: [
    ["GET pods 200 PodList", names("a")],
    ["GET pods 200 PodList", names("b")],
  ],
  16: [["GET pods 400 Status BadRequest", { message: "field label not supported: spec.hostname" }]],
  17: [
    ["GET pods 200 PodList", { ...names("a"), metadata: { remainingItemCount: 2 } }],
    ["GET pods 200 PodList", { ...names("b"), metadata: { remainingItemCount: 1 } }],
    ["GET pods 200 PodList", names("c")],
  ],
  18: ["GET pods 200 Table", ["GET pods 200 Watch", ["MODIFIED a", "ADDED b", "MODIFIED b", "DELETED b"]]],
  19: ["GET configmaps/a 200 ConfigMap", ["GET configmaps 200 Watch", ["ADDED a", "MODIFIED a"]]],
  20: ["GET configmaps 200 Table", ["GET configmaps 200 Watch", ["ADDED b"]]],
  21: [
    ["GET pods 200 Table", table(columns.pod, "a")],
    "GET replicationcontrollers 200 Table",
    ["GET services 200 Table", table(columns.service, "web")],
    "GET daemonsets.apps 200 Table",
    ["GET deployments.apps 200 Table", table(columns.deployment, "web")],
    "GET replicasets.apps 200 Table",
    "GET statefulsets.apps 200 Table",
    "GET horizontalpodautoscalers.autoscaling 200 Table",
    "GET cronjobs.batch 200 Table",
    "GET jobs.batch 200 Table",
  ],
  22: [
    ["GET pods 200 Table", table(columns.pod, "a")],
    ["GET nodes 200 Table", table(columns.node, "n22")],
  ],
  23: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
  ],
  24: ["GET /readyz 200"],
  25: [
    "POST configmaps 201 ConfigMap",
    ["POST pods 201 Pod", { spec: defaultedPodSpec, status: { phase: "Pending" } }],
    [
      "POST deployments.apps 201 Deployment",
      { metadata: { generation: 1 }, spec: { replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 } },
    ],
    "POST configmaps 201 ConfigMap",
    "POST deployments.apps 201 Deployment",
  ],
  26: [
    [
      "POST configmaps 409 Status AlreadyExists",
      { message: 'configmaps "c" already exists', details: { name: "c", kind: "configmaps" } },
    ],
  ],
  27: [
    [
      "POST pods 400 Status BadRequest",
      {
        message:
          'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].imag", unknown field "spec.foo"',
      },
    ],
    "POST pods 201 Pod",
  ],
  28: [
    [
      "POST namespaces 201 Namespace",
      {
        metadata: { labels: { "kubernetes.io/metadata.name": "made-28" } },
        spec: { finalizers: ["kubernetes"] },
        status: { phase: "Active" },
      },
    ],
  ],
  29: [
    [
      "POST deployments.apps 201 Deployment",
      {
        spec: {
          replicas: 0,
          strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%", maxUnavailable: "25%" } },
        },
      },
    ],
    [
      "POST deployments.apps 201 Deployment",
      {
        spec: {
          replicas: 1,
          template: { spec: { containers: [{ ports: [{ containerPort: 80, protocol: "TCP" }] }] } },
        },
      },
    ],
  ],
  30: [["POST configmaps 201 ConfigMap", { data: { a: "1", text: "two words" } }]],
  31: [["POST secrets 201 Secret", { type: "example.com/t", data: { k: "dg==" } }]],
  32: ["POST serviceaccounts 201 ServiceAccount"],
  33: [
    [
      "POST roles.rbac.authorization.k8s.io 201 Role",
      {
        rules: [
          { verbs: ["get", "list"], resources: ["pods"] },
          { apiGroups: ["apps"], resources: ["deployments/scale"] },
        ],
      },
    ],
    [
      "POST clusterroles.rbac.authorization.k8s.io 201 ClusterRole",
      { rules: [{ verbs: ["get"], nonResourceURLs: ["/logs/*"] }] },
    ],
  ],
  34: [
    [
      "POST rolebindings.rbac.authorization.k8s.io 201 RoleBinding",
      {
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
        subjects: [
          { kind: "User", name: "ann" },
          { kind: "ServiceAccount", namespace: "row-34", name: "robot" },
        ],
      },
    ],
    [
      "POST clusterrolebindings.rbac.authorization.k8s.io 201 ClusterRoleBinding",
      { subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "crew" }] },
    ],
  ],
  35: [
    [
      "POST jobs.batch 201 Job",
      {
        spec: {
          completions: 1,
          parallelism: 1,
          backoffLimit: 6,
          completionMode: "NonIndexed",
          template: { metadata: { labels: { "job-name": "once" } } },
        },
      },
    ],
  ],
  36: [
    [
      "POST cronjobs.batch 201 CronJob",
      {
        spec: { concurrencyPolicy: "Allow", suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 },
      },
    ],
    "GET cronjobs.batch/nightly 200 CronJob",
    ["POST jobs.batch 201 Job", { metadata: { ownerReferences: [{ kind: "CronJob", name: "nightly" }] } }],
  ],
  37: [
    ["POST resourcequotas 201 ResourceQuota", { spec: { hard: { pods: "10", "requests.cpu": "1500m" } } }],
    ["POST poddisruptionbudgets.policy 201 PodDisruptionBudget", { spec: { minAvailable: "50%" } }],
  ],
  38: [
    [
      "POST priorityclasses.scheduling.k8s.io 201 PriorityClass",
      { value: 1000, preemptionPolicy: "PreemptLowerPriority" },
    ],
  ],
  39: [
    [
      "POST services 201 Service",
      {
        spec: { type: "ClusterIP", sessionAffinity: "None", ports: [{ port: 80, targetPort: 8080, protocol: "TCP" }] },
      },
    ],
    ["POST ingresses.networking.k8s.io 201 Ingress", { spec: { ingressClassName: "nginx" } }],
  ],
  40: [
    ["POST serviceaccounts/robot/token 201 TokenRequest", { spec: { audiences: ["vault"], expirationSeconds: 1200 } }],
    ["POST serviceaccounts/robot/token 201 TokenRequest", { spec: { expirationSeconds: 3600 } }],
  ],
  41: [
    [
      "POST pods 201 Pod",
      { metadata: { labels: { app: "p" } }, spec: { containers: [{ env: [{ name: "A", value: "b" }] }] } },
    ],
  ],
  42: [
    "GET deployments.apps/web 200 Deployment",
    ["POST services 201 Service", { spec: { selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] } }],
  ],
  43: [
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-43 200 Namespace",
    "POST deployments.apps 201 Deployment",
  ],
  44: [
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-44 200 Namespace",
    "POST deployments.apps 201 Deployment",
    "GET deployments.apps/web 200 Deployment",
  ],
  45: [
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-45 200 Namespace",
    "POST deployments.apps 201 Deployment",
    "GET deployments.apps/web 200 Deployment",
    [
      "PATCH deployments.apps/web 200 Deployment",
      { metadata: { generation: 2 }, ...containers("main=nginx:1.29", "side=envoy:2") },
    ],
  ],
  46: [
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-46 200 Namespace",
    "POST deployments.apps 201 Deployment",
    "GET deployments.apps/web 200 Deployment",
    [
      "PATCH deployments.apps/web 200 Deployment",
      { metadata: { labels: { other: "here" } }, ...containers("main=nginx:1.29") },
    ],
  ],
  47: [
    [
      "PATCH configmaps/c 201 ConfigMap",
      {
        metadata: {
          managedFields: [{ manager: "kubectl", operation: "Apply", fieldsV1: { "f:data": { "f:a": {} } } }],
        },
      },
    ],
    [
      "PATCH configmaps/c 200 ConfigMap",
      {
        data: { b: "2" },
        metadata: {
          managedFields: [{ manager: "kubectl", operation: "Apply", fieldsV1: { "f:data": { "f:b": {} } } }],
        },
      },
    ],
  ],
  48: [
    "PATCH deployments.apps/web 201 Deployment",
    [
      "PATCH deployments.apps/web 409 Status Conflict",
      {
        message: 'Apply failed with 1 conflict: conflict with "first": .spec.replicas',
        details: { causes: [{ reason: "FieldManagerConflict", field: ".spec.replicas" }] },
      },
    ],
    "PATCH configmaps/c 201 ConfigMap",
    ["PATCH configmaps/c 409 Status Conflict", { details: { causes: [{ field: ".data.a" }, { field: ".data.b" }] } }],
  ],
  49: ["PATCH configmaps/c 201 ConfigMap", ["PATCH configmaps/c 200 ConfigMap", { data: { a: "2", b: "1" } }]],
  50: [
    "GET configmaps/c 404 Status NotFound",
    "GET namespaces/row-50 200 Namespace",
    "POST configmaps 201 ConfigMap",
    "PATCH configmaps/c 200 ConfigMap",
    "PATCH configmaps/c 200 ConfigMap",
    "PATCH configmaps/c 200 ConfigMap",
    ["PATCH configmaps/c 200 ConfigMap", { data: { a: "2" } }],
  ],
  51: [
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-51 200 Namespace",
    ["POST deployments.apps 201 Deployment", { metadata: { generation: 1 } }],
    "GET deployments.apps/web 404 Status NotFound",
    "GET namespaces/row-51 200 Namespace",
    "POST deployments.apps 201 Deployment",
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", containers("main=nginx:1.29")],
  ],
  52: [
    "GET configmaps/c 404 Status NotFound",
    "GET namespaces/row-52 200 Namespace",
    "POST configmaps 201 ConfigMap",
    "GET configmaps/c 200 ConfigMap",
    "GET configmaps/c 200 ConfigMap",
    ["PATCH configmaps/c 200 ConfigMap", { data: { a: "2" } }],
  ],
  53: [
    "GET configmaps/a 404 Status NotFound",
    "GET namespaces/row-53 200 Namespace",
    "POST configmaps 201 ConfigMap",
    "GET configmaps/b 404 Status NotFound",
    "GET namespaces/row-53 200 Namespace",
    "POST configmaps 201 ConfigMap",
    "GET configmaps/a 200 ConfigMap",
    "GET configmaps 200 ConfigMapList",
    ["DELETE configmaps/b 200 Status", { status: "Success", details: { name: "b", kind: "configmaps" } }],
    "GET endpoints 200 EndpointsList",
    "GET persistentvolumeclaims 200 PersistentVolumeClaimList",
    "GET pods 200 PodList",
    "GET replicationcontrollers 200 ReplicationControllerList",
    "GET secrets 200 SecretList",
    "GET services 200 ServiceList",
    "GET jobs.batch 200 JobList",
    "GET cronjobs.batch 200 CronJobList",
    "GET ingresses.networking.k8s.io 200 IngressList",
    "GET daemonsets.apps 200 DaemonSetList",
    "GET deployments.apps 200 DeploymentList",
    "GET replicasets.apps 200 ReplicaSetList",
    "GET statefulsets.apps 200 StatefulSetList",
    "GET namespaces 200 NamespaceList",
    "GET persistentvolumes 200 PersistentVolumeList",
  ],
  54: [
    "GET configmaps/c 200 ConfigMap",
    ["PUT configmaps/c 200 ConfigMap", { data: { a: "2" } }],
    ["PUT configmaps/c 409 Status Conflict", modified("configmaps", "c")],
    "GET configmaps/none 404 Status NotFound",
    "PUT configmaps/none 404 Status NotFound",
  ],
  55: [
    ["DELETE pods/p 200 Pod", { metadata: { name: "p" } }],
    "GET pods/p 404 Status NotFound",
    "GET namespaces/row-55 200 Namespace",
    "POST pods 201 Pod",
  ],
  56: ["GET configmaps/c 200 ConfigMap", ["PATCH configmaps/c 200 ConfigMap", { data: { a: "new" } }]],
  57: [
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", containers("side=envoy:1", "main=nginx:1.29")],
    "GET deployments.apps/web 200 Deployment",
    "PATCH deployments.apps/web 200 Deployment",
  ],
  58: [
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", containers("only=envoy:1")],
    "GET configmaps/c 200 ConfigMap",
    ["PATCH configmaps/c 200 ConfigMap", { data: { b: "2", c: "3" } }],
  ],
  59: [
    "GET configmaps/c 200 ConfigMap",
    ["PATCH configmaps/c 200 ConfigMap", { data: { a: "1", b: "2" } }],
    "GET configmaps/c 200 ConfigMap",
    [
      "PATCH configmaps/c 422 Status Invalid",
      { message: "the server rejected our request due to an error in our request" },
    ],
  ],
  60: [
    "GET deployments.apps/web/status 200 Deployment",
    [
      "PATCH deployments.apps/web/status 200 Deployment",
      { metadata: { generation: 1 }, spec: { replicas: 1 }, status: { replicas: 3 } },
    ],
    "GET deployments.apps/web/status 200 Deployment",
  ],
  61: [
    "GET pods/p 200 Pod",
    ["PATCH pods/p 200 Pod", { metadata: { labels: { tier: "front" } } }],
    "GET pods/p 200 Pod",
    "GET pods/p 200 Pod",
    ["PATCH pods/p 200 Pod", { metadata: { labels: { tier: "back" } } }],
    "GET pods/p 200 Pod",
    "PATCH pods/p 200 Pod",
  ],
  62: [
    "GET pods/p 200 Pod",
    ["PATCH pods/p 200 Pod", { metadata: { annotations: { note: "two words" } } }],
    "GET pods/p 200 Pod",
    "PATCH pods/p 200 Pod",
  ],
  63: [
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", containers("main=nginx:1.30")],
    "GET deployments.apps/web 200 Deployment",
    "PATCH deployments.apps/web 200 Deployment",
    "GET deployments.apps/web 200 Deployment",
    [
      "PATCH deployments.apps/web 200 Deployment",
      { spec: { template: { spec: { containers: [{ resources: { limits: { cpu: "1", memory: "1Gi" } } }] } } } },
    ],
    "GET deployments.apps/web 200 Deployment",
    [
      "PATCH deployments.apps/web 200 Deployment",
      { metadata: { generation: 5 }, spec: { template: { spec: { serviceAccountName: "robot" } } } },
    ],
  ],
  64: [
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web/scale 200 Scale", { spec: { replicas: 3 }, status: { selector: "app=web" } }],
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web/scale 200 Scale",
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web/scale 200 Scale",
    ["PUT deployments.apps/web/scale 200 Scale", { metadata: { name: "web" } }],
    "GET deployments.apps/none 404 Status NotFound",
    "GET namespaces/row-64 200 Namespace",
  ],
  65: [
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps 200 DeploymentList",
    ["GET deployments.apps 200 Watch", ["MODIFIED web"]],
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", { metadata: { generation: 2 } }],
  ],
  66: [
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web 200 Deployment",
    ["GET replicasets.apps 200 ReplicaSetList", names("web-h1", "web-h2")],
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web 200 Deployment",
    "GET replicasets.apps 200 ReplicaSetList",
    ["PATCH deployments.apps/web 200 Deployment", containers("main=nginx:1")],
    "GET deployments.apps/web 200 Deployment",
    ["PATCH deployments.apps/web 200 Deployment", { spec: { paused: true } }],
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web 200 Deployment",
    "GET replicasets.apps 200 ReplicaSetList",
    "GET deployments.apps/web 200 Deployment",
    "PATCH deployments.apps/web 200 Deployment",
  ],
  67: [
    ["DELETE configmaps/c 200 Status", { status: "Success", details: { name: "c", kind: "configmaps" } }],
    "GET configmaps/c 404 Status NotFound",
    ["DELETE pods/p 200 Pod", { metadata: { deletionGracePeriodSeconds: 30 } }],
    "GET pods/p 200 Pod",
    "GET pods 200 PodList",
    ["GET pods 200 Watch", ["MODIFIED p", "DELETED p"]],
    "DELETE configmaps/c 404 Status NotFound",
    "DELETE configmaps/c 404 Status NotFound",
    "GET configmaps/c 404 Status NotFound",
  ],
  68: ["DELETE pods/p 200 Pod", "GET pods/p 404 Status NotFound"],
  69: [
    ["DELETE deployments.apps/front 200 Deployment", { metadata: { finalizers: ["foregroundDeletion"] } }],
    "GET deployments.apps/front 404 Status NotFound",
    ["DELETE deployments.apps/left 200 Deployment", { metadata: { finalizers: ["orphan"] } }],
    "GET deployments.apps/left 404 Status NotFound",
    "DELETE deployments.apps/back 200 Status",
    "GET deployments.apps/back 404 Status NotFound",
    "GET pods/back-1-a 404 Status NotFound",
    "GET namespaces/row-69 200 Namespace",
  ],
  70: [
    "GET pods 200 PodList",
    "DELETE pods/a 200 Pod",
    "DELETE pods/b 200 Pod",
    "GET pods/a 404 Status NotFound",
    "GET pods/b 404 Status NotFound",
    ["DELETE namespaces/row-70 200 Namespace", { status: { phase: "Terminating" } }],
    "GET namespaces/row-70 200 Namespace",
    "GET namespaces 200 NamespaceList",
    "GET namespaces 200 Watch",
    [
      "POST configmaps 403 Status Forbidden",
      {
        message:
          'configmaps "late" is forbidden: unable to create new content in namespace row-70 because it is being terminated',
        details: { causes: [{ reason: "NamespaceTerminating" }] },
      },
    ],
  ],
  71: [
    "GET pods/p 200 Pod",
    "GET pods 200 PodList",
    ["GET pods 200 Watch", ["MODIFIED p"]],
    "GET pods/p 200 Pod",
    "GET pods 200 PodList",
    "GET pods 200 Watch",
  ],
  72: [
    "GET configmaps/c 200 ConfigMap",
    "GET configmaps/c 200 ConfigMap",
    "GET configmaps 200 ConfigMapList",
    ["GET configmaps 200 Watch", ["DELETED c"]],
  ],
  73: [
    "GET pods/p 200 Pod",
    "GET pods 200 PodList",
    ["GET pods 200 Watch", ["MODIFIED p"]],
    "GET configmaps/late 404 Status NotFound",
    "GET namespaces/row-73 200 Namespace",
    "GET configmaps/late 200 ConfigMap",
    "GET configmaps/late 200 ConfigMap",
  ],
  74: ["GET pods/p 200 Pod", "GET pods/p 200 Pod", ["GET events 200 EventList", names("p.1")]],
  75: [
    "GET nodes/n75 200 Node",
    "GET nodes/n75 200 Node",
    ["GET pods 200 PodList", names("p")],
    "GET events 200 EventList",
    "GET events 200 EventList",
    ["GET kube-node-lease:leases.coordination.k8s.io/n75 200 Lease", { spec: { holderIdentity: "n75" } }],
  ],
  76: [
    "GET deployments.apps/web 200 Deployment",
    "GET deployments.apps/web 200 Deployment",
    "GET events 200 EventList",
    "GET replicasets.apps 200 ReplicaSetList",
    "GET jobs.batch/once 200 Job",
    "GET jobs.batch/once 200 Job",
    "GET events 200 EventList",
  ],
  77: [
    ["GET events 200 Table", table(columns.event, "p.1", "q.1")],
    "GET events 200 EventList",
    ["GET events 200 EventList", names("p.1")],
    ["GET events 200 EventList", names("q.1")],
  ],
  78: [
    "GET pods/p 200 Pod",
    "GET pods/p/log 200",
    "GET pods/two 200 Pod",
    "GET pods/two/log 200",
    "GET pods/two 200 Pod",
    "GET pods/none 404 Status NotFound",
    "GET namespaces/row-78 200 Namespace",
    "GET pods/unscheduled 200 Pod",
    ["GET pods/unscheduled/log 400 Status BadRequest", { message: "pod unscheduled does not have a host assigned" }],
  ],
  79: ["GET pods/p 200 Pod", "GET pods/p/log 200"],
  80: [
    "GET nodes/n80 200 Node",
    ["PATCH nodes/n80 200 Node", { spec: { unschedulable: true } }],
    "GET nodes/n80 200 Node",
    "GET nodes/n80 200 Table",
  ],
  81: ["GET nodes/n81 200 Node", "PATCH nodes/n81 200 Node"],
  82: [
    "GET nodes/n82 200 Node",
    ["PATCH nodes/n82 200 Node", { spec: { taints: [{ key: "gpu", value: "true", effect: "NoSchedule" }] } }],
    "GET nodes/n82 200 Node",
    "GET nodes/n82 200 Node",
    "PATCH nodes/n82 200 Node",
  ],
  83: [
    "GET nodes/n83 200 Node",
    "PATCH nodes/n83 200 Node",
    "GET pods 200 PodList",
    "GET nodes/n83 200 Node",
    ["GET pods 200 PodList", names("web-1")],
    [
      "POST pods/web-1/eviction 429 Status TooManyRequests",
      {
        message: "Cannot evict pod as it would violate the pod's disruption budget.",
        details: { causes: [{ reason: "DisruptionBudget" }] },
      },
    ],
    "POST pods/web-1/eviction 201 Status",
    "GET pods/web-1 404 Status NotFound",
  ],
  84: [
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: true } }],
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: true } }],
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: false } }],
    "GET /apis/apps/v1 200 APIResourceList",
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: true } }],
    "GET /apis/apps/v1 200 APIResourceList",
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: false } }],
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: false } }],
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: true } }],
    ["POST selfsubjectaccessreviews.authorization.k8s.io 201 SelfSubjectAccessReview", { status: { allowed: false } }],
  ],
  85: [
    ["POST selfsubjectrulesreviews.authorization.k8s.io 201 SelfSubjectRulesReview", { status: { incomplete: false } }],
  ],
  86: [
    [
      "POST selfsubjectreviews.authentication.k8s.io 201 SelfSubjectReview",
      { status: { userInfo: { username: "kubectl-86", groups: ["system:masters", "system:authenticated"] } } },
    ],
    [
      "POST selfsubjectreviews.authentication.k8s.io 201 SelfSubjectReview",
      { status: { userInfo: { username: "ann", groups: ["crew", "system:authenticated"] } } },
    ],
  ],
  87: [
    "GET configmaps/c 200 ConfigMap",
    [
      "GET pods 403 Status Forbidden",
      {
        message:
          'pods is forbidden: User "ann-87" cannot list resource "pods" in API group "" in the namespace "row-87"',
      },
    ],
    "DELETE configmaps/c 403 Status Forbidden",
    [
      "GET nodes 403 Status Forbidden",
      {
        message: 'nodes is forbidden: User "ann-87" cannot list resource "nodes" in API group "" at the cluster scope',
      },
    ],
    "GET configmaps 403 Status Forbidden",
  ],
  88: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
    "GET /openapi/v3 200",
    ["GET /openapi/v3/api/v1 200", { openapi: "3.0.0" }],
    "GET /openapi/v3 200",
    "GET /openapi/v3 200",
    "GET /openapi/v3/api/v1 200",
  ],
  89: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
    "GET /openapi/v3 200",
    ["GET /openapi/v3/apis/row89.example.com/v1 200", { openapi: "3.0.0" }],
  ],
  90: ["GET /openapi/v3 200", ["GET /openapi/v3/apis/policy/v1 200", { openapi: "3.0.0" }]],
  91: [
    "GET customresourcedefinitions.apiextensions.k8s.io/trains91.row91.example.com 404 Status NotFound",
    [
      "POST customresourcedefinitions.apiextensions.k8s.io 201 CustomResourceDefinition",
      { spec: { conversion: { strategy: "None" } }, status: { storedVersions: ["v1"] } },
    ],
    "GET customresourcedefinitions.apiextensions.k8s.io/trains91.row91.example.com 200 CustomResourceDefinition",
    [
      "GET customresourcedefinitions.apiextensions.k8s.io/trains91.row91.example.com 200 Table",
      table(columns.definition, "trains91.row91.example.com"),
    ],
  ],
  92: [
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 404 Status NotFound",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 404 Status NotFound",
    "POST customresourcedefinitions.apiextensions.k8s.io 201 CustomResourceDefinition",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 200 CustomResourceDefinition",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 200 CustomResourceDefinition",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 200 CustomResourceDefinition",
    "GET customresourcedefinitions.apiextensions.k8s.io 200 CustomResourceDefinitionList",
    "GET customresourcedefinitions.apiextensions.k8s.io 200 Watch",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains92.row92.example.com 200 CustomResourceDefinition",
  ],
  93: [
    "GET trains93.row93.example.com/a 404 Status NotFound",
    "GET namespaces/row-93 200 Namespace",
    [
      "POST trains93.row93.example.com 201 Train93",
      { metadata: { generation: 1 }, spec: { line: "coast", wagons: 4, wagonsMax: 12 } },
    ],
    "GET trains93.row93.example.com/b 404 Status NotFound",
    "GET namespaces/row-93 200 Namespace",
    [
      "POST trains93.row93.example.com 400 Status BadRequest",
      {
        message:
          'Train93 in version "v1" cannot be handled as a Train93: strict decoding error: unknown field "spec.lane"',
      },
    ],
    "GET trains93.row93.example.com/b 404 Status NotFound",
    "GET namespaces/row-93 200 Namespace",
    ["POST trains93.row93.example.com 201 Train93", { spec: { wagons: 4, wagonsMax: 12 } }],
    "GET trains93.row93.example.com/a 200 Train93",
    [
      "PATCH trains93.row93.example.com/a 422 Status Invalid",
      { details: { kind: "Train93", causes: [{ reason: "FieldValueInvalid", field: "spec" }] } },
    ],
    "GET trains93.row93.example.com/c 404 Status NotFound",
    "GET namespaces/row-93 200 Namespace",
    "POST trains93.row93.example.com 422 Status Invalid",
    "GET trains93.row93.example.com/a 200 Train93",
    "PATCH trains93.row93.example.com/a 200 Train93",
    "GET trains93.row93.example.com/a 200 Train93",
    ["PATCH trains93.row93.example.com/a/scale 200 Scale", { spec: { replicas: 6 } }],
    "GET trains93.row93.example.com/a 200 Train93",
    "PATCH trains93.row93.example.com/a 415 Status UnsupportedMediaType",
  ],
  94: [
    ["GET trains94.row94.example.com 200 Table", table(["Name", "Wagons", "Line", "Age"], "a", "b")],
    "GET trains94.row94.example.com 200 Table",
    ["GET trains94.row94.example.com 200 Table", table(["Name", "Age"], "a", "b")],
    "GET trains94.row94.example.com 200 Train94List",
    "DELETE customresourcedefinitions.apiextensions.k8s.io/trains94.row94.example.com 200 CustomResourceDefinition",
    "GET customresourcedefinitions.apiextensions.k8s.io/trains94.row94.example.com 404 Status NotFound",
    "GET trains94.row94.example.com 404 Status NotFound",
  ],
  95: ["GET pods/p 200 Pod", "GET pods/p/exec 404 Status NotFound", "POST pods/p/exec 404 Status NotFound"],
  96: [
    "GET pods/p 200 Pod",
    "GET pods/p 200 Pod",
    "GET pods/p/portforward 404 Status NotFound",
    "POST pods/p/portforward 404 Status NotFound",
  ],
  97: ["GET pods/p 200 Pod", "GET pods/p/attach 404 Status NotFound", "POST pods/p/attach 404 Status NotFound"],
  98: [
    "GET deployments.apps/web 200 Deployment",
    [
      "POST horizontalpodautoscalers.autoscaling 201 HorizontalPodAutoscaler",
      { spec: { minReplicas: 2, maxReplicas: 5 } },
    ],
    "GET horizontalpodautoscalers.autoscaling 200 Table",
  ],
  99: [
    "GET nodes/n99 200 Node",
    "POST pods 201 Pod",
    "GET pods/p 200 Pod",
    [
      "PATCH pods/p/ephemeralcontainers 200 Pod",
      { spec: { ephemeralContainers: [{ name: "look", image: "busybox" }] } },
    ],
  ],
  100: [
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
    ["GET /api 200 APIGroupDiscoveryList", discovery],
    ["GET /apis 200 APIGroupDiscoveryList", discovery],
  ],
};
