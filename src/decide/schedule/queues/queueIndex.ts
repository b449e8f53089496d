import { equalFields } from "../../../model/objects/json.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";
import { type Changes, FactMap } from "../cluster/facts.ts";
import type { Job } from "../cluster/job.ts";
import { type Vector, zeroVector } from "../cluster/resources.ts";
import { chargeJob } from "./charging.ts";
import { QueueTree } from "./queueTree.ts";

/** The Queue objects and their tree, which is rebuilt when one of them has changed. */
export class QueueIndex {
  tree = new QueueTree([]);
  private readonly objects: FactMap<string, Queue>;
  private usage: ReadonlyMap<string, Readonly<Vector>> = new Map();
  private isDirty = true;

  constructor(changes: Changes) {
    // The status of a Queue changes no decision.
    this.objects = new FactMap(changes, (a, b) => a.metadata.uid === b.metadata.uid && equalFields(a.spec, b.spec));
  }

  put(queue: Queue): void {
    if (this.objects.replace(queue.metadata.name, queue)) this.isDirty = true;
  }

  remove(name: string): void {
    if (this.objects.delete(name)) this.isDirty = true;
  }

  /** A setting that the tree depends on has changed. */
  touched(): void {
    this.isDirty = true;
  }

  setUsage(usage: ReadonlyMap<string, Readonly<Vector>>): void {
    this.usage = usage;
    this.takeUsage();
  }

  /** Rebuilds the tree if necessary, and adds the usage of jobs to it. Returns whether it was. */
  refresh(jobs: Iterable<Job>, options: { readonly hasFullHierarchy: boolean }): boolean {
    if (!this.isDirty) return false;
    this.isDirty = false;
    this.tree = new QueueTree(this.objects.values(), options);
    this.takeUsage();
    for (const job of jobs) {
      job.queue = this.tree.byName.get(job.queueName);
      chargeJob(job, 1);
    }
    return true;
  }

  private takeUsage(): void {
    for (const queue of this.tree.byName.values()) queue.usage = [...(this.usage.get(queue.name) ?? zeroVector())];
  }
}
