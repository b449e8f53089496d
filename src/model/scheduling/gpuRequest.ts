import type { Pod } from "../kubernetes.generated.ts";
import { annotationKeys } from "./keys.ts";

/** The GPU request of a pod: whole GPUs, or a share by fraction or by memory. */
export type GpuRequest =
  | { readonly type: "none" }
  | { readonly type: "whole"; readonly devices: number }
  | { readonly type: "fraction"; readonly devices: number; readonly shareMilli: number }
  | { readonly type: "memory"; readonly devices: number; readonly memoryMiB: number };

/** The GPU request, or why the annotations are invalid. */
export type ReadGpuRequest = { readonly gpu: GpuRequest } | { readonly problem: string };

const none: GpuRequest = { type: "none" };
const whole = /^[0-9]+$/;
/** The syntax of a GPU fraction. */
export const decimalNumber = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;

/** Admission refuses most invalid requests; a pod that was created before admission was installed is explained here. */
export function readGpuRequest(pod: Pod, wholeDevices: number): ReadGpuRequest {
  const annotations = pod.metadata.annotations ?? {};
  const fraction = annotations[annotationKeys.gpuFraction];
  const memory = annotations[annotationKeys.gpuMemory];
  if (fraction === undefined && memory === undefined) {
    return { gpu: wholeDevices > 0 ? { type: "whole", devices: wholeDevices } : none };
  }
  if (fraction !== undefined && memory !== undefined) {
    return { problem: `both ${annotationKeys.gpuFraction} and ${annotationKeys.gpuMemory} are set` };
  }
  if (wholeDevices > 0) return { problem: "it requests whole GPUs and a GPU share" };
  const devicesText = annotations[annotationKeys.gpuFractionDevices] ?? "1";
  const devices = whole.test(devicesText) ? Number(devicesText) : 0;
  if (devices < 1 || devices > 1024) {
    return {
      problem: `${annotationKeys.gpuFractionDevices} is ${JSON.stringify(devicesText)}, not a number of devices`,
    };
  }
  if (memory !== undefined) {
    const memoryMiB = whole.test(memory) ? Number(memory) : 0;
    if (memoryMiB < 1 || !Number.isSafeInteger(memoryMiB)) {
      return { problem: `${annotationKeys.gpuMemory} is ${JSON.stringify(memory)}, not a number of MiB` };
    }
    return { gpu: { type: "memory", devices, memoryMiB } };
  }
  const share = fraction !== undefined && decimalNumber.test(fraction) ? Number(fraction) : Number.NaN;
  if (!(share > 0 && share < 1)) {
    return { problem: `${annotationKeys.gpuFraction} is ${JSON.stringify(fraction)}, not between 0 and 1` };
  }
  return { gpu: { type: "fraction", devices, shareMilli: Math.max(1, Math.round(share * 1000)) } };
}

/** The memory of the share on one device; shares are placed by memory. */
export function shareMemoryMiB(gpu: GpuRequest, deviceMemoryMiB: number): number {
  if (gpu.type === "memory") return gpu.memoryMiB;
  return gpu.type === "fraction" ? Math.floor((gpu.shareMilli * deviceMemoryMiB) / 1000) : deviceMemoryMiB;
}

/** The request in thousandths of GPUs of a device with this much memory. Memory is rounded up to hundredths. */
export function gpuMilliOf(gpu: GpuRequest, deviceMemoryMiB: number): number {
  switch (gpu.type) {
    case "none":
      return 0;
    case "whole":
      return gpu.devices * 1000;
    case "fraction":
      return gpu.devices * gpu.shareMilli;
    case "memory":
      return gpu.devices * memoryShareMilli(gpu.memoryMiB, deviceMemoryMiB);
  }
}

function memoryShareMilli(memoryMiB: number, deviceMemoryMiB: number): number {
  if (deviceMemoryMiB <= 0) return 1000;
  return Math.ceil((memoryMiB * 100) / deviceMemoryMiB) * 10;
}

export function isShared(gpu: GpuRequest): boolean {
  return gpu.type === "fraction" || gpu.type === "memory";
}

/** `0.50`: the share of each device as the binder and the pod's environment have it. */
export function portionText(gpu: GpuRequest, deviceMemoryMiB: number): string {
  if (!isShared(gpu) || gpu.type === "none" || gpu.type === "whole") return "";
  const milli = gpu.type === "fraction" ? gpu.shareMilli : memoryShareMilli(gpu.memoryMiB, deviceMemoryMiB);
  return (milli / 1000).toFixed(2);
}
