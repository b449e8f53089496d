/** What the allocator takes part in. The names are Kubernetes' own; what is alpha there is not here. */
export interface DeviceFeatures {
  readonly adminAccess: boolean;
  readonly prioritizedList: boolean;
  readonly partitionableDevices: boolean;
  readonly deviceTaints: boolean;
  /** Binding conditions, which need the status of devices. */
  readonly bindingConditions: boolean;
  readonly consumableCapacity: boolean;
  readonly fractionalCapacityRange: boolean;
  /** Extended resources that classes stand for are served by claims. */
  readonly extendedResource: boolean;
}

export const allFeatures: DeviceFeatures = {
  adminAccess: true,
  prioritizedList: true,
  partitionableDevices: true,
  deviceTaints: true,
  bindingConditions: true,
  consumableCapacity: true,
  fractionalCapacityRange: true,
  extendedResource: true,
};
