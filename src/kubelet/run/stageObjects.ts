import { NewestOf } from "../../control/cache/newestOf.ts";
import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import type { ReconcileContext } from "../../control/runtime/loop.ts";
import { Channel } from "../../control/runtime/sources.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import type { Stage } from "../stages/stage.ts";
import { pluralOf, type StageJob } from "../stages/stageEngine.ts";
import type { KubeletContext } from "./kubeletContext.ts";
import { playStages, templateContext } from "./stageReconciler.ts";
import type { Wakes } from "./wakes.ts";

interface StagedKind {
  readonly cache: ObjectCache;
  readonly own: NewestOf<KubeObject>;
  readonly jobs: Map<string, StageJob>;
}

/** Plays stages on kinds other than nodes and pods: volumes, claims, or any kind that has stages. */
export class StageObjects {
  readonly channel = new Channel();
  readonly wakes: Wakes;
  private readonly controllers: Controllers;
  private readonly context: KubeletContext;
  private readonly kinds = new Map<string, StagedKind>();

  constructor(controllers: Controllers, context: KubeletContext, wakes: Wakes) {
    this.controllers = controllers;
    this.context = context;
    this.wakes = wakes;
  }

  /** A kind that has stages for the first time is watched from now on; every object is reconciled again. */
  stagesChanged(): void {
    for (const [name] of this.context.stages) if (isOther(name)) this.follow(name);
    for (const [name, { cache, jobs }] of this.kinds) {
      jobs.clear();
      for (const [key] of cache.view().objects) this.channel.push(`${name} ${key}`);
    }
  }

  async reconcile(place: string, { cancel }: ReconcileContext): Promise<undefined> {
    const [name = "", key = ""] = place.split(" ");
    const kind = this.kinds.get(name);
    const object = kind?.own.get(key);
    const stages: readonly Stage[] = this.context.stages.get(name) ?? [];
    if (kind === undefined) return undefined;
    if (object === undefined || stages.length === 0) {
      kind.jobs.delete(key);
      this.wakes.set(place, undefined);
      return undefined;
    }
    const templates = templateContext(this.context, undefined, undefined);
    const played = await playStages(this.context, { object, job: kind.jobs.get(key), stages, templates, cancel });
    if (played.job === undefined) kind.jobs.delete(key);
    else kind.jobs.set(key, played.job);
    if (played.written !== undefined) kind.own.learn(played.written);
    this.wakes.set(place, played.again ? this.context.ports.clock.nowMs() : played.wakeAtMs);
    return undefined;
  }

  private follow(name: string): void {
    if (this.kinds.has(name)) return;
    const at = name.lastIndexOf("/");
    const [apiVersion, kind] = [name.slice(0, at), name.slice(at + 1)];
    const cache = this.controllers.cache({ ...splitApiVersion(apiVersion), plural: pluralOf(kind) });
    this.kinds.set(name, { cache, own: new NewestOf(cache), jobs: new Map() });
    cache.onEvent(({ key }) => this.channel.push(`${name} ${key}`));
  }
}

function isOther(name: string): boolean {
  return name !== "v1/Pod" && name !== "v1/Node";
}
