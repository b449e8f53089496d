import type { PodGroup as PlainGroup, PriorityClass } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import { defaultSchedulerName, kaiSchedulerName } from "../../../model/scheduling/keys.ts";
import { defaultPriority, type PodGroup } from "../../../model/scheduling/podGroup.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { fragmentsOf } from "../placement/gangSteps.ts";
import { chargeJob, recharge } from "../queues/charging.ts";
import type { QueueIndex } from "../queues/queueIndex.ts";
import type { Settings } from "../settings.ts";
import { WaitingJobs } from "../waiting/waitingJobs.ts";
import { type Changes, FactMap } from "./facts.ts";
import { Job } from "./job.ts";
import { impliedTopology, plainGangId, plainGangOf, plainGangSpec } from "./plainGang.ts";
import type { Vector } from "./resources.ts";
import { hasSameGroupFacts } from "./sameFacts.ts";
import { isAllocatedStatus, type Task } from "./task.ts";

export interface JobIndexOptions {
  readonly settings: () => Settings;
  readonly queueIndex: QueueIndex;
  readonly topologies: Map<string, Topology>;
  /** What a pod that has a node counts for in its queue. */
  readonly heldVector: (task: Task) => Vector;
  readonly changes: Changes;
}

/** Jobs by their PodGroups, and the pods whose PodGroup does not exist. */
export class JobIndex {
  readonly jobs = new Map<string, Job>();
  /** Jobs with pending pods. */
  readonly waiting = new WaitingJobs();
  /** Gangs that run fewer pods than their minimum. */
  readonly unwell = new Set<Job>();
  /** Pods whose PodGroup does not exist, by the key of the group. */
  readonly withoutGroup = new Map<string, Set<Task>>();
  private readonly groups: FactMap<string, PodGroup>;
  private readonly plainGroups: FactMap<string, PlainGroup>;
  private readonly priorityClasses: FactMap<string, PriorityClass>;
  private readonly settings: () => Settings;
  private readonly queueIndex: QueueIndex;
  private readonly topologies: Map<string, Topology>;
  private readonly heldVector: (task: Task) => Vector;

  constructor({ settings, queueIndex, topologies, heldVector, changes }: JobIndexOptions) {
    this.groups = new FactMap(changes, hasSameGroupFacts);
    this.plainGroups = new FactMap(changes, (a, b) => equalFields(a.spec, b.spec));
    this.priorityClasses = new FactMap(changes);
    this.settings = settings;
    this.queueIndex = queueIndex;
    this.topologies = topologies;
    this.heldVector = heldVector;
  }

  group(id: string): PodGroup | undefined {
    return this.groups.get(id);
  }

  putPodGroup(group: PodGroup): void {
    const id = `${group.metadata.namespace}/${group.metadata.name}`;
    const before = this.groups.get(id);
    const hasChanged = this.groups.replace(id, group);
    const job = this.jobs.get(id);
    if (job === undefined || before === undefined) {
      this.makeJob(id, group);
      return;
    }
    job.setOwner(group);
    if (hasChanged) this.waiting.changed(job);
    if (before.metadata.uid === group.metadata.uid && equalFields(before.spec, group.spec)) return;
    chargeJob(job, -1);
    job.reshape(group.spec ?? {});
    this.setPriority(job, group);
    job.queue = this.queueIndex.tree.byName.get(job.queueName);
    chargeJob(job, 1);
    this.noteWaiting(job);
    this.noteHealth(job);
  }

  removePodGroup(id: string): void {
    if (this.groups.delete(id)) this.removeJob(id);
  }

  private removeJob(id: string): void {
    const job = this.jobs.get(id);
    if (job === undefined) return;
    const left = [...job.tasks];
    for (const task of left) this.withdraw(task);
    this.jobs.delete(id);
    this.waiting.remove(job);
    this.unwell.delete(job);
    for (const task of left) this.addTask(task);
  }

  /** A PodGroup of `scheduling.k8s.io`: its pods are in no queue. */
  putPlainGroup(group: PlainGroup): void {
    const { namespace = "", name } = group.metadata;
    const id = plainGangId(namespace, name);
    const spec = plainGangSpec(group);
    this.plainGroups.set(id, group);
    const implied = impliedTopology(group);
    // The topology stays when the group is deleted: its name determines its content.
    if (implied !== undefined && !this.topologies.has(implied.metadata.name))
      this.topologies.set(implied.metadata.name, implied);
    const job = this.jobs.get(id);
    if (job === undefined) {
      this.addJob(new Job(id, group, false, spec, group.spec.priority ?? 0));
      return;
    }
    job.setOwner(group);
    if (job.priority === (group.spec.priority ?? 0) && equalFields(job.spec, spec)) return;
    job.priority = group.spec.priority ?? 0;
    job.reshape(spec);
    this.noteWaiting(job);
    this.waiting.changed(job);
  }

  removePlainGroup(key: string): void {
    const [namespace = "", name = ""] = key.split("/");
    const id = plainGangId(namespace, name);
    if (this.plainGroups.delete(id)) this.removeJob(id);
  }

  putPriorityClass(priorityClass: PriorityClass): void {
    this.priorityClasses.set(priorityClass.metadata.name, priorityClass);
    this.updatePriorities();
  }

  removePriorityClass(name: string): void {
    if (this.priorityClasses.delete(name)) this.updatePriorities();
  }

  /** Adds a pod to its job, if it has one. */
  addTask(task: Task): void {
    const { pod } = task;
    // A reservation pod belongs to no gang.
    if (task.isReservation) return;
    const scheduler = pod.spec?.schedulerName ?? defaultSchedulerName;
    if (scheduler === defaultSchedulerName) {
      if (!this.settings().placesPlainPods) return;
      const gang = this.settings().formsPlainGangs ? plainGangOf(pod) : undefined;
      if (gang !== undefined) {
        this.addToJob(gang, task);
        return;
      }
      const job = new Job(task.uid, pod, false, { minMember: 1 }, pod.spec?.priority ?? 0);
      this.jobs.set(job.id, job);
      this.join(job, task);
      return;
    }
    if (scheduler !== kaiSchedulerName || task.groupName === undefined) return;
    this.addToJob(`${task.namespace}/${task.groupName}`, task);
  }

  private addToJob(id: string, task: Task): void {
    const job = this.jobs.get(id);
    if (job !== undefined) {
      this.join(job, task);
      return;
    }
    const early = this.withoutGroup.get(id);
    task.waitsForGroup = id;
    if (early === undefined) this.withoutGroup.set(id, new Set([task]));
    else early.add(task);
  }

  private join(job: Job, task: Task): void {
    task.waitsForGroup = undefined;
    task.job = job;
    job.tasks.add(task);
    job.addTask(task);
    job.pendingVector = undefined;
    if (isAllocatedStatus[task.status]) task.counted = recharge(task, this.heldVector(task));
    this.noteWaiting(job);
    this.waiting.changed(job);
    this.noteHealth(job);
  }

  withdraw(task: Task): void {
    const { job } = task;
    if (job === undefined) {
      const { waitsForGroup: id } = task;
      task.waitsForGroup = undefined;
      const early = id === undefined ? undefined : this.withoutGroup.get(id);
      if (id !== undefined && early?.delete(task) === true && early.size === 0) this.withoutGroup.delete(id);
      return;
    }
    task.counted = recharge(task, undefined);
    job.removeTask(task);
    job.tasks.delete(task);
    job.pendingVector = undefined;
    task.job = undefined;
    this.noteWaiting(job);
    this.waiting.changed(job);
    this.noteHealth(job);
    if (job.id === task.uid) {
      this.jobs.delete(job.id);
      this.waiting.remove(job);
    }
  }

  private makeJob(id: string, group: PodGroup): void {
    const job = new Job(id, group, true, group.spec ?? {}, defaultPriority);
    this.setPriority(job, group);
    job.queue = this.queueIndex.tree.byName.get(job.queueName);
    this.addJob(job);
  }

  private addJob(job: Job): void {
    this.jobs.set(job.id, job);
    // Pods may be observed before their group.
    const early = this.withoutGroup.get(job.id);
    this.withoutGroup.delete(job.id);
    for (const task of early ?? []) this.join(job, task);
  }

  /** Records whether a gang runs below its minimum. */
  noteHealth(job: Job): void {
    if (!job.isGroup) return;
    // With a minimum of one, a job that runs any pod has its minimum.
    const isOfOne = (job.root.podSet?.min ?? 2) < 2;
    const isUnwell =
      !isOfOne && !job.podSets.some((set) => set.countOf("succeeded") > 0) && fragmentsOf(job.root).length > 0;
    if (isUnwell) this.unwell.add(job);
    else if (this.unwell.size > 0) this.unwell.delete(job);
  }

  noteWaiting(job: Job): void {
    this.waiting.update(job);
  }

  private updatePriorities(): void {
    for (const [id, group] of this.groups) {
      const job = this.jobs.get(id);
      if (job === undefined) continue;
      chargeJob(job, -1);
      this.setPriority(job, group);
      chargeJob(job, 1);
      this.waiting.changed(job);
    }
  }

  private setPriority(job: Job, group: PodGroup): void {
    const priorityClass = this.priorityClassOf(group);
    job.priority = priorityClass?.value ?? (priorityClass === undefined ? defaultPriority : 0);
    job.mayPreempt = priorityClass?.preemptionPolicy !== "Never";
  }

  private priorityClassOf(group: PodGroup): PriorityClass | undefined {
    const named = this.priorityClasses.get(group.spec?.priorityClassName ?? "");
    if (named !== undefined) return named;
    for (const each of this.priorityClasses.values()) if (each.globalDefault === true) return each;
    return undefined;
  }
}
