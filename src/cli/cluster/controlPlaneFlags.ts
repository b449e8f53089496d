import { prometheusQueries } from "../../adapters/prometheusQueries.ts";
import type { ControlPlaneOptions } from "../../control/assembly/controlPlane.ts";
import type { BinderFlags } from "../../decide/bind/binderSettings.ts";
import { binderSettingsOf } from "./binderSettings.ts";
import { parseFeatureGates } from "./featureGates.ts";
import { readGangConfig } from "./gangConfig.ts";

/** The flags about the components themselves, which `up` and `run` have in common. */
export interface ControlPlaneFlags extends BinderFlags {
  /** A Grove OperatorConfiguration. */
  readonly gangConfig?: string;
  /** Whether pods may ask for shares of GPUs. */
  readonly gpuSharing: boolean;
  /** Whether PodGroups have claims. */
  readonly groupClaims?: boolean;
  /** `Gate=true|false`, by Kubernetes' names. */
  readonly featureGates: readonly string[];
  /** Whether quotas of queues are held against each other. */
  readonly enableQuotaValidation?: boolean;
}

/** What the flags say, with a scheduler that does all it can and can ask a Prometheus about the past. */
export async function controlPlaneOptions(
  flags: ControlPlaneFlags,
  plainPods: { readonly placesPlainPods: boolean; readonly formsPlainGangs: boolean },
): Promise<ControlPlaneOptions> {
  const { gangConfig, gpuSharing, groupClaims = false, featureGates, enableQuotaValidation = false } = flags;
  return {
    scheduler: {
      ...plainPods,
      allocatesDevices: true,
      readsShards: true,
      checksQuotas: enableQuotaValidation,
      outside: { usageDatabase: prometheusQueries, environment: (name) => process.env[name] },
    },
    devices: { groupClaims, ...(featureGates.length > 0 && { features: parseFeatureGates(featureGates) }) },
    binder: { gpuSharing, settings: binderSettingsOf(flags) },
    ...(gangConfig !== undefined && { gang: await readGangConfig(gangConfig) }),
  };
}
