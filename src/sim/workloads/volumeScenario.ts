import { workloads } from "../../control/workloads/workloads.ts";
import type { PersistentVolume } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { runControllers } from "../controllersProcess.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Mistake } from "../mistake.ts";
import { mistaken } from "../mistake.ts";
import type { Scenario } from "../scenario.ts";
import { clusterWith, held, lease, managers } from "./cast.ts";
import { heart, nodeNames, setUpNodes, workloadsScenario } from "./scenario.ts";
import { keepsVolumes, volumeHasOneClaim, volumesSettle } from "./volumeInvariants.ts";
import { makeClasses, volumeUser } from "./volumeUser.ts";

export const volumeMistakes: readonly Mistake[] = [
  {
    // A claim that was created again under the name gets the volume, with the data of the earlier one.
    name: "adopts-by-name",
    invariant: "I14",
    kube: ({ kube }) => ({
      update: async (ref, object, options) => {
        const { spec, status } = object as KubeObject as PersistentVolume;
        const { namespace = "", name = "" } = spec?.claimRef ?? {};
        if (ref.plural !== builtin.PersistentVolume.plural || status?.phase !== "Released")
          return kube.update(ref, object, options);
        const claim = await kube.get({ ...builtin.PersistentVolumeClaim, namespace, name }, options);
        if (!claim.ok) return kube.update(ref, object, options);
        const { subresource: _, ...volume } = ref;
        const claimRef = { ...spec?.claimRef, uid: claim.value.metadata.uid };
        return kube.update(volume, { ...object, spec: { ...spec, claimRef } }, options);
      },
    }),
  },
  {
    // The version that was decided on is not sent, so the second of two claims takes the volume from the first.
    name: "takes-without-looking",
    invariant: "I5",
    kube: ({ kube }) => ({
      patch: (ref, patch, options) => {
        if (ref.plural !== builtin.PersistentVolume.plural || patch.type !== "merge")
          return kube.patch(ref, patch, options);
        const {
          uid: _,
          resourceVersion: __,
          ...metadata
        } = (patch.body as { metadata?: object }).metadata as KubeObject["metadata"];
        return kube.patch(ref, { ...patch, body: { ...patch.body, metadata } }, options);
      },
    }),
  },
];

/** `workloads/volumes`, or `workloads/volumes/<mistake>` with one classic bug. */
export function volumesWith(mistake?: Mistake): Scenario {
  return {
    ...workloadsScenario,
    name: mistake === undefined ? "workloads/volumes" : `workloads/volumes/${mistake.name}`,
    about: "claims, volumes and pods with ephemeral volumes are created, deleted and created again, under all faults",
    setUp: async (kube) => {
      await setUpNodes(kube);
      await makeClasses(kube);
    },
    actors: () => [
      ...managers.map((name) => ({
        name,
        run: (ports: Parameters<typeof runControllers>[0]) =>
          runControllers(mistaken(ports, mistake), (controllers) => workloads.add(controllers), { lease }),
      })),
      clusterWith(() => ({ startMs: 100 })),
      heart,
      volumeUser({ nodes: nodeNames, selectsNodes: true, acts: 40, spanMs: 18_000 }),
    ],
    invariants: [
      volumeHasOneClaim(held),
      keepsVolumes(held),
      destroysTheSameObject(held),
      destroysWhatItLookedAt(held),
      changesWhatItSaw(held),
      oneEpochWrites(held, lease.name),
      neverGoesBack,
      writesChangeSomething(held),
      cachesAreComplete,
      volumesSettle,
    ],
  };
}
