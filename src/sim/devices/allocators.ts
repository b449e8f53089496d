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
/** The scheduler already brings the CRD of BindRequests. */
const binder: Component = { ...binderComponent(), definitions: [] };

/** The components whose CRDs `addAllocators` needs. */
export const allocatorComponents: readonly Component[] = [scheduler, binder];

/** The caches that the allocators decide from. */
export interface Allocators {
  readonly devices: DeviceCaches;
  readonly model: ClusterModel;
}

/**
 * The components that allocate devices to claims, in one process: the claim controllers, the scheduler that chooses
 * devices, the binder that writes the allocation.
 */
export function addAllocators(controllers: Controllers, options?: DevicesOptions): Allocators {
  // First, because the caches may use a tracker of the caller.
  const devices = addDevices(controllers, options);
  const { model } = addScheduler(controllers, settings);
  binder.add(controllers);
  return { devices, model };
}
