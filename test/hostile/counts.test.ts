/**
 * The largest number there is, in every field that says how many: one object must not end the process, nor the next
 * start.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BoundedUp } from "./boundedUp.ts";

const most = 2_147_483_647;
const up = new BoundedUp();
beforeAll(() => up.start());
afterAll(() => up.end());

const gpus = { limits: { "nvidia.com/gpu": "8" } };
const podSpec = { containers: [{ name: "c", image: "i", resources: gpus }] };
const jobTemplate = (app: string) => ({ metadata: { labels: { app } }, spec: { ...podSpec, restartPolicy: "Never" } });
const owning = (app: string) => ({
  selector: { matchLabels: { app } },
  template: { metadata: { labels: { app } }, spec: podSpec },
});
const clique = (more: object) => ({
  name: "w",
  spec: { roleName: "w", replicas: 1, podSpec, ...more },
});

interface Hostile {
  readonly name: string;
  readonly path: string;
  readonly spec: object;
  /** Which children show that its controller has looked at it; none where the API refuses it or nothing can be made. */
  readonly children?: string;
  readonly atLeast?: number;
  readonly refused?: string;
}

const apps = "/apis/apps/v1/namespaces/default";
const batch = "/apis/batch/v1/namespaces/default";
const grove = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets";
const pods = "/api/v1/namespaces/default/pods";
const cliques = "/apis/grove.io/v1alpha1/namespaces/default/podcliques";

const hostile: readonly Hostile[] = [
  {
    name: "deployment",
    path: `${apps}/deployments`,
    spec: { replicas: most, ...owning("deployment") },
    children: pods,
  },
  {
    name: "replicaset",
    path: `${apps}/replicasets`,
    spec: { replicas: most, ...owning("replicaset") },
    children: pods,
  },
  {
    name: "statefulset",
    path: `${apps}/statefulsets`,
    spec: { replicas: most, serviceName: "s", ...owning("statefulset") },
    children: pods,
    atLeast: 1,
  },
  {
    name: "statefulset-parallel",
    path: `${apps}/statefulsets`,
    spec: {
      replicas: most,
      serviceName: "s",
      podManagementPolicy: "Parallel",
      ...owning("statefulset-parallel"),
      volumeClaimTemplates: [
        {
          metadata: { name: "v" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
        },
      ],
    },
    children: pods,
  },
  {
    name: "job",
    path: `${batch}/jobs`,
    spec: { parallelism: most, completions: most, template: jobTemplate("job") },
    children: pods,
  },
  {
    name: "job-indexed",
    path: `${batch}/jobs`,
    spec: {
      parallelism: 100_000,
      completions: most,
      completionMode: "Indexed",
      successPolicy: { rules: [{ succeededIndexes: `0-${most - 1}` }] },
      template: jobTemplate("job-indexed"),
    },
    children: pods,
  },
  {
    name: "job-indexed-wide",
    path: `${batch}/jobs`,
    spec: {
      parallelism: most,
      completions: most,
      completionMode: "Indexed",
      template: jobTemplate("job-indexed-wide"),
    },
    refused: "parallelism",
  },
  {
    name: "cronjob",
    path: `${batch}/cronjobs`,
    spec: {
      schedule: "* * * * *",
      successfulJobsHistoryLimit: most,
      failedJobsHistoryLimit: most,
      startingDeadlineSeconds: most,
      jobTemplate: { spec: { parallelism: most, completions: most, template: jobTemplate("cronjob") } },
    },
  },
  {
    name: "set",
    path: grove,
    spec: { replicas: most, template: { cliques: [clique({})] } },
    children: cliques,
    atLeast: 50,
  },
  {
    name: "set-pods",
    path: grove,
    spec: { replicas: 1, template: { cliques: [clique({ replicas: most, minAvailable: 1 })] } },
    children: pods,
    atLeast: 50,
  },
  {
    name: "set-minimum",
    path: grove,
    spec: { replicas: 1, template: { cliques: [clique({ replicas: most, minAvailable: most })] } },
  },
  {
    name: "set-group",
    path: grove,
    spec: {
      replicas: 1,
      template: {
        cliques: [clique({})],
        podCliqueScalingGroups: [{ name: "g", cliqueNames: ["w"], replicas: most, minAvailable: 1 }],
      },
    },
    children: cliques,
    atLeast: 50,
  },
  {
    name: "set-group-minimum",
    path: grove,
    spec: {
      replicas: most,
      template: {
        cliqueStartupType: "CliqueStartupTypeInOrder",
        cliques: [clique({ replicas: most, minAvailable: most }), { ...clique({ roleName: "v" }), name: "v" }],
        podCliqueScalingGroups: [{ name: "g", cliqueNames: ["w"], replicas: most, minAvailable: most }],
      },
    },
  },
  {
    name: "claim",
    path: "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu.nvidia.com", count: most } }] } },
  },
  {
    name: "slice",
    path: "/apis/resource.k8s.io/v1/resourceslices",
    spec: {
      driver: "d.example.com",
      nodeName: "n",
      pool: { name: "p", generation: most, resourceSliceCount: most },
      devices: [{ name: "g" }],
    },
  },
  {
    name: "podgroup",
    path: "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups",
    spec: { minMember: most, queue: "default-queue" },
  },
  {
    name: "autoscaler",
    path: "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    spec: {
      maxReplicas: most,
      minReplicas: most,
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "x" },
    },
  },
];

async function create({ name, path, spec }: Hostile): Promise<{ code: number; message: string }> {
  const { code, body } = await up.call("POST", path, { metadata: { name }, spec });
  return { code, message: String(body.message ?? "") };
}

async function hasChildren({ name, path, children, atLeast = 200 }: Hostile): Promise<boolean> {
  const selector = path === grove ? `app.kubernetes.io/part-of=${name}` : `app=${name}`;
  return children === undefined || (await up.has(children, selector, atLeast));
}

async function remove({ name, path }: Hostile): Promise<void> {
  const { code } = await up.call("DELETE", `${path}/${name}?propagationPolicy=Background`);
  expect([200, 202, 404]).toContain(code);
}

async function nothingLeft(): Promise<void> {
  await up.until(async () => !(await up.has(pods, "", 1)) && !(await up.has(cliques, "", 1)));
}

async function ordinaryWorkRuns(name: string): Promise<void> {
  const one = { metadata: { labels: { app: name } }, spec: { containers: [{ name: "c", image: "i" }] } };
  const spec = { replicas: 3, selector: { matchLabels: { app: name } }, template: one };
  expect((await up.call("POST", `${apps}/deployments`, { metadata: { name }, spec })).code).toBe(201);
  await up.until(async () => (await up.call("GET", `${apps}/deployments/${name}`)).body.status?.readyReplicas === 3);
  await up.call("DELETE", `${apps}/deployments/${name}?propagationPolicy=Background`);
}

test.each(hostile)("the server survives the largest count: $name", async (each) => {
  const { code, message } = await create(each);
  if (each.refused !== undefined) {
    expect(code).toBe(422);
    expect(message).toContain(each.refused);
    return;
  }
  expect(message).toBe("");
  await up.until(() => hasChildren(each));
  await up.stillReady();
  await remove(each);
  await up.stillReady();
  expect(up.ended).toBeUndefined();
});

test("after all of them are deleted their children are gone and ordinary work runs", async () => {
  await nothingLeft();
  await ordinaryWorkRuns("after");
});

test("a start with all of them in the data folder works, and they can be deleted", async () => {
  for (const each of hostile) if (each.refused === undefined) await create(each);
  await up.stop("SIGKILL");
  await up.start();
  await up.stillReady();
  for (const each of hostile) if (each.refused === undefined) await remove(each);
  await nothingLeft();
  await ordinaryWorkRuns("again");
});
