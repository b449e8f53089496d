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

/** I6: what the events of the watches have made of the model is what a fold of the same objects at once gives. */
export const foldedOnce: Invariant = {
  id: "I6",
  fact: "after each cycle the cluster is what its objects, folded anew, give",
  begin: () => ({
    observe: (actor, what, value) => {
      if (what !== "decided") return undefined;
      const { model, nowMs } = value as Decided;
      // What the cycle tried and took back is counted again before the next one.
      model.cluster.countClaims();
      const fresh = model.refolded();
      fresh.cluster.refresh(nowMs);
      fresh.cluster.beginDevices(nowMs);
      const difference = differenceOf(describeModel(model), describeModel(fresh));
      return difference === undefined ? undefined : `${actor}: ${difference}`;
    },
  }),
};
