import { deviceWorldOf } from "../control/devices/deviceWorld.ts";
import type { Part } from "../control/part.ts";

/** The same parts, where PodGroups have claims of their own if that is switched on. */
export function withGroupClaims(parts: readonly Part[], isOn: boolean | undefined): Part[] {
  return parts.map((part) => {
    if (part.name !== "devices" || isOn !== true) return part;
    return {
      ...part,
      add: (controllers) => {
        deviceWorldOf(controllers).useGroups();
        part.add(controllers);
      },
    };
  });
}
