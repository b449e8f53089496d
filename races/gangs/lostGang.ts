import { addGangReconcilers } from "../../src/control/gang/gangComponent.ts";
import { lossReason } from "../../src/decide/gang/cliques/scheduleLoss.ts";
import { gangResources } from "../../src/model/gang/keys.ts";
import type { PodClique, PodCliqueStatus } from "../../src/model/gang/types.ts";
import type { KubeObject, Unstored } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { formatTime } from "../../src/model/values/time.ts";
import type { KubeApi, WriteOptions } from "../../src/ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { runControllers } from "../../src/sim/controllersProcess.ts";
import { delegateKube } from "../../src/sim/delegateKube.ts";
import { lossesAreReportedOnce, regressionsAreFlagged } from "../../src/sim/gang/invariants.ts";
import { countsWhateverIsBound } from "../../src/sim/gang/mistakes.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Exhibit } from "../exhibit.ts";
import { ensureSet, gangScene, loseNode, returnNode, sceneSettings, silenceNode } from "./gangScene.ts";

const cliques = "grove.io/podcliques";

const regressionShows: Invariant = {
  id: "I4",
  fact: "a clique with fewer scheduled pods than its minimum reports a breach",
  begin: () => ({
    commit: ({ type, event }) => {
      if (type === "DELETED" || event.current.resource !== cliques) return undefined;
      const { metadata, spec, status } = event.current.object() as unknown as PodClique;
      const scheduled = status?.scheduledReplicas ?? 0;
      const minimum = spec.minAvailable ?? spec.replicas;
      const condition = status?.conditions?.find((condition) => condition.type === "MinAvailableBreached");
      if (scheduled === 0 || scheduled >= minimum || condition === undefined || condition.status !== "False")
        return undefined;
      return `${metadata.name} has ${scheduled} of ${minimum} scheduled and says ${condition.status}/${condition.reason}`;
    },
  }),
};

type Change = (kube: KubeApi, ports: ActorPorts) => KubeApi;

const asItIs: Change = (kube) => kube;

/** Drops the operator's other Events, so that crashes occur around the one that the race is about. */
const silentAboutTheRest: Change = (kube) => ({
  ...delegateKube(kube),
  create: <T extends KubeObject>(ref: Resource<T>, object: Unstored<T>, options?: WriteOptions) =>
    ref.plural === gangResources.Event.plural && object["reason"] !== lossReason
      ? Promise.resolve({ ok: true, value: object as KubeObject as T })
      : kube.create(ref, object, options),
});

/** The product, optionally with changed status writes. */
const changedOperator = (change: Change): ActorSpec => ({
  name: "operator",
  run: (ports) =>
    runControllers(
      { ...ports, kube: silentAboutTheRest(change(ports.kube, ports), ports) },
      (controllers) => void addGangReconcilers(controllers, sceneSettings),
    ),
});

const isCliqueStatus = (ref: { plural: string; subresource?: string }): boolean =>
  ref.plural === gangResources.PodClique.plural && ref.subresource === "status";

const withStatus = <T extends KubeObject>(object: T, status: PodCliqueStatus): T => ({ ...object, status });

/** The bug: a clique below its minimum counts as starting, even after a loss. */
const suppressAlways: Change = (kube) => ({
  ...delegateKube(kube),
  update: (ref, object, options) => {
    const { spec, status = {} } = object as unknown as PodClique;
    const isBelow = (status.scheduledReplicas ?? 0) < (spec?.minAvailable ?? 0);
    if (!isCliqueStatus(ref) || !isBelow) return kube.update(ref, object, options);
    const conditions = (status.conditions ?? []).map((condition) =>
      condition.type === "MinAvailableBreached"
        ? { ...condition, status: "False" as const, reason: "InsufficientScheduledPods", message: "it has not started" }
        : condition,
    );
    return kube.update(ref, withStatus(object, { ...status, conditions }), options);
  },
});

/** Upstream's fix: the breach is reported, and the Event is recorded from memory after the status. */
const toldFromMemory: Change = (kube, ports) => ({
  ...delegateKube(kube),
  update: async (ref, object, options) => {
    if (!isCliqueStatus(ref)) return kube.update(ref, object, options);
    const { scheduleLoss: _forgotten, ...status } = (object as unknown as PodClique).status ?? {};
    const stored = await kube.get({ ...ref, subresource: "" });
    const before = stored.ok ? ((stored.value as unknown as PodClique).status?.scheduledReplicas ?? 0) : 0;
    const outcome = await kube.update(ref, withStatus(object, status), options);
    if (outcome.ok && before > 0 && (status.scheduledReplicas ?? 0) === 0) await recordEvent(kube, ports, object);
    return outcome;
  },
});

const boundIsScheduled: Change = (kube, ports) => ({
  ...delegateKube(kube),
  ...countsWhateverIsBound.kube?.({ ...ports, kube }),
});

async function recordEvent(
  kube: KubeApi,
  { clock, random }: ActorPorts,
  { apiVersion, kind, metadata }: KubeObject,
): Promise<void> {
  const { name, namespace = "default", uid } = metadata;
  const event = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: `${name}.${random.uint32().toString(16)}`, namespace },
    firstTimestamp: formatTime(clock.nowMs()),
    source: { component: "grove" },
    type: "Warning",
    reason: lossReason,
    message: "all scheduled replicas are lost",
    involvedObject: { apiVersion, kind, name, namespace, uid },
  };
  await kube.create(gangResources.Event, event);
}

const play = (variant: string, operator: () => ActorSpec, more: readonly Invariant[] = []) =>
  gangScene({
    slug: "lost-gang",
    variant,
    about:
      "a gang repeatedly loses one node, then the other one, in the end by nodes that stop reporting, while its operator crashes",
    faults: ["crash-after", "crash-before", "restart"],
    invariants: [regressionShows, lossesAreReportedOnce, ...more],
    operator,
    podsPerNode: 1,
    user: async (ports) => {
      await ensureSet(ports, "red");
      for (let round = 0; round < 10; round++) {
        await ports.sleep(350);
        await loseNode(ports, "n1");
        await ports.sleep(50);
        await loseNode(ports, "n0");
        await ports.sleep(200);
        for (const node of ["n0", "n1"]) await returnNode(ports, node);
      }
      await ports.sleep(1_000);
      await silenceNode(ports, "n1", { isLast: false });
      await ports.sleep(500);
      await silenceNode(ports, "n0", { isLast: true });
    },
  });

export const lostGang: Exhibit = {
  number: 21,
  slug: "lost-gang",
  title: "A gang that has lost its nodes is treated as one that has not started",
  source: "ai-dynamo/grove#277, #561, #614",
  invariant: "I4",
  story: `
  nodes                 clique (minimum 2)          operator
  n0, n1                2 scheduled                 all is well
  n1 is lost            1 scheduled                 suppress always: "not started yet", and no event comes
  n1 is silent          1 scheduled, 1 Terminating  bound is scheduled: "2 scheduled", for ever
  n0 is lost            0 scheduled                 founding fix: writes "0 scheduled" ... dies ... no Event:            
                                                    the next one reads "0 before, 0 now" and sees no loss

  Ours: the status write that says "0" counts the loss. The Event's name follows from that count and is recorded before the
  status says that it was. However often the operator dies, it is recorded once.`,
  fixed: {
    name: "fixed",
    about: "the loss is counted by the write that records it, and its Event is recorded once",
    scenario: play("fixed", () => changedOperator(asItIs), [regressionsAreFlagged("Suppress")]),
  },
  buggy: [
    {
      name: "suppress-always",
      about: "fewer than the minimum are scheduled: the gang counts as not started",
      scenario: play("suppress-always", () => changedOperator(suppressAlways)),
      firstSeeds: 5,
      schedule: [],
    },
    {
      name: "founding-fix",
      about: "the breach is reported, and the Event is recorded from memory after the status",
      invariant: "I19",
      scenario: play("founding-fix", () => changedOperator(toldFromMemory)),
      firstSeeds: 80,
      schedule: [{ key: "operator|update|grove.io/podcliques/default/red-0-work#9|crash-after", value: 70 }],
    },
    {
      name: "bound-is-scheduled",
      about:
        "a pod counts while its object exists: on a node that does not report it stays Terminating, and counts for ever",
      scenario: play("bound-is-scheduled", () => changedOperator(boundIsScheduled), [
        regressionsAreFlagged("Suppress"),
      ]),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};
