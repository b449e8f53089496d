/** The gang operator as a part of the control plane. */
import { gangDefinitions } from "../../model/gang/definitions.ts";
import { gangHooks } from "../../model/gang/hooks.ts";
import { defaultGangSettings, type GangSettings } from "../../model/gang/settings.ts";
import { podGroupDefinition, topologyDefinition } from "../../model/scheduling/definitions.ts";
import type { Controllers } from "../controllers.ts";
import type { Part } from "../part.ts";
import { addCliqueTurns } from "./cliqueTurns.ts";
import { GangWorld } from "./gangWorld.ts";
import { addGroupTurns } from "./groupTurns.ts";
import { addReplicaTurns } from "./replicaTurns.ts";
import { addSetTurns } from "./setTurns.ts";
import { addBindingTurns, addPodGroupTurns, addStartTurns } from "./sideTurns.ts";

export function gangPart(settings: GangSettings = defaultGangSettings): Part {
  const hasKai = settings.profiles.includes("kai-scheduler");
  return {
    name: "gang",
    about: "PodCliqueSets: pods that start together, stay together and end together",
    definitions: [...gangDefinitions, ...(hasKai ? [podGroupDefinition, topologyDefinition] : [])],
    hooks: gangHooks(settings),
    add: (controllers) => addGangTurns(controllers, settings),
  };
}

export function addGangTurns(controllers: Controllers, settings: GangSettings = defaultGangSettings): GangWorld {
  const world = new GangWorld(controllers, settings);
  addSetTurns(world);
  addReplicaTurns(world);
  addGroupTurns(world);
  addCliqueTurns(world);
  addPodGroupTurns(world);
  addBindingTurns(world);
  addStartTurns(world);
  return world;
}
