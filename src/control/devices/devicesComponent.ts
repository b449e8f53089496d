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
 * Dynamic Resource Allocation as a component of the control plane: creation, release and eviction of claims. The
 * scheduler chooses their devices.
 */
export function devicesComponent(options: DevicesOptions = {}): Component {
  return {
    name: "devices",
    isProvidedByCluster: true,
    about:
      "ResourceClaims: created from templates, released, evicted by device taints; the scheduler and the binder allocate",
    add: (controllers) => void addDevices(controllers, options),
  };
}

/** The same, and returns the caches, for invariants that compare the counts. */
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
