import { keyOfObject } from "../../model/intent.ts";
import { type LabelRequirements, matchesLabels } from "../../model/objects/labelSelector.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { KindChange } from "../../snapshot/kindTable.ts";
import type { ObjectCache } from "../cache/objectCache.ts";

export interface SelectorIndexOptions<S extends KubeObject, O extends KubeObject> {
  /** The kind with selectors: Services, ReplicaSets. */
  readonly selectors: ObjectCache<S>;
  /** Pure. Undefined: selects nothing. */
  readonly requirementsOf: (selector: S) => LabelRequirements | undefined;
  /** What is selected: pods. */
  readonly objects: ObjectCache<O>;
  /** Excludes objects that need no index. Pure. */
  readonly isEligible?: (object: O) => boolean;
  /**
   * Whether `selectedBy` is used; without it only the selectors of an object are indexed, and a new selector costs
   * nothing.
   */
  readonly keepsMembers?: boolean;
}

interface Entry {
  readonly requirements: LabelRequirements;
  readonly members: Set<string>;
}

/**
 * Which selectors match an object, and which objects a selector matches, in one namespace, kept current with both
 * caches: a change of a pod evaluates the selectors of its own namespace once and scans no pods.
 */
export class SelectorIndex<S extends KubeObject, O extends KubeObject> {
  private readonly options: SelectorIndexOptions<S, O>;
  /** By namespace, then by key of the selector. */
  private readonly entries = new Map<string, Map<string, Entry>>();

  constructor(options: SelectorIndexOptions<S, O>) {
    this.options = options;
    const { selectors, objects } = options;
    for (const [key, object] of selectors.view().objects) this.putSelector(key, object);
    selectors.onChanges((changes) => {
      for (const change of changes) this.selectorChanged(change);
    });
    if (options.keepsMembers !== true) return;
    objects.onChanges((changes) => {
      for (const change of changes) this.objectChanged(change);
    });
  }

  /** Keys of the objects whose selectors match the object. */
  selectorsOf(object: O): string[] {
    if (this.options.isEligible?.(object) === false) return [];
    const here = this.entries.get(object.metadata.namespace ?? "");
    if (here === undefined) return [];
    const keys: string[] = [];
    for (const [key, { requirements }] of here) {
      if (matchesLabels(requirements, object.metadata.labels)) keys.push(key);
    }
    return keys;
  }

  /** The objects that the selector of this key matches, in order of key. */
  selectedBy(selector: S): O[] {
    const entry = this.entries.get(selector.metadata.namespace ?? "")?.get(keyOfObject(selector));
    if (entry === undefined) return [];
    return [...entry.members].sort().flatMap((key) => this.options.objects.get(key) ?? []);
  }

  count(key: string): number {
    const namespace = key.slice(0, Math.max(0, key.indexOf("/")));
    return this.entries.get(namespace)?.get(key)?.members.size ?? 0;
  }

  private selectorChanged(change: KindChange<S>): void {
    const namespace = change.object.metadata.namespace ?? "";
    if (change.type === "deleted") {
      const here = this.entries.get(namespace);
      here?.delete(change.key);
      if (here?.size === 0) this.entries.delete(namespace);
    } else this.putSelector(change.key, change.object);
  }

  private putSelector(key: string, selector: S): void {
    const namespace = selector.metadata.namespace ?? "";
    const here = this.entries.get(namespace);
    const requirements = this.options.requirementsOf(selector);
    const before = here?.get(key);
    if (requirements === undefined) {
      here?.delete(key);
      return;
    }
    if (before !== undefined && JSON.stringify(before.requirements) === JSON.stringify(requirements)) return;
    const entry: Entry = { requirements, members: new Set() };
    if (here === undefined) this.entries.set(namespace, new Map([[key, entry]]));
    else here.set(key, entry);
    if (this.options.keepsMembers !== true) return;
    for (const [objectKey, object] of this.options.objects.view().objects) {
      if (object.metadata.namespace !== selector.metadata.namespace) continue;
      if (this.options.isEligible?.(object) === false) continue;
      if (matchesLabels(requirements, object.metadata.labels)) entry.members.add(objectKey);
    }
  }

  private objectChanged(change: KindChange<O>): void {
    const here = this.entries.get(change.object.metadata.namespace ?? "");
    if (here === undefined) return;
    const isThere = change.type !== "deleted" && this.options.isEligible?.(change.object) !== false;
    for (const { requirements, members } of here.values()) {
      if (isThere && matchesLabels(requirements, change.object.metadata.labels)) members.add(change.key);
      else members.delete(change.key);
    }
  }
}

export function isOrphan({ metadata }: KubeObject): boolean {
  return controllerOf(metadata) === undefined;
}
