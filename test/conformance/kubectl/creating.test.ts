import { Buffer } from "node:buffer";
import type { ExpectStatic } from "vitest";
import { kubectlRows, type Row } from "./kubectlRows.ts";
import { configMap, deployment, pod } from "./manifests.ts";

// Rows 25 to 42: create from files and from flags. kubectl sends flags as protobuf.
//
//   25 create -f            28 namespace        31 secret generic   34 (cluster)rolebinding   37 quota, pdb      40 token
//   26 create -f again      29 deployment       32 serviceaccount   35 job                    38 priorityclass   41 run
//   27 unknown field        30 configmap        33 (cluster)role    36 cronjob                39 service, ingress 42 expose

const kubectlRow = kubectlRows("creating");

kubectlRow("[25] create -f makes each object of a stream and of a list", async ({ row, expect }) => {
  const { text } = await row.kubectl("create -f -", { stdin: [configMap("c", { a: "1" }), pod("p"), deployment("d")] });
  expect(text).toBe("configmap/c created\npod/p created\ndeployment.apps/d created");
  expect(row.requests()).toEqual([
    "POST /api/v1/namespaces/row-25/configmaps?fieldManager=kubectl-create&fieldValidation=Strict",
    "POST /api/v1/namespaces/row-25/pods?fieldManager=kubectl-create&fieldValidation=Strict",
    "POST /apis/apps/v1/namespaces/row-25/deployments?fieldManager=kubectl-create&fieldValidation=Strict",
  ]);
  const items = [configMap("in-list", {}), deployment("in-list")];
  const list = await row.kubectl("create -f -", { stdin: JSON.stringify({ apiVersion: "v1", kind: "List", items }) });
  expect(list.text).toBe("configmap/in-list created\ndeployment.apps/in-list created");
  expect(row.stored("/configmaps", "c")).toMatchObject({ data: { a: "1" } });
  expect(row.stored("apps/deployments", "d")).toMatchObject({
    metadata: { generation: 1, managedFields: [{ manager: "kubectl-create", operation: "Update" }] },
    spec: { replicas: 1, progressDeadlineSeconds: 600, strategy: { type: "RollingUpdate" } },
  });
});

kubectlRow("[26] create -f of what exists is refused", async ({ row, expect }) => {
  await row.given(configMap("c", { a: "1" }));
  const { text } = await row.kubectl("create -f -", { stdin: configMap("c", { a: "2" }) });
  expect(text).toBe(
    `! Error from server (AlreadyExists): error when creating "STDIN": configmaps "c" already exists\nexit 1`,
  );
  expect(row.stored("/configmaps", "c")).toMatchObject({ data: { a: "1" } });
});

kubectlRow(
  "[27] create -f with unknown and repeated fields is refused, or warned about when asked",
  async ({ row, expect }) => {
    const stdin = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"foo":1,"containers":[{"name":"c","image":"a","imag":"b"}]}}`;
    const strict = await row.kubectl("create -f -", { stdin });
    expect(strict.text).toBe(
      `! Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].imag", unknown field "spec.foo"\nexit 1`,
    );
    expect(row.stored("/pods", "p")).toBeUndefined();
    const warned = await row.kubectl("create --validate=warn -f -", { stdin });
    expect(warned.text).toBe(
      `pod/p created\n! Warning: unknown field "spec.containers[0].imag"\n! Warning: unknown field "spec.foo"`,
    );
    expect(row.stored("/pods", "p")?.["spec"]).not.toHaveProperty("foo");
  },
);

/**
 * Creates by flags, and checks that the server stored what `kubectl --dry-run=client` prints for these flags. The row
 * names fields that the server adds.
 */
async function createsAsSaid(
  { row, expect }: { row: Row; expect: ExpectStatic },
  command: string | readonly string[],
  key: string,
  name: string,
  added: object = {},
): Promise<void> {
  const words = typeof command === "string" ? command.split(" ") : command;
  const said = await row.kubectl([...words.slice(0, 3), "--dry-run=client", "-o", "json", ...words.slice(3)]);
  expect(said.err).toBe("");
  const meant = JSON.parse(said.out);
  delete meant.metadata.creationTimestamp;
  delete meant.status;
  if (meant.spec?.template !== undefined) delete meant.spec.template.metadata?.creationTimestamp;
  if (meant.spec?.jobTemplate !== undefined) {
    delete meant.spec.jobTemplate.metadata.creationTimestamp;
    delete meant.spec.jobTemplate.spec.template.metadata.creationTimestamp;
  }
  row.forget();
  const did = await row.kubectl(words);
  expect(did.err).toBe("");
  expect(did.out).toMatch(new RegExp(`/${name} created\n$`));
  const [body] = row.bodies(/^POST .*fieldManager=kubectl-create/);
  // "k8s\0" opens every protobuf body.
  expect(Buffer.isBuffer(body) ? body.subarray(0, 4).toString("latin1") : body).toBe("k8s\0");
  const object = row.stored(key, name);
  expect(object).toMatchObject(meant);
  expect(object).toMatchObject(added);
}

kubectlRow(
  "[28] create namespace makes an active namespace that carries its name as a label",
  async ({ row, expect }) => {
    await createsAsSaid({ row, expect }, "create namespace made-28", "/namespaces", "made-28", {
      metadata: { labels: { "kubernetes.io/metadata.name": "made-28" } },
      spec: { finalizers: ["kubernetes"] },
      status: { phase: "Active" },
    });
  },
);

kubectlRow("[29] create deployment keeps zero replicas, and fills in the rest", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    "create deployment web --image=nginx:1.29 --image=redis --replicas=0",
    "apps/deployments",
    "web",
    {
      metadata: { generation: 1 },
      spec: {
        replicas: 0,
        revisionHistoryLimit: 10,
        progressDeadlineSeconds: 600,
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%", maxUnavailable: "25%" } },
        template: {
          spec: {
            restartPolicy: "Always",
            containers: [
              { name: "nginx", imagePullPolicy: "IfNotPresent" },
              { name: "redis", imagePullPolicy: "Always" },
            ],
          },
        },
      },
    },
  );
  const { text } = await row.kubectl("create deployment one --image=nginx --port=80");
  expect(text).toBe("deployment.apps/one created");
  expect(row.stored("apps/deployments", "one")).toMatchObject({
    spec: { replicas: 1, template: { spec: { containers: [{ ports: [{ containerPort: 80, protocol: "TCP" }] }] } } },
  });
});

kubectlRow("[30] create configmap keeps its data", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    ["create", "configmap", "c", "--from-literal=a=1", "--from-literal=text=two words"],
    "/configmaps",
    "c",
    { data: { a: "1", text: "two words" } },
  );
});

kubectlRow("[31] create secret generic keeps bytes as base64", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    "create secret generic s --from-literal=k=v --type=example.com/t",
    "/secrets",
    "s",
    {
      type: "example.com/t",
      data: { k: "dg==" },
    },
  );
});

kubectlRow("[32] create serviceaccount", async ({ row, expect }) => {
  await createsAsSaid({ row, expect }, "create serviceaccount robot", "/serviceaccounts", "robot");
});

kubectlRow("[33] create role and create clusterrole keep rules, aggregation included", async ({ row, expect }) => {
  const at = { row, expect };
  await createsAsSaid(
    at,
    "create role reader --verb=get,list --resource=pods,deployments.apps/scale --resource-name=x",
    "rbac.authorization.k8s.io/roles",
    "reader",
  );
  await createsAsSaid(
    at,
    "create clusterrole row-33 --verb=get --non-resource-url=/logs/*",
    "rbac.authorization.k8s.io/clusterroles",
    "row-33",
    { rules: [{ verbs: ["get"], nonResourceURLs: ["/logs/*"] }] },
  );
});

kubectlRow(
  "[34] create rolebinding and create clusterrolebinding fill in the groups of subjects",
  async ({ row, expect }) => {
    const at = { row, expect };
    await createsAsSaid(
      at,
      "create rolebinding b --clusterrole=view --user=ann --serviceaccount=row-34:robot",
      "rbac.authorization.k8s.io/rolebindings",
      "b",
      { roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" } },
    );
    await createsAsSaid(
      at,
      "create clusterrolebinding row-34 --clusterrole=view --group=crew",
      "rbac.authorization.k8s.io/clusterrolebindings",
      "row-34",
      { subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "crew" }] },
    );
  },
);

kubectlRow("[35] create job gets a selector and labels from the server", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    ["create", "job", "once", "--image=busybox", "--", "sh", "-c", "exit 0"],
    "batch/jobs",
    "once",
    {
      spec: {
        completions: 1,
        parallelism: 1,
        backoffLimit: 6,
        completionMode: "NonIndexed",
        suspend: false,
        template: { metadata: { labels: { "batch.kubernetes.io/job-name": "once", "job-name": "once" } } },
      },
    },
  );
  const job = row.stored("batch/jobs", "once");
  expect(job?.["spec"]).toMatchObject({
    selector: { matchLabels: { "batch.kubernetes.io/controller-uid": job?.metadata.uid } },
  });
});

kubectlRow("[36] create cronjob, and a job from it", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    ["create", "cronjob", "nightly", "--image=busybox", "--schedule=0 3 * * *"],
    "batch/cronjobs",
    "nightly",
    {
      spec: {
        schedule: "0 3 * * *",
        concurrencyPolicy: "Allow",
        suspend: false,
        successfulJobsHistoryLimit: 3,
        failedJobsHistoryLimit: 1,
      },
    },
  );
  expect((await row.kubectl("create job now --from=cronjob/nightly")).text).toBe("job.batch/now created");
  expect(row.stored("batch/jobs", "now")?.metadata).toMatchObject({
    annotations: { "cronjob.kubernetes.io/instantiate": "manual" },
    ownerReferences: [{ kind: "CronJob", name: "nightly", controller: true }],
  });
});

kubectlRow("[37] create quota and create pdb keep quantities and percentages", async ({ row, expect }) => {
  const at = { row, expect };
  await createsAsSaid(at, "create quota q --hard=pods=10,requests.cpu=1500m", "/resourcequotas", "q", {
    spec: { hard: { pods: "10", "requests.cpu": "1500m" } },
  });
  await createsAsSaid(
    at,
    "create pdb half --selector=app=web --min-available=50%",
    "policy/poddisruptionbudgets",
    "half",
    {
      spec: { minAvailable: "50%" },
    },
  );
});

kubectlRow("[38] create priorityclass", async ({ row, expect }) => {
  await createsAsSaid(
    { row, expect },
    ["create", "priorityclass", "row-38", "--value=1000", "--description=pays its bills"],
    "scheduling.k8s.io/priorityclasses",
    "row-38",
    { value: 1000, preemptionPolicy: "PreemptLowerPriority", description: "pays its bills" },
  );
});

kubectlRow("[39] create service clusterip gets an address; create ingress keeps rules", async ({ row, expect }) => {
  const at = { row, expect };
  await createsAsSaid(at, "create service clusterip web --tcp=80:8080", "/services", "web", {
    spec: {
      type: "ClusterIP",
      ports: [{ name: "80-8080", port: 80, targetPort: 8080, protocol: "TCP" }],
      sessionAffinity: "None",
      ipFamilies: ["IPv4"],
    },
  });
  expect(row.stored("/services", "web")?.["spec"]).toMatchObject({ clusterIP: expect.stringMatching(/^10\./) });
  await createsAsSaid(
    at,
    ["create", "ingress", "front", "--rule=example.com/a*=web:80", "--class=nginx"],
    "networking.k8s.io/ingresses",
    "front",
  );
});

kubectlRow(
  "[40] create token makes a token that is good for the account, the audience and the time asked",
  async ({ row, expect }) => {
    await row.given({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } });
    const { text } = await row.kubectl("create token robot --audience=vault --duration=20m");
    const claims = JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString());
    expect(claims).toMatchObject({
      aud: ["vault"],
      sub: "system:serviceaccount:row-40:robot",
      "kubernetes.io": { namespace: "row-40", serviceaccount: { name: "robot" } },
    });
    expect(claims.exp - claims.iat).toBe(1200);
    const own = (await row.kubectl("create token robot")).text;
    const whoami = await row.kubectl(["auth", "whoami", "--token", own, "-o", "jsonpath={.status.userInfo.username}"], {
      env: { KUBECONFIG: await row.bareKubeconfig() },
    });
    expect(whoami.text).toBe("system:serviceaccount:row-40:robot");
  },
);

kubectlRow("[41] run makes a pod", async ({ row, expect }) => {
  const { text } = await row.kubectl("run p --image=nginx:1.29 --port=80 --labels=app=p --env=A=b");
  expect(text).toBe("pod/p created");
  expect(row.requests()).toEqual(["POST /api/v1/namespaces/row-41/pods?fieldManager=kubectl-run"]);
  expect(row.stored("/pods", "p")).toMatchObject({
    metadata: { labels: { app: "p" } },
    spec: {
      containers: [{ name: "p", env: [{ name: "A", value: "b" }], ports: [{ containerPort: 80, protocol: "TCP" }] }],
    },
    status: { phase: "Pending", qosClass: "BestEffort" },
  });
});

kubectlRow("[42] expose makes a service for what a deployment selects", async ({ row, expect }) => {
  await row.given(deployment("web"));
  const { text } = await row.kubectl("expose deployment web --port=80 --target-port=8080");
  expect(text).toBe("service/web exposed");
  expect(row.stored("/services", "web")).toMatchObject({
    spec: { selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080, protocol: "TCP" }], type: "ClusterIP" },
  });
});
