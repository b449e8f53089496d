import { allFeatures, type DeviceFeatures } from "../../decide/devices/search/features.ts";
import { UsageError } from "../../model/userError.ts";

/** The supported feature gates, by Kubernetes' names. */
const gates: Readonly<Record<string, keyof DeviceFeatures>> = {
  DRAAdminAccess: "adminAccess",
  DRAConsumableCapacity: "consumableCapacity",
  DRAExtendedResource: "extendedResource",
  DRAFractionalCapacityRange: "fractionalCapacityRange",
  DRAPartitionableDevices: "partitionableDevices",
  DRAPrioritizedList: "prioritizedList",
};

/** Reads `--feature-gates A=false,B=true`. */
export function parseFeatureGates(given: readonly string[]): DeviceFeatures {
  const features: Record<keyof DeviceFeatures, boolean> = { ...allFeatures };
  const known = Object.keys(gates).join(", ");
  for (const text of given.flatMap((each) => each.split(","))) {
    const [name = "", value = "", ...rest] = text.split("=").map((each) => each.trim());
    const feature = Object.hasOwn(gates, name) ? gates[name] : undefined;
    if (feature === undefined) {
      const problem = `there is no feature gate ${JSON.stringify(name)}`;
      throw new UsageError(
        "unknown-feature-gate",
        problem,
        `pass --feature-gates NAME=true|false with one of ${known}`,
      );
    }
    const isOn = { true: true, false: false }[value.toLowerCase()];
    if (isOn === undefined || rest.length > 0) {
      const given = text.includes("=") ? JSON.stringify(text.slice(text.indexOf("=") + 1)) : "without a value";
      const problem = `feature gate ${name} is ${given}, not true or false`;
      throw new UsageError("bad-feature-gate", problem, `pass --feature-gates ${name}=true or ${name}=false`);
    }
    features[feature] = isOn;
  }
  return features;
}
