/** Feature gates of the allocator. The names are Kubernetes' own; alpha features are not implemented. */
export interface DeviceFeatures {
  readonly adminAccess: boolean;
  readonly prioritizedList: boolean;
  readonly partitionableDevices: boolean;
  readonly deviceTaints: boolean;
  /** Binding conditions, which need the status of devices. */
  readonly bindingConditions: boolean;
  readonly consumableCapacity: boolean;
  readonly fractionalCapacityRange: boolean;
  /** Extended resources of classes are served by claims. */
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
