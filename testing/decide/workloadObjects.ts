/**
 * A minimal cluster for tests: objects by kind and name, preconditions as in the API, and a kubelet that starts and
 * stops pods in one step.
 */

import type { Intent } from "../../src/model/intent.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { Decision } from "../../src/model/objects/draft.ts";
import { copyJson, equalFields, isObject, type JsonObject } from "../../src/model/objects/json.ts";
import type { DeepReadonly, KubeObject, MergePatch, ObjectMeta, Unstored } from "../../src/model/objects/object.ts";
import { formatTime } from "../../src/model/values/time.ts";

export const startMs = 1_800_000_000_000;

export class TestCluster {
  nowMs = startMs;
  revision = 100;
  readonly objects = new Map<string, KubeObject>();
  /** How many writes were refused because the object had changed. */
  conflicts = 0;

  add<T extends KubeObject>(object: Unstored<T> & { readonly metadata: Partial<DeepReadonly<ObjectMeta>> }): T {
    this.revision++;
    const metadata = {
      namespace: "default",
      uid: `uid-${String(this.revision).padStart(6, "0")}`,
      resourceVersion: String(this.revision),
      generation: 1,
      creationTimestamp: formatTime(this.nowMs),
      ...object.metadata,
    };
    const given: Unstored = object;
    const stored: KubeObject = copyJson({ ...given, metadata: metadata as ObjectMeta });
    this.objects.set(`${stored.kind}/${stored.metadata.name}`, stored);
    return stored as T;
  }

  all<T extends KubeObject>(kind: string): T[] {
    return [...this.objects.values()].filter((object) => object.kind === kind) as T[];
  }

  get<T extends KubeObject>(kind: string, name: string): T {
    const found = this.objects.get(`${kind}/${name}`);
    if (found === undefined) throw new Error(`no ${kind} ${name}`);
    return found as T;
  }

  /** A change by another client. A changed spec is a new generation. */
  change<T extends KubeObject>(kind: string, name: string, edit: (object: T) => void): T {
    const next = copyJson(this.get<T>(kind, name)) as T & { spec?: unknown };
    const before = (this.get<T>(kind, name) as T & { spec?: unknown }).spec;
    edit(next);
    if (!equalFields(next.spec, before)) next.metadata.generation = (next.metadata.generation ?? 0) + 1;
    return this.#store(next) as T;
  }

  apply({ intents }: Decision): void {
    for (const intent of intents) this.applyOne(intent);
  }

  applyOne(intent: Intent): void {
    if (intent.type === "create") {
      const kind = intent.object.kind;
      if (this.objects.has(`${kind}/${intent.object.metadata.name}`)) this.conflicts++;
      else this.add(intent.object);
      return;
    }
    const found = [...this.objects.values()].find(({ metadata }) => metadata.uid === intent.expected.uid);
    if (found === undefined || found.metadata.resourceVersion !== intent.expected.resourceVersion) {
      this.conflicts++;
      return;
    }
    if (intent.type === "status") this.#store({ ...found, status: copyJson(intent.object["status"]) });
    else if (intent.type === "patch") this.#patch(found, intent.patch);
    else if (intent.type === "delete" || intent.type === "evict") this.remove(found, intent.gracePeriodSeconds);
    else throw new Error(`this fixture does not send ${intent.type}`);
  }

  /** As the API does: finalizers keep an object, and a pod on a node waits for its kubelet. */
  remove(object: KubeObject, graceSeconds?: number): void {
    const found = this.get<KubeObject>(object.kind, object.metadata.name);
    const pod = found as Pod;
    const waits = found.kind === "Pod" && graceSeconds !== 0 && (pod.spec?.nodeName ?? "") !== "" && !isOver(pod);
    if (!waits && (found.metadata.finalizers ?? []).length === 0) {
      this.objects.delete(`${found.kind}/${found.metadata.name}`);
      return;
    }
    if (found.metadata.deletionTimestamp !== undefined) return;
    const metadata = { ...found.metadata, deletionTimestamp: formatTime(this.nowMs) };
    this.#store({ ...found, metadata });
  }

  /** Binds and starts every pod, and deletes terminating ones. */
  kubelet(options: { starts?: (pod: Pod) => boolean; node?: (pod: Pod) => string } = {}): void {
    for (const pod of this.all<Pod>("Pod")) {
      const { name } = pod.metadata;
      if (pod.metadata.deletionTimestamp !== undefined) {
        if (!isOver(pod)) this.setPhase(name, "Failed");
        this.remove(this.get("Pod", name), 0);
      } else if ((pod.status?.phase ?? "Pending") === "Pending" && options.starts?.(pod) !== false) {
        const nodeName = options.node?.(pod) ?? pod.spec?.nodeName ?? "n1";
        this.change<Pod>("Pod", name, (each) => {
          each.spec = { ...each.spec, containers: each.spec?.containers ?? [], nodeName };
        });
        this.setPhase(name, "Running");
      }
    }
  }

  setPhase(name: string, phase: string): void {
    const lastTransitionTime = formatTime(this.nowMs);
    this.change<Pod>("Pod", name, (pod) => {
      const ready = { type: "Ready", status: phase === "Running" ? "True" : "False", lastTransitionTime };
      const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "Ready");
      pod.status = { ...pod.status, phase, conditions: [...others, ready] };
    });
  }

  /** Decides and applies until a round changes nothing; each round is checked. */
  settle(round: (cluster: TestCluster) => void, stepMs = 1000): number {
    const rounds = 200;
    for (let i = 1; i <= rounds; i++) {
      const before = this.revision;
      const count = this.objects.size;
      round(this);
      if (this.revision === before && this.objects.size === count) return i;
      this.nowMs += stepMs;
    }
    throw new Error(`not quiet after ${rounds} rounds`);
  }

  #patch(found: KubeObject, patch: MergePatch): void {
    const next = merged(found as JsonObject, patch as JsonObject) as KubeObject;
    if (!equalFields(next["spec"], found["spec"])) {
      next.metadata = { ...next.metadata, generation: (found.metadata.generation ?? 0) + 1 };
    }
    const stored = this.#store(next);
    const isDone = stored.metadata.deletionTimestamp !== undefined && (stored.metadata.finalizers ?? []).length === 0;
    if (isDone && (stored.kind !== "Pod" || isOver(stored))) {
      this.objects.delete(`${stored.kind}/${stored.metadata.name}`);
    }
  }

  #store(object: KubeObject): KubeObject {
    this.revision++;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.revision) } };
    this.objects.set(`${stored.kind}/${stored.metadata.name}`, stored);
    return stored;
  }
}

function isOver({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function merged(target: JsonObject, patch: JsonObject): JsonObject {
  const next: JsonObject = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete next[key];
    else if (isObject(value)) next[key] = merged(isObject(next[key]) ? next[key] : {}, value);
    else next[key] = copyJson(value);
  }
  return next;
}
