import type { MergePatch } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, refused } from "../../model/outcome.ts";
import type { CallOptions, KubeApi, WriteOptions } from "../../ports/kubeApi.ts";
import type { Epoch, Lease } from "./lease.ts";

/** On objects that are applied: the epoch of the leader that applied them. */
export const epochAnnotation = "muster.dev/epoch";

/** The API refuses longer field managers. */
const fieldManagerLengthMax = 128;

/**
 * The API of a leader. Once this process can no longer prove that it holds the lease, no write is sent; a write that
 * was sent before carries the preconditions of its intent. Reads are always allowed. The lease is checked twice: here,
 * and by the client just before the request is sent, because a write may wait in between for a free connection or for
 * new credentials, longer than the lease lasts.
 *
 * Every write names the epoch in which it was decided: in the name of the field manager (`muster-scheduler/7.host-a`),
 * which ends up in the object's managedFields; in the annotation `muster.dev/epoch` for an apply, where the manager's
 * name is an identity and must not change with the leader. Deletes and evictions cannot carry it.
 */
export function fencedKube(kube: KubeApi, lease: Pick<Lease, "isProven" | "epoch">, fieldManager: string): KubeApi {
  const guarded = <T>(send: (epoch: Epoch) => Promise<Outcome<T>>): Promise<Outcome<T>> => {
    const { epoch } = lease;
    return lease.isProven && epoch !== undefined ? send(epoch) : Promise.resolve(fenced());
  };
  // The epoch is that of the decision: a later epoch of the same process does not permit the write.
  const withFence = <O extends CallOptions>(options: O | undefined, epoch: Epoch): O =>
    ({ ...options, maySend: () => lease.isProven && lease.epoch === epoch }) as O;
  const stamped = (options: WriteOptions | undefined, epoch: Epoch): WriteOptions => ({
    ...withFence(options, epoch),
    fieldManager: `${options?.fieldManager ?? fieldManager}/${epochText(epoch)}`.slice(0, fieldManagerLengthMax),
  });
  return {
    get: (ref, options) => kube.get(ref, options),
    list: (kind, options) => kube.list(kind, options),
    watch: (kind, options, sink) => kube.watch(kind, options, sink),
    create: (resource, object, options) => guarded((epoch) => kube.create(resource, object, stamped(options, epoch))),
    update: (ref, object, options) => guarded((epoch) => kube.update(ref, object, stamped(options, epoch))),
    patch: (ref, patch, options) =>
      guarded((epoch) => {
        if (patch.type !== "apply") return kube.patch(ref, patch, stamped(options, epoch));
        const body = annotated(patch.body, epochText(epoch));
        const named = { ...options, fieldManager: options?.fieldManager ?? fieldManager };
        return kube.patch(ref, { ...patch, body }, withFence(named, epoch));
      }),
    delete: (ref, options) => guarded((epoch) => kube.delete(ref, withFence(options, epoch))),
    bind: (pod, binding, options) => guarded((epoch) => kube.bind(pod, binding, stamped(options, epoch))),
    evict: (pod, options) => guarded((epoch) => kube.evict(pod, withFence(options, epoch))),
  };
}

export function epochText({ number, holder }: Epoch): string {
  return `${number}.${holder}`;
}

function fenced(): Refusal {
  return refused("Fenced", "the lease is not held, so nothing was sent");
}

function annotated<P extends MergePatch>(body: P, epoch: string): P {
  const { metadata } = body;
  const annotations = { ...metadata?.annotations, [epochAnnotation]: epoch };
  return { ...body, metadata: { ...metadata, annotations } };
}
