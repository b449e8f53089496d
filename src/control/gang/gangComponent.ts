/** The gang operator as a component of the control plane. */
import { gangDefinitions } from "../../model/gang/definitions.ts";
import { gangHooks } from "../../model/gang/hooks.ts";
import { defaultGangSettings, type GangSettings } from "../../model/gang/settings.ts";
import { podGroupDefinition, topologyDefinition } from "../../model/scheduling/definitions.ts";
import type { Component } from "../runtime/component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { addCliqueReconciler } from "./cliqueReconciler.ts";
import { GangCaches } from "./gangCaches.ts";
import { addReplicaReconciler } from "./replicaReconciler.ts";
import { addGroupReconciler } from "./scalingGroupReconciler.ts";
import { addSetReconciler } from "./setReconciler.ts";
import { addBindingReconciler, addPodGroupReconciler, addStartReconciler } from "./sideReconcilers.ts";

export function gangComponent(settings: GangSettings = defaultGangSettings): Component {
  const hasKai = settings.profiles.includes("kai-scheduler");
  return {
    name: "gang",
    about: "PodCliqueSets: gangs of pods that are scheduled, updated and terminated together",
    definitions: [...gangDefinitions, ...(hasKai ? [podGroupDefinition, topologyDefinition] : [])],
    hooks: gangHooks(settings),
    add: (controllers) => addGangReconcilers(controllers, settings),
  };
}

export function addGangReconcilers(controllers: Controllers, settings: GangSettings = defaultGangSettings): GangCaches {
  const caches = new GangCaches(controllers, settings);
  addSetReconciler(caches);
  addReplicaReconciler(caches);
  addGroupReconciler(caches);
  addCliqueReconciler(caches);
  addPodGroupReconciler(caches);
  addBindingReconciler(caches);
  addStartReconciler(caches);
  return caches;
}
