import {
  type GrouperSettings,
  hasLabels,
  type KindPriorities,
  noKindPriorities,
  readGrouperSettings,
  readKindPriorities,
} from "../../../decide/schedule/grouper/grouperSettings.ts";
import {
  type GroupFacts,
  groupChanges,
  groupPod,
  newGroup,
  type WantedGroup,
} from "../../../decide/schedule/grouper/groupPod.ts";
import { launchedJob } from "../../../decide/schedule/grouper/kinds.ts";
import { expectedOf } from "../../../model/intent.ts";
import type { ConfigMap, Namespace, Pod, PriorityClass } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { type Refusal, refused } from "../../../model/outcome.ts";
import { annotationKeys, kaiSchedulerName, labelKeys, scalingNamespace } from "../../../model/scheduling/keys.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { type KaiConfig, kaiConfigName, kaiConfigRef } from "../../../model/scheduling/schedulingShard.ts";
import type { Cancel } from "../../../ports/cancel.ts";
import type { ObjectIndex } from "../../../snapshot/objectIndex.ts";
import type { ObjectCache } from "../../cache/objectCache.ts";
import type { Controllers } from "../../runtime/controllers.ts";
import type { EventRecorder } from "../../runtime/eventRecorder.ts";
import { type ReconcileResult, reconcileResultOf } from "../../runtime/loop.ts";
import { refs } from "../schedulerCaches.ts";
import { ownerChain } from "./ownerChain.ts";

/** The delay until a pod whose workload is being deleted is reconciled again: by then it is deleted, or orphaned. */
const goingMs = 10_000;

/**
 * Groups every pod of `kai-scheduler`: finds its workload, creates the PodGroup, and annotates the pod with its name.
 */
export class PodGrouper {
  private readonly controllers: Controllers;
  private readonly recorder: EventRecorder;
  private readonly pods: ObjectCache<Pod>;
  /** By the job that they launch. */
  private readonly launchers: ObjectIndex;
  private readonly groups: ObjectCache<PodGroup>;
  private readonly priorityClasses: ObjectCache<PriorityClass>;
  private readonly namespaces: ObjectCache<Namespace>;
  private readonly configMaps: ObjectCache<ConfigMap>;
  /** Undefined where the Config resource is not read. */
  private readonly configs: ObjectCache | undefined;
  private config: { readonly object: KubeObject | undefined; readonly settings: GrouperSettings } | undefined;

  constructor(controllers: Controllers, recorder: EventRecorder, readsConfig: boolean) {
    this.controllers = controllers;
    this.recorder = recorder;
    this.pods = controllers.cache(refs.pods);
    this.launchers = this.pods.index((object) => {
      const job = launchedJob(object);
      return job === undefined ? [] : [`${object.metadata.namespace}/${job}`];
    });
    this.groups = controllers.cache(refs.groups);
    this.priorityClasses = controllers.cache(refs.priorityClasses);
    this.namespaces = controllers.cache(refs.namespaces);
    this.configMaps = controllers.cache(refs.configMaps);
    this.configs = readsConfig ? controllers.cache(kaiConfigRef) : undefined;
  }

  /** The settings of the Config, read again when it has changed. */
  private get settings(): GrouperSettings {
    const object = this.configs?.get(kaiConfigName);
    if (this.config !== undefined && this.config.object === object) return this.config.settings;
    const { settings, problems } = readGrouperSettings((object as KaiConfig | undefined)?.spec);
    for (const problem of problems) {
      this.controllers.ports.log.warn({ config: kaiConfigName, problem }, "a setting of the Config is not supported");
    }
    this.config = { object, settings };
    return settings;
  }

  private kindPriorities({ priorities }: GrouperSettings): KindPriorities {
    if (priorities === undefined) return noKindPriorities;
    const configMap = this.configMaps.get(priorities);
    return readKindPriorities(configMap?.data?.["types"]);
  }

  async reconcile(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const pod = this.pods.get(key);
    if (pod === undefined || !this.isOurs(pod)) return undefined;
    const { settings } = this;
    const namespace = this.namespaces.get(pod.metadata.namespace ?? "");
    if (!hasLabels(pod.metadata.labels, settings.podLabels)) return undefined;
    if (!hasLabels(namespace?.metadata.labels, settings.namespaceLabels)) return undefined;
    const found = await ownerChain(this.controllers.kube, pod, cancel);
    if (!found.ok) {
      this.warn(pod, found.message);
      return reconcileResultOf(found);
    }
    const { owners, going, isReplaced } = found.value;
    // Grouped again, it would be a smaller workload, and pods would be evicted for a workload that is being deleted.
    if (going !== undefined) {
      if (isReplaced === true) this.warn(pod, going);
      return { requeueAfterMs: goingMs };
    }
    const facts: GroupFacts = {
      hasPriorityClass: (name) => this.priorityClasses.get(name) !== undefined,
      existing: (name) => this.groups.get(`${pod.metadata.namespace}/${name}`),
      kindPriorities: this.kindPriorities(settings),
      gangScheduleKnative: settings.gangScheduleKnative,
      hasLauncher: (job) => this.launchers.count(`${pod.metadata.namespace}/${job}`) > 0,
    };
    const wanted = groupPod(pod, owners, facts);
    if ("skip" in wanted) return undefined;
    if (facts.existing(wanted.name) === undefined) for (const problem of wanted.problems) this.warn(pod, problem);
    const refusal = (await this.ensureGroup(wanted, facts, cancel)) ?? (await this.annotate(pod, wanted, cancel));
    if (refusal === undefined) return undefined;
    if (refusal.reason !== "Conflict" && refusal.reason !== "Fenced") this.warn(pod, refusal.message);
    return reconcileResultOf(refusal);
  }

  /** A pod that is grouped and bound needs no reconcile. */
  isOurs({ metadata, spec, status }: Pod): boolean {
    if (spec?.schedulerName !== kaiSchedulerName || metadata.namespace === scalingNamespace) return false;
    if (metadata.deletionTimestamp !== undefined) return false;
    if (status?.phase === "Succeeded" || status?.phase === "Failed") return false;
    const isGrouped = metadata.annotations?.[annotationKeys.podGroup] !== undefined;
    return !isGrouped || (spec.nodeName ?? "") === "";
  }

  private async ensureGroup(wanted: WantedGroup, facts: GroupFacts, cancel: Cancel): Promise<Refusal | undefined> {
    const existing = facts.existing(wanted.name);
    if (existing?.metadata.deletionTimestamp !== undefined) {
      return refused("Unavailable", `PodGroup ${wanted.name} is being deleted`);
    }
    const target = { ...refs.groups, namespace: wanted.namespace, name: wanted.name };
    if (existing === undefined) {
      const outcome = await this.controllers.writer.apply(
        {
          type: "create",
          target,
          absentAtRevision: this.groups.revision,
          object: newGroup(wanted),
          why: `${wanted.owner.kind} ${wanted.owner.name} has pods`,
        },
        { cancel },
      );
      return outcome.ok || outcome.reason === "AlreadyExists" ? undefined : outcome;
    }
    const changes = groupChanges(existing, wanted);
    if (changes === undefined) return undefined;
    const outcome = await this.controllers.writer.apply(
      {
        type: "patch",
        target,
        expected: expectedOf(existing),
        patch: { spec: changes },
        why: `${wanted.owner.kind} ${wanted.owner.name} has changed`,
      },
      { cancel },
    );
    return outcome.ok ? undefined : outcome;
  }

  private async annotate(pod: KubeObject, wanted: WantedGroup, cancel: Cancel): Promise<Refusal | undefined> {
    const { annotations, labels, namespace = "", name } = pod.metadata;
    const hasGroup = annotations?.[annotationKeys.podGroup] === wanted.name;
    const hasSubGroup = wanted.subGroup === undefined || labels?.[labelKeys.subGroup] === wanted.subGroup;
    if (hasGroup && hasSubGroup) return undefined;
    const outcome = await this.controllers.writer.apply(
      {
        type: "patch",
        target: { ...refs.pods, namespace, name },
        expected: expectedOf(pod),
        patch: {
          metadata: {
            annotations: { [annotationKeys.podGroup]: wanted.name },
            ...(wanted.subGroup !== undefined && { labels: { [labelKeys.subGroup]: wanted.subGroup } }),
          },
        },
        why: `pod ${name} belongs to ${wanted.owner.kind} ${wanted.owner.name}`,
      },
      { cancel },
    );
    return outcome.ok || outcome.reason === "NotFound" ? undefined : outcome;
  }

  private warn(pod: KubeObject, note: string): void {
    this.recorder.record(pod, { type: "Warning", reason: "PodGrouperWarning", action: "Grouping", note });
  }
}
