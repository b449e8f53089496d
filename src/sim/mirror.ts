import type { KubeObject } from "../model/object.ts";
import type { Outcome } from "../model/outcome.ts";
import type { KubeList, ResourceRef, WatchEvent } from "../ports/kubeApi.ts";
import type { ActorPorts } from "./actor.ts";

/** A kind followed by list and watch, kept as small as such a thing can be. Its picture never goes back in time. */
export class Mirror {
  readonly objects = new Map<string, KubeObject>();
  revision = 0;
  synced = false;
  private readonly ports: ActorPorts;
  private readonly kind: ResourceRef;
  private readonly changed: (change: MirrorChange) => void;
  private wantsList = true;
  private stopWatch: () => void = () => {};

  constructor(ports: ActorPorts, kind: ResourceRef, changed: (change: MirrorChange) => void = () => {}) {
    this.ports = ports;
    this.kind = kind;
    this.changed = changed;
    ports.observe("mirror", { kind: `${kind.group}/${kind.plural}`, objects: () => this.objects });
  }

  /** Follows until the process is asked to end. */
  async run(): Promise<void> {
    const { cancel } = this.ports;
    while (!cancel.cancelled) {
      if (this.wantsList) {
        if (!(await this.list())) await this.ports.sleep(100);
        continue;
      }
      const why = await this.watch();
      if (why !== undefined && !why.ok && why.reason === "Expired") this.wantsList = true;
      if (!cancel.cancelled) await this.ports.sleep(20);
    }
  }

  /** Asks for a new consistent list, soon. */
  relist(): void {
    this.wantsList = true;
    this.stopWatch();
  }

  private async list(): Promise<boolean> {
    const items: KubeObject[] = [];
    let continueToken: string | undefined;
    this.wantsList = false;
    for (;;) {
      const page: Outcome<KubeList> = await this.ports.kube.list(this.kind, {
        limit: 20,
        ...(continueToken === undefined ? {} : { continueToken }),
      });
      if (!page.ok) {
        this.wantsList = true;
        return false;
      }
      items.push(...page.value.items);
      continueToken = page.value.continueToken;
      if (continueToken !== undefined) continue;
      this.replace(items, Number(page.value.revision));
      return true;
    }
  }

  /** Swaps the whole picture in one piece. */
  private replace(items: readonly KubeObject[], revision: number): void {
    if (revision < this.revision) return;
    const before = new Map(this.objects);
    this.objects.clear();
    for (const object of items) this.objects.set(keyOf(object), object);
    this.advance(revision);
    this.synced = true;
    this.changed({ type: "LIST", before });
  }

  private watch(): Promise<Outcome<never> | undefined> {
    return new Promise((resolve) => {
      const { cancel, kube } = this.ports;
      let forget = (): void => {};
      const watch = kube.watch(
        this.kind,
        { resourceVersion: String(this.revision), allowBookmarks: true },
        {
          event: (event) => this.apply(event),
          ended: (why) => {
            forget();
            resolve(why);
          },
        },
      );
      this.stopWatch = () => {
        forget();
        watch.stop();
        resolve(undefined);
      };
      forget = cancel.onCancel(this.stopWatch);
    });
  }

  private apply(event: WatchEvent): void {
    const revision = Number(event.type === "BOOKMARK" ? event.revision : event.object.metadata.resourceVersion);
    // A stream may repeat itself after it was resumed.
    if (revision <= this.revision) return;
    if (event.type !== "BOOKMARK") {
      const key = keyOf(event.object);
      if (event.type === "DELETED") this.objects.delete(key);
      else this.objects.set(key, event.object);
    }
    this.advance(revision);
    this.changed(event);
  }

  private advance(revision: number): void {
    this.revision = revision;
    this.ports.observe("revision", { kind: this.kind.plural, revision });
  }
}

export type MirrorChange = WatchEvent | { readonly type: "LIST"; readonly before: ReadonlyMap<string, KubeObject> };

export function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}
