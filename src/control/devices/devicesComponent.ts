import type { DeviceFeatures } from "../../decide/devices/search/features.ts";
import type { Component } from "../component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { addClaimController } from "./claimController.ts";
import { addClaimScheduler, type ClaimSchedulerOptions } from "./claimScheduler.ts";
import { type DeviceCaches, deviceCachesOf, type MakeTracker } from "./deviceCaches.ts";
import { addTaintController } from "./taintController.ts";

export interface DevicesOptions extends Partial<ClaimSchedulerOptions> {
  /** Whether pods with claims are placed here; off where another scheduler asks for devices. */
  readonly schedules?: boolean;
  /** Whether PodGroups have claims of their own (Kubernetes: DRAWorkloadResourceClaims, off). */
  readonly groupClaims?: boolean;
  readonly features?: DeviceFeatures;
  readonly makeTracker?: MakeTracker;
}

/** Dynamic Resource Allocation as a part of the control plane. */
export function devicesComponent(options: DevicesOptions = {}): Component {
  return {
    name: "devices",
    isProvidedByCluster: true,
    about: "devices for claims: claims from templates, allocation, release, eviction by taints",
    add: (controllers) => void addDevices(controllers, options),
  };
}

/** The same, for who wants to look at what the part knows. */
export function addDevices(controllers: Controllers, options: DevicesOptions = {}): DeviceCaches {
  const { schedules = true, groupClaims = false, features, makeTracker, ...given } = options;
  const world = deviceCachesOf(controllers, makeTracker);
  if (groupClaims) world.useGroups();
  if (features !== undefined) world.useFeatures(features);
  const recorder = new EventRecorder({ ...controllers.ports, controller: "muster.dev/devices", instance: "devices" });
  addClaimController(world, recorder);
  addTaintController(world, recorder);
  if (schedules) addClaimScheduler(world, recorder, given);
  return world;
}
