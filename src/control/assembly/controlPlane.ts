import { allFeatures, type DeviceFeatures } from "../../decide/devices/search/features.ts";
import type { Settings } from "../../decide/schedule/settings.ts";
import type { GangSettings } from "../../model/gang/settings.ts";
import { schedulingHooks } from "../../model/scheduling/hooks.ts";
import { UsageError } from "../../model/userError.ts";
import { type BinderPartOptions, binderComponent } from "../bind/binderComponent.ts";
import { deviceCachesOf } from "../devices/deviceCaches.ts";
import { devicesComponent } from "../devices/devicesComponent.ts";
import { gangComponent } from "../gang/gangComponent.ts";
import type { Component } from "../runtime/component.ts";
import { scaleAdjusterComponent } from "../schedule/scaleAdjuster.ts";
import { schedulerComponent } from "../schedule/schedulerComponent.ts";
import type { ShardOptions } from "../schedule/shard.ts";
import { type WorkloadsOptions, workloadsComponent } from "../workloads/workloads.ts";

/** Options of a control plane. Every field defaults to that of its component. */
export interface ControlPlaneOptions {
  readonly scheduler?: Partial<Settings> & {
    /** Whether writes of queues are validated against the quotas of their parents and children. */
    readonly checksQuotas?: boolean;
    readonly outside?: ShardOptions;
  };
  readonly devices?: {
    /** Whether PodGroups have claims of their own (Kubernetes: DRAWorkloadResourceClaims, off). */
    readonly groupClaims?: boolean;
    readonly features?: DeviceFeatures;
  };
  readonly binder?: BinderPartOptions;
  readonly gang?: GangSettings;
  readonly workloads?: WorkloadsOptions;
}

/** The components, by name, as `muster up` and `muster run` start them. */
export interface ControlPlane {
  readonly workloads: Component;
  readonly scheduler: Component;
  readonly devices: Component;
  readonly binder: Component;
  readonly gang: Component;
  /** Only on request: it needs a cluster autoscaler. */
  readonly scaleAdjuster: Component;
}

/** Puts a control plane together. `up`, `run`, scenarios of the simulator and tests differ in the options alone. */
export function controlPlane(options: ControlPlaneOptions = {}): ControlPlane {
  const { checksQuotas = false, outside, ...settings } = options.scheduler ?? {};
  const { groupClaims = false, features = allFeatures } = options.devices ?? {};
  const scheduler = schedulerComponent(settings, outside);
  return {
    workloads: workloadsComponent(options.workloads),
    scheduler: withFeatures({ ...scheduler, hooks: schedulingHooks({ checksQuotas }) }, features),
    devices: devicesComponent({ groupClaims, features }),
    binder: binderComponent(options.binder),
    gang: gangComponent(options.gang),
    scaleAdjuster: scaleAdjusterComponent(),
  };
}

/** A scheduler that runs without the component `devices` reads claims by the same features. */
function withFeatures(component: Component, features: DeviceFeatures): Component {
  if (features === allFeatures) return component;
  return {
    ...component,
    add: (controllers) => {
      deviceCachesOf(controllers).useFeatures(features);
      component.add(controllers);
    },
  };
}

/** The components that `muster up` starts, in the order in which they are listed. */
export function usualComponents(plane: ControlPlane): Component[] {
  return [plane.workloads, plane.scheduler, plane.devices, plane.binder, plane.gang];
}

/** The components of these names, in their own order; an unknown name is refused. */
export function componentsNamed(names: readonly string[], known: readonly Component[]): Component[] {
  for (const name of names) {
    if (known.some((component) => component.name === name)) continue;
    const choice = known.map((component) => component.name).join(", ");
    throw new UsageError("controller-unknown", `unknown controller ${JSON.stringify(name)}`, `choose from: ${choice}`);
  }
  return known.filter(({ name }) => names.includes(name));
}
