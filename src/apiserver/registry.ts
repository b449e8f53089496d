import type { KubeObject } from "../model/objects/object.ts";
import type { Resource } from "./resource.ts";

/** Every served resource, by path and by storage key. Custom resources are added and removed with their definitions. */
export class Registry {
  private readonly byPath = new Map<string, Resource>();
  private readonly byStorageKey = new Map<string, Resource>();
  private readonly kinds = new Map<string, Resource>();
  private readonly listeners: (() => void)[] = [];
  /** Increases with every change, so that documents derived from the registry can be rebuilt. */
  revision = 0;

  find(group: string, version: string, plural: string): Resource | undefined {
    return this.byPath.get(`${group}/${version}/${plural}`);
  }

  /** The resource in its stored version. */
  stored(storageKey: string): Resource | undefined {
    return this.byStorageKey.get(storageKey);
  }

  /** By apiVersion and kind, as references in objects name it. */
  kind(apiVersion: string, kind: string): Resource | undefined {
    return this.kinds.get(`${apiVersion}/${kind}`);
  }

  all(): Resource[] {
    return [...this.byPath.values()];
  }

  /** Adds or replaces resources in one step. */
  add(resources: readonly Resource[]): void {
    for (const resource of resources) {
      const { group, version, plural, storageKey, storageVersion, kind } = resource.type;
      if (resource.custom?.served !== false) {
        this.byPath.set(`${group}/${version}/${plural}`, resource);
        this.kinds.set(`${resource.apiVersion}/${kind}`, resource);
      }
      if (resource.apiVersion === storageVersion && !resource.type.virtual) this.byStorageKey.set(storageKey, resource);
    }
    this.changed();
  }

  /** Removes every version of a resource. */
  remove(storageKey: string): void {
    for (const [path, resource] of this.byPath) {
      if (resource.type.storageKey !== storageKey) continue;
      this.byPath.delete(path);
      this.kinds.delete(`${resource.apiVersion}/${resource.type.kind}`);
    }
    this.byStorageKey.delete(storageKey);
    this.changed();
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  private changed(): void {
    this.revision++;
    for (const listener of this.listeners) listener();
  }
}

/** The conversion of a resource whose served version is the stored one. */
export function sameVersion(object: KubeObject): KubeObject {
  return object;
}
