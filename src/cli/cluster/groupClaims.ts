import type { Component } from "../../control/component.ts";
import { deviceCachesOf } from "../../control/devices/deviceCaches.ts";

/** The same components, where PodGroups have claims of their own if that is switched on. */
export function withGroupClaims(components: readonly Component[], isOn: boolean | undefined): Component[] {
  return components.map((component) => {
    if (component.name !== "devices" || isOn !== true) return component;
    return {
      ...component,
      add: (controllers) => {
        deviceCachesOf(controllers).useGroups();
        component.add(controllers);
      },
    };
  });
}
