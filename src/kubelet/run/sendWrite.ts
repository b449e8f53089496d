import { type ApplyOptions, applyIntent, type Written } from "../../intents/applyIntent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { Revision } from "../../model/revision.ts";
import type { KubeApi, Patch } from "../../ports/kubeApi.ts";
import { intentOfWrite } from "../node/intentOfWrite.ts";
import type { NodeEvent, NodeWrite } from "../node/nodeWrite.ts";

export type ApiWrite<T extends KubeObject = KubeObject> = Exclude<NodeWrite<T>, NodeEvent>;

export interface SendOptions extends ApplyOptions {
  /** The revision at which the name of a new object was free. */
  readonly absentAtRevision: Revision;
  readonly why: string;
}

/** Sends one write of a node: as an intent if possible, or directly, as KWOK does for stages. */
export async function sendWrite<T extends KubeObject>(
  kube: KubeApi,
  write: ApiWrite<T>,
  options: SendOptions,
): Promise<Outcome<Written<T>>> {
  const { absentAtRevision, why, ...call } = options;
  const intent = intentOfWrite(write, { absentAtRevision, why });
  if (intent !== undefined) return applyIntent(kube, intent, call);
  switch (write.kind) {
    case "patch": {
      const outcome = await kube.patch(write.ref, patchOf(write), call);
      return outcome.ok
        ? succeeded({ object: outcome.value, revision: outcome.value.metadata.resourceVersion })
        : outcome;
    }
    case "delete": {
      const { cancel } = call;
      const outcome = await kube.delete(write.ref, {
        preconditions: { uid: write.expected.uid },
        gracePeriodSeconds: write.graceSeconds,
        ...(cancel && { cancel }),
      });
      return outcome.ok ? succeeded({}) : outcome;
    }
    default:
      throw new Error(`internal error: a ${write.kind} of ${write.ref.plural} cannot be sent`);
  }
}

function patchOf<T extends KubeObject>({ patch, expected }: Extract<ApiWrite<T>, { kind: "patch" }>): Patch<T> {
  if (expected === undefined || patch.type === "json") return patch;
  const { body } = patch;
  return { ...patch, body: { ...body, metadata: { ...body.metadata, ...expected } } };
}
