import type { MakeTracker } from "../../decide/devices/deviceModel.ts";
import type { DeviceFeatures } from "../../decide/devices/search/features.ts";
import type { Component } from "../runtime/component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { addClaimController } from "./claimController.ts";
import { type DeviceCaches, deviceCachesOf } from "./deviceCaches.ts";
import { addTaintController } from "./taintController.ts";

export interface DevicesOptions {
  /** Whether PodGroups have claims of their own (Kubernetes: DRAWorkloadResourceClaims, off). */
  readonly groupClaims?: boolean;
  readonly features?: DeviceFeatures;
  readonly makeTracker?: MakeTracker;
}

/**
 * Dynamic Resource Allocation as a component of the control plane: the life of claims. The scheduler chooses their
 * devices.
 */
export function devicesComponent(options: DevicesOptions = {}): Component {
  return {
    name: "devices",
    isProvidedByCluster: true,
    about: "claims of devices: from templates, given back, evicted by taints; the scheduler and the binder allocate",
    add: (controllers) => void addDevices(controllers, options),
  };
}

/** The same, with the caches that it reads: for invariants that compare what is counted. */
export function addDevices(controllers: Controllers, options: DevicesOptions = {}): DeviceCaches {
  const { groupClaims = false, features, makeTracker } = options;
  const world = deviceCachesOf(controllers, makeTracker);
  if (groupClaims) world.useGroups();
  if (features !== undefined) world.useFeatures(features);
  const recorder = new EventRecorder({ ...controllers.ports, controller: "muster.dev/devices", instance: "devices" });
  addClaimController(world, recorder);
  addTaintController(world, recorder);
  return world;
}
