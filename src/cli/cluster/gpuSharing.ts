import { binderComponent } from "../../control/bind/binderComponent.ts";
import type { Component } from "../../control/component.ts";

/** The same components, with a binder that refuses shares of GPUs where they are switched off. */
export function withGpuSharing(components: readonly Component[], isOn: boolean): Component[] {
  return components.map((component) =>
    component.name === "binder" && !isOn ? binderComponent({ gpuSharing: false }) : component,
  );
}
