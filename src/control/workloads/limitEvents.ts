import { pendingPodsReason } from "../../decide/workloads/pendingPods.ts";
import type { Decision } from "../../model/objects/draft.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { warning } from "./podOwner.ts";

/** Records an Event on an owner when the limit of pending pods begins to apply. */
export class LimitEvents {
  private readonly recorder: EventRecorder;
  private readonly limited = new Set<string>();

  constructor(recorder: EventRecorder, owners: ObjectCache) {
    this.recorder = recorder;
    owners.onEvent(({ type, object }) => {
      if (type === "deleted") this.limited.delete(object.metadata.uid);
    });
  }

  update(owner: KubeObject, { limit }: Decision): void {
    const { uid } = owner.metadata;
    if (limit === undefined) this.limited.delete(uid);
    else if (!this.limited.has(uid)) {
      this.limited.add(uid);
      this.recorder.record(owner, warning(pendingPodsReason, "Create", limit));
    }
  }
}
