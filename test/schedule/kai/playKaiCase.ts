import type { Cluster } from "../../../src/decide/schedule/cluster/cluster.ts";
import type { TaskStatus } from "../../../src/decide/schedule/cluster/task.ts";
import { cycle } from "../../../src/decide/schedule/cycle.ts";
import { clusterOf } from "../../../src/decide/schedule/model/clusterOf.ts";
import { type ActionName, defaultSettings, type Settings } from "../../../src/decide/schedule/settings.ts";
import { settingsOfShard } from "../../../src/decide/schedule/shardSettings.ts";
import type { AllocationResult } from "../../../src/model/kubernetes.generated.ts";
import type { KaiCase, KaiJob, KaiPlace, KaiStatus, KaiTask } from "./kaiCase.ts";
import {
  initialState,
  isActive,
  type KaiState,
  nowMs,
  objectsOf,
  stateOf,
  type TaskState,
  uidOf,
} from "./kaiCluster.ts";

/**
 * Plays one of KAI's cases through the scheduler's own cycle. A case of one action is one cycle with that action. An
 * integration case is several cycles with all actions: evicted pods are back and pending in the next one, nominated
 * pods are pending, bound ones run.
 */
export function playKaiCase(kaiCase: KaiCase): readonly string[] {
  const settings = settingsFor(kaiCase);
  const state = initialState(kaiCase);
  if (!kaiCase.integration) {
    const { states } = oneCycle(kaiCase, state, settings);
    const found = differences(kaiCase, states);
    return found.length > 0 && isAsKaiAllocatesFirst(kaiCase, states) ? [] : found;
  }
  for (let round = 0; round < kaiCase.roundsUntil; round++)
    carryOut(kaiCase, state, oneCycle(kaiCase, state, settings));
  let found = differences(kaiCase, state.states);
  for (let round = 1; round <= kaiCase.roundsAfter && found.length === 0; round++) {
    const outcome = oneCycle(kaiCase, state, settings);
    carryOut(kaiCase, state, outcome);
    found = differences(kaiCase, outcome.states).map((each) => `after round ${round}: ${each}`);
  }
  return found;
}

const allActions: readonly ActionName[] = ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"];

/** The settings of KAI's tests. */
function settingsFor({ integration, file, input }: KaiCase): Settings {
  const action = file.split("/")[1] as ActionName;
  // Actions that evict go through what allocation left waiting.
  const isEvicting = ["consolidation", "reclaim", "preempt"].includes(action);
  const settings: Settings = {
    ...defaultSettings,
    consolidationJobsMax: -1,
    usesSignatures: false,
    allocatesDevices: true,
    stalenessGraceMs: integration ? 0 : 60_000,
    actions: integration ? allActions : isEvicting ? ["allocate", action] : [action],
  };
  if (input.Conf === null) return settings;
  const plugins: Record<string, { arguments: Readonly<Record<string, string>> }> = {};
  let placementStrategy: Readonly<Record<string, string>> | undefined;
  for (const { name, arguments: values } of (input.Conf.tiers ?? []).flatMap((tier) => tier.plugins ?? [])) {
    if (values === undefined) continue;
    if (name === "nodeplacement") placementStrategy = values;
    else plugins[name] = { arguments: values };
  }
  const read = settingsOfShard(
    {
      plugins,
      ...(placementStrategy !== undefined && { placementStrategy }),
      ...(input.Conf.queueDepthPerAction && { queueDepthPerAction: input.Conf.queueDepthPerAction }),
    },
    settings,
  );
  return { ...read.settings, consolidationJobsMax: -1, actions: settings.actions };
}

interface Outcome {
  readonly states: ReadonlyMap<string, TaskState>;
  /** By pod: what its claims got. */
  readonly allocations: ReadonlyMap<string, readonly { readonly name: string; readonly allocation: unknown }[]>;
}

const statusNames: Readonly<Record<TaskStatus, KaiStatus>> = {
  pending: "Pending",
  gated: "Gated",
  allocated: "Binding",
  pipelined: "Pipelined",
  binding: "Binding",
  bound: "Bound",
  running: "Running",
  releasing: "Releasing",
  stuck: "Releasing",
  succeeded: "Succeeded",
  failed: "Failed",
  unknown: "Unknown",
};

function oneCycle(kaiCase: KaiCase, state: KaiState, settings: Settings): Outcome {
  const cluster = clusterOf(objectsOf(kaiCase, state), settings);
  state.stale.clear();
  if (kaiCase.integration) for (const job of cluster.unwell) state.stale.set(job.name, nowMs);
  let states: ReadonlyMap<string, TaskState> = new Map();
  const plan = cycle(cluster, nowMs, () => {
    states = statesIn(cluster, state);
  });
  const binds = plan.jobs.flatMap((job) => job.binds);
  cluster.assertCounts();
  return { states, allocations: new Map(binds.map(({ task, allocations }) => [task.uid, allocations])) };
}

/** With everything that was decided. */
function statesIn(cluster: Cluster, { states: before }: KaiState): Map<string, TaskState> {
  const states = new Map<string, TaskState>();
  for (const task of cluster.tasks.values()) {
    const last = task.holdings.at(-1);
    const was = before.get(task.uid) as TaskState;
    const status = statusNames[task.status];
    const hasEnded = status === "Failed" || status === "Succeeded";
    // What was decided before the case began stays what the case calls it.
    const isSame = task.status === "binding" && ["Allocated", "Pipelined", "Binding"].includes(was.status);
    states.set(task.uid, {
      status: isSame ? was.status : status,
      node: last?.node.name ?? (hasEnded ? was.node : ""),
      groups: [...(last?.groups ?? [])],
    });
  }
  return states;
}

/** Where pods are not where the case expects them; KAI compares the same. */
function differences(
  { input, expectedJobs, expectedTasks }: KaiCase,
  states: ReadonlyMap<string, TaskState>,
): string[] {
  const found: string[] = [];
  const compare = (uid: string, { Status: status, NodeName: node }: KaiPlace): void => {
    const state = states.get(uid);
    if (state === undefined) return;
    const isElsewhere = node !== "" && status !== "Pending" && state.node !== node;
    if (state.status === status && !isElsewhere) return;
    found.push(`${uid}: ${placeText(state.status, state.node)} instead of ${placeText(status, node)}`);
  };
  for (const [name, expected] of Object.entries(expectedJobs ?? {})) {
    const job = input.Jobs.find((each) => each.Name === name);
    if (job === undefined) found.push(`job ${name} is not in the case`);
    for (const task of job?.Tasks ?? []) compare(uidOf(task), expected);
  }
  for (const [uid, expected] of Object.entries(expectedTasks ?? {})) compare(uid, expected);
  return found;
}

function placeText(status: KaiStatus, node: string): string {
  return node === "" ? status : `${status} on ${node}`;
}

/** An action of KAI may do something else after `allocate`, which always runs first here. */
function isAsKaiAllocatesFirst(
  { kai, kaiWithAllocateFirst }: KaiCase,
  states: ReadonlyMap<string, TaskState>,
): boolean {
  const places = Object.entries(kaiWithAllocateFirst ?? {});
  const isAnother = places.some(
    ([uid, place]) => place.Status !== kai[uid]?.Status || place.NodeName !== kai[uid]?.NodeName,
  );
  return (
    isAnother &&
    places.every(([uid, { Status: status, NodeName: node }]) => {
      const state = states.get(uid);
      return state?.status === status && (status === "Pending" || state.node === node);
    })
  );
}

/** What the rest of a cluster makes of a cycle before the next. */
function carryOut({ input }: KaiCase, state: KaiState, { states, allocations }: Outcome): void {
  const pending: TaskState = { status: "Pending", node: "", groups: [] };
  for (const job of input.Jobs) {
    for (const task of job.Tasks) {
      const uid = uidOf(task);
      const next = states.get(uid) as TaskState;
      const wasActive = isActive(stateOf(state, task));
      if (next.status === "Binding") {
        state.states.set(uid, { ...next, status: "Running" });
        for (const each of allocations.get(uid) ?? []) {
          reserveClaim(state, task, job, each.name, each.allocation as AllocationResult);
        }
      } else if (next.status === "Releasing") {
        state.states.set(uid, job.DeleteJobInTest ? next : pending);
        releaseClaims(state, uid);
      } else if (next.status === "Pipelined") {
        state.states.set(uid, pending);
        if (wasActive) releaseClaims(state, uid);
      } else state.states.set(uid, next);
    }
  }
}

function reserveClaim(state: KaiState, task: KaiTask, job: KaiJob, name: string, allocation: AllocationResult): void {
  const { spec, status } = task.Pod;
  const claimName =
    spec?.resourceClaims?.find((each) => each.name === name)?.resourceClaimName ??
    status?.resourceClaimStatuses?.find((each) => each.name === name)?.resourceClaimName;
  const namespace = job.Namespace || "default";
  state.claims = state.claims.map((claim) => {
    if (claim.metadata.name !== claimName || claim.metadata.namespace !== namespace) return claim;
    const { status: old } = claim;
    const reservedFor = [...(old?.reservedFor ?? []), { resource: "pods", name: uidOf(task), uid: uidOf(task) }];
    return { ...claim, status: { ...old, allocation: old?.allocation ?? allocation, reservedFor } };
  });
}

function releaseClaims(state: KaiState, uid: string): void {
  state.claims = state.claims.map((claim) => {
    const reservedFor = claim.status?.reservedFor ?? [];
    const left = reservedFor.filter((each) => each.uid !== uid);
    if (left.length === reservedFor.length) return claim;
    return { ...claim, status: left.length === 0 ? {} : { ...claim.status, reservedFor: left } };
  });
}
