import { binderComponent } from "../../control/bind/binderComponent.ts";
import type { DeviceCaches } from "../../control/devices/deviceCaches.ts";
import { addDevices, type DevicesOptions } from "../../control/devices/devicesComponent.ts";
import type { Component } from "../../control/runtime/component.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { addScheduler, schedulerComponent } from "../../control/schedule/schedulerComponent.ts";
import type { ClusterModel } from "../../decide/schedule/model/clusterModel.ts";
import { defaultSettings } from "../../decide/schedule/settings.ts";

const settings = { ...defaultSettings, allocatesDevices: true, stalenessGraceMs: 3_000 };
const scheduler = schedulerComponent(settings);
/** The kind of its requests is defined by the scheduler already. */
const binder: Component = { ...binderComponent(), definitions: [] };

/** What a server has to serve where `addAllocators` runs. */
export const allocatorComponents: readonly Component[] = [scheduler, binder];

/** What they decide from. */
export interface Allocators {
  readonly devices: DeviceCaches;
  readonly model: ClusterModel;
}

/**
 * Everything that gives devices to claims, in one process: the life of claims, the scheduler that chooses, the binder
 * that writes.
 */
export function addAllocators(controllers: Controllers, options?: DevicesOptions): Allocators {
  // First: the caches may come with a tracker of the caller's.
  const devices = addDevices(controllers, options);
  const { model } = addScheduler(controllers, settings);
  binder.add(controllers);
  return { devices, model };
}
