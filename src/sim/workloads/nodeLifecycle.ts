import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { workloads } from "../../control/workloads/workloads.ts";
import type { CronJob, Node, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { podCondition } from "../../model/objects/podFacts.ts";
import { builtin } from "../../model/resources.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { lateMsMax } from "../callFate.ts";
import type { Invariant } from "../invariant.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Scenario } from "../scenario.ts";
import { beat, clusterWith, held, isOfJob, lease, leaseNamespace, makeNamespaces, managing, nodes } from "./cast.ts";
import { workloadsAreDone } from "./invariants.ts";
import type { TinyLife } from "./tinyKubelet.ts";
import { bigNode } from "./user.ts";

const nodeNames = ["n0", "n1", "n2"];
const beatMs = 5_000;
/** The grace period of a node that does not report. */
const graceUs = 40_000_000;
const faultPhaseMs = 150_000;
/** How long the response to a second read may be in flight. */
const freshUs = 5_000_000;

/** I21: a lagging watch or a clock step does not make a node NotReady. */
const speakersAreNotGivenUp: Invariant = {
  id: "I21",
  fact: "no node is marked Unknown that has reported within its grace",
  begin: ({ nowUs }) => {
    const spokeUs = new Map<string, number[]>();
    return {
      commit: ({ type, call, event }) => {
        const { current, previous } = event;
        const { name } = current;
        if (type === "DELETED") return undefined;
        const isLease = current.resource === "coordination.k8s.io/leases" && current.namespace === leaseNamespace;
        const isNode = current.resource === "/nodes";
        if (isLease || (isNode && !held(call.actor))) spokeUs.set(name, [...(spokeUs.get(name) ?? []), nowUs()]);
        if (!isNode || !held(call.actor)) return undefined;
        const [before, after] = [readyOf(previous?.object()), readyOf(current.object())];
        if (after !== "Unknown" || before === "Unknown") return undefined;
        // The lease is read just before; a renewal while the response is in flight is not visible.
        const known = (spokeUs.get(name) ?? []).findLast((atUs) => atUs <= call.sentUs - freshUs);
        if (known === undefined || call.sentUs - known >= graceUs - freshUs) return undefined;
        return `${call.actor} marked ${name} Unknown, which had reported ${(call.sentUs - known) / 1e6} s before`;
      },
    };
  },
};

/** I13: a pod that is evicted or garbage-collected was on a lost node, by a fresh read. */
const evictsFromLostNodes: Invariant = {
  id: "I13",
  fact: "a pod is deleted because of its node only if the node has a NoExecute taint or is deleted",
  begin: ({ store, nowUs }) => {
    const lostUs = new Map<string, number>();
    return {
      commit: ({ type, call, event }) => {
        const { current } = event;
        for (const name of nodeNames) if (isLost(store, name)) lostUs.set(name, nowUs());
        if (current.resource !== "/pods" || call.verb !== "delete" || !held(call.actor)) return undefined;
        const pod = (type === "DELETED" ? event.previous?.object() : current.object()) as Pod | undefined;
        const reason = pod === undefined ? undefined : podCondition(pod, "DisruptionTarget")?.reason;
        const node = pod?.spec?.nodeName ?? "";
        if (reason === undefined || node === "") return undefined;
        if ((lostUs.get(node) ?? Number.NEGATIVE_INFINITY) >= call.sentUs - freshUs) return undefined;
        return `${call.actor} deleted ${current.key} (${reason}), and ${node} was not lost`;
      },
    };
  },
};

/** I17: a node that reports again is used again. */
const livingNodesAreOpen: Invariant = {
  id: "I17",
  fact: "at rest every node that reports is ready and without taints, and no pod is on a deleted node",
  begin: ({ store }) => ({
    atRest: () => {
      for (const version of store.collection("/nodes").all()) {
        const node = version.object() as Node;
        if (readyOf(version.object()) !== "True") return `${version.key} is not ready`;
        if ((node.spec?.taints ?? []).length > 0) return `${version.key} is tainted`;
      }
      for (const version of store.collection("/pods").all()) {
        const { nodeName = "" } = (version.object() as Pod).spec ?? {};
        if (nodeName !== "" && store.get("/nodes", "", nodeName) === undefined) return `${version.key} is on no node`;
      }
      return undefined;
    },
  }),
};

/** I22: a CronJob creates one Job for each scheduled time. */
const schedulesMoveOn: Invariant = {
  id: "I22",
  fact: "the last schedule of a CronJob never goes back, and each of its Jobs is of another minute",
  begin: () => {
    const made = new Set<string>();
    return {
      commit: ({ type, event }) => {
        const { current, previous } = event;
        if (type === "ADDED" && current.resource === "batch/jobs") {
          const minute =
            current.object().metadata.annotations?.["batch.kubernetes.io/cronjob-scheduled-timestamp"] ?? "";
          if (made.has(minute)) return `${current.key} is the second Job of ${minute}`;
          made.add(minute);
        }
        if (type !== "MODIFIED" || current.resource !== "batch/cronjobs") return undefined;
        const lastOf = (object: KubeObject | undefined) =>
          (object as CronJob | undefined)?.status?.lastScheduleTime ?? "";
        const [before, after] = [lastOf(previous?.object()), lastOf(current.object())];
        return after >= before ? undefined : `${current.key} went from ${before} back to ${after}`;
      },
    };
  },
};

function isLost(store: ObjectStore, name: string): boolean {
  const node = store.get("/nodes", "", name)?.object() as Node | undefined;
  return node === undefined || node.spec?.taints?.some(({ effect }) => effect === "NoExecute") === true;
}

function readyOf(object: KubeObject | undefined): string | undefined {
  const conditions = (object as Node | undefined)?.status?.conditions;
  return conditions?.find(({ type }) => type === "Ready")?.status;
}

/** Nodes stop reporting, return, are deleted and recreated, while pods tolerate that for a few seconds. */
export const nodeLivesScenario: Scenario = {
  name: "node-lives",
  about: "nodes stop reporting, return, are deleted and recreated, and their pods are evicted and replaced",
  components: [workloads],
  serverLoops: true,
  setUp,
  actors: () => [...managing(), clusterWith(lifeOf), clerk, ...nodeNames.map(nodeActor)],
  invariants: [
    speakersAreNotGivenUp,
    evictsFromLostNodes,
    livingNodesAreOpen,
    schedulesMoveOn,
    workloadsAreDone,
    destroysTheSameObject(held),
    destroysWhatItLookedAt(held),
    changesWhatItSaw(held),
    oneEpochWrites(held, lease.name),
    neverGoesBack,
    writesChangeSomething(held),
    cachesAreComplete,
  ],
  faultPhaseMs,
  settleMs: 300_000,
  // Longer than the grace period of a node, the quarantine of a missing one, and the effect of a clock step backwards.
  quietMs: 80_000,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
};

/** Pods of Jobs complete; all others keep running. */
function lifeOf(pod: Pod): TinyLife {
  return isOfJob(pod) ? { startMs: 100, ends: { afterMs: 3_000, exitCode: 0 } } : { startMs: 100 };
}

const cronJobs = builtin.CronJob;

/** A CronJob with one Job every minute, which is suspended before the cluster must be quiescent. */
const clerk: ActorSpec = {
  name: "clerk",
  finite: true,
  isExemptFromFaults: true,
  run: async ({ kube, sleep }) => {
    const ref = { ...cronJobs, namespace: "default", name: "tick" };
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "registry/app:1" }] } };
    const spec = { schedule: "* * * * *", jobTemplate: { spec: { template } } };
    const metadata = { name: ref.name, namespace: ref.namespace };
    const object = { apiVersion: "batch/v1", kind: "CronJob", metadata, spec };
    while (!(await kube.get(ref)).ok) {
      await kube.create(cronJobs, object);
      await sleep(1_000);
    }
    await sleep(faultPhaseMs - 20_000);
    for (let isDone = false; !isDone; await sleep(1_000)) {
      isDone = (await kube.patch(ref, { type: "merge", body: { spec: { suspend: true } } })).ok;
    }
  },
};

async function setUp(kube: KubeApi): Promise<void> {
  await makeNamespaces(kube);
  for (const name of nodeNames) await register(kube, name, 0);
  const labels = { app: "web" };
  const tolerations = ["not-ready", "unreachable"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: 5,
  }));
  const containers = [{ name: "main", image: "registry/app:1" }];
  const template = { metadata: { labels }, spec: { containers, tolerations } };
  const kinds = { Deployment: { replicas: 4 }, DaemonSet: {} };
  for (const [kind, more] of Object.entries(kinds)) {
    const app = { app: kind };
    const own = { ...template, metadata: { labels: app } };
    const spec = { ...more, selector: { matchLabels: app }, template: own };
    const object = { apiVersion: "apps/v1", kind, metadata: { name: "web", namespace: "default" }, spec };
    const plural = `${kind.toLowerCase()}s`;
    await kube.create({ group: "apps", version: "v1", plural }, object);
  }
}

/** Registers a node, or sets its Ready condition. */
async function register(kube: KubeApi, name: string, nowMs: number): Promise<void> {
  const room = { cpu: "16", pods: "20" };
  const status = {
    allocatable: room,
    capacity: room,
    conditions: [
      {
        type: "Ready",
        status: "True",
        reason: "KubeletReady",
        message: "",
        lastHeartbeatTime: formatTime(nowMs),
        lastTransitionTime: formatTime(nowMs),
      },
    ],
  };
  const node = { apiVersion: "v1", kind: "Node", metadata: { name, labels: bigNode }, status };
  const found = await kube.get({ ...nodes, namespace: "", name });
  const there = found.ok ? found : await kube.create(nodes, node);
  if (!there.ok || readyOf(there.value) === "True") return;
  const next = { ...there.value, status: { ...(there.value["status"] as object), ...status } };
  await kube.update({ ...nodes, namespace: "", name, subresource: "status" }, next);
}

/**
 * A node and its faults: it reports, stops reporting for a short or a long time, or is deleted and registered again.
 */
function nodeActor(name: string): ActorSpec {
  return {
    name: `node-${name}`,
    isExemptFromFaults: true,
    run: async (ports) => {
      const beginMs = ports.clock.nowMs();
      while (!ports.cancel.cancelled) {
        await register(ports.kube, name, ports.clock.nowMs());
        await beat(ports.kube, name, ports.clock.nowMs());
        await ports.sleep(beatMs);
        if (ports.clock.nowMs() - beginMs > faultPhaseMs - 30_000) continue;
        await suffer(ports, name);
      }
    },
  };
}

async function suffer(ports: ActorPorts, name: string): Promise<void> {
  const fate = ports.choose("fate", (dice) => (dice.perMille(120) ? dice.between(1, 4) : 0));
  if (fate === 0) return;
  if (fate === 1) await ports.kube.delete({ ...nodes, namespace: "", name });
  ports.note(fate === 1 ? "is deleted" : "falls silent");
  // Shorter than the grace period, or longer, so that its pods are evicted.
  await ports.sleep(fate === 2 ? 20_000 : fate === 3 ? 38_000 : lateMsMax + 60_000);
}
