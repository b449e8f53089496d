import type { ActorPorts } from "../actor.ts";

/** A pod that we decided to create. Its name is chosen once, so that asking again is safe. */
export interface PlannedPod {
  readonly name: string;
  readonly setUid: string;
  /** Undefined until the server has said yes. */
  revision: number | undefined;
}

/**
 * What we wrote and do not see yet. A planned pod counts from the decision until the watch has passed the revision of
 * its write, or until the server has refused it: never nowhere, never twice.
 */
export class OwnWrites {
  readonly created = new Map<string, PlannedPod>();
  /** UIDs whose deletion was confirmed. */
  readonly deleted = new Set<string>();
  /** Pods that we gave an owner, by UID. */
  readonly adopted = new Map<string, { readonly setUid: string; readonly revision: number }>();
  private readonly ports: ActorPorts;

  constructor(ports: ActorPorts) {
    this.ports = ports;
  }

  plan(name: string, setUid: string): PlannedPod {
    const planned: PlannedPod = { name, setUid, revision: undefined };
    this.created.set(name, planned);
    this.ports.observe("intent", { id: name, state: "decided" });
    return planned;
  }

  close(planned: PlannedPod, state: "applied" | "rejected" | "abandoned"): void {
    if (!this.created.delete(planned.name)) return;
    this.ports.observe("intent", { id: planned.name, state });
  }

  /** Gives up what is in doubt. If it turns up after all, whoever leads will find it. */
  abandon(which: (planned: PlannedPod) => boolean): void {
    for (const planned of [...this.created.values()]) {
      if (planned.revision === undefined && which(planned)) this.close(planned, "abandoned");
    }
  }

  /** The picture has come this far. */
  seen(picture: { revision: number; hasUid(uid: string): boolean; ownerOf(name: string): string | undefined }): void {
    for (const planned of [...this.created.values()]) {
      const passed = planned.revision !== undefined && planned.revision <= picture.revision;
      // A write whose answer was lost is confirmed by what it made.
      if (passed || picture.ownerOf(planned.name) === planned.setUid) this.close(planned, "applied");
    }
    for (const [uid, adoption] of this.adopted) if (adoption.revision <= picture.revision) this.adopted.delete(uid);
    for (const uid of this.deleted) if (!picture.hasUid(uid)) this.deleted.delete(uid);
  }
}
