import type { CacheEvent } from "../../control/cache/objectCache.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { UserError } from "../../model/userError.ts";
import { readStage, type Stage } from "../stages/stage.ts";

/** The stages that users have created, by `apiVersion/kind` of their resourceRef, in order of name. */
export class StageRegistry {
  readonly byKind = new Map<string, readonly Stage[]>();
  private readonly all = new Map<string, Stage>();

  /** Adds a stage and returns its error; an invalid stage is left out. */
  changed({ type, object }: CacheEvent): string | undefined {
    const { name } = object.metadata;
    const before = this.all.get(name);
    this.all.delete(name);
    let problem: string | undefined;
    if (type !== "deleted") problem = this.read(object);
    for (const stage of [before, this.all.get(name)]) if (stage !== undefined) this.collect(keyOf(stage));
    return problem;
  }

  private read(object: KubeObject): string | undefined {
    try {
      this.all.set(object.metadata.name, readStage(object, "the cluster"));
      return undefined;
    } catch (error) {
      if (error instanceof UserError) return error.message;
      throw error;
    }
  }

  private collect(kind: string): void {
    const stages = [...this.all.values()].filter((stage) => keyOf(stage) === kind);
    stages.sort((a, b) => (a.name < b.name ? -1 : 1));
    if (stages.length === 0) this.byKind.delete(kind);
    else this.byKind.set(kind, stages);
  }
}

function keyOf({ apiVersion, kind }: Stage): string {
  return `${apiVersion}/${kind}`;
}
