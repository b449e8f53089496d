import { binderPart } from "../control/bind/binderPart.ts";
import type { Part } from "../control/part.ts";

/** The same parts, with a binder that refuses shares of GPUs where they are switched off. */
export function withGpuSharing(parts: readonly Part[], isOn: boolean): Part[] {
  return parts.map((part) => (part.name === "binder" && !isOn ? binderPart({ gpuSharing: false }) : part));
}
