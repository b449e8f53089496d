import type { ClusterModel } from "../../decide/schedule/model/clusterModel.ts";
import { describeModel, differenceOf } from "../../decide/schedule/model/describeCluster.ts";
import type { ActorPorts } from "../actor.ts";
import type { Invariant } from "../invariant.ts";

/** A cycle has decided from this model at this time. */
interface Decided {
  readonly model: ClusterModel;
  readonly nowMs: number;
}

/** Lets the invariant look at the model after each cycle. */
export function observeCycles(ports: ActorPorts, model: ClusterModel): void {
  model.onDecided = (nowMs) => ports.observe("decided", { model, nowMs });
}

/** I6: the model that is updated by watch events equals a model that is built from the same objects. */
export const foldedOnce: Invariant = {
  id: "I6",
  fact: "after each cycle the model of the cluster equals one that is rebuilt from its objects",
  begin: () => ({
    observe: (actor, what, value) => {
      if (what !== "decided") return undefined;
      const { model, nowMs } = value as Decided;
      // Facts that the cycle changed and rolled back are recounted before the next cycle.
      model.cluster.countClaims();
      const fresh = model.refolded();
      fresh.cluster.refresh(nowMs);
      fresh.cluster.beginDevices(nowMs);
      const difference = differenceOf(describeModel(model), describeModel(fresh));
      return difference === undefined ? undefined : `${actor}: ${difference}`;
    },
  }),
};
