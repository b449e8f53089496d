import { prometheusQueries } from "../../adapters/prometheusQueries.ts";
import type { ControlPlaneOptions } from "../../control/assembly/controlPlane.ts";
import type { BinderPartOptions } from "../../control/bind/binderComponent.ts";
import type { BinderFlags } from "../../decide/bind/binderSettings.ts";
import { type PullPolicy, reservationDefaults } from "../../decide/bind/reservation.ts";
import { defaultGangSettings, type GangSettings } from "../../model/gang/settings.ts";
import { binderSettingsOf } from "./binderSettings.ts";
import { parseFeatureGates } from "./featureGates.ts";
import { readGangConfig } from "./gangConfig.ts";

/** The flags of the components, which `up` and `run` share. */
export interface ControlPlaneFlags extends BinderFlags {
  /** Muster's own image, for the programs that run in pods. */
  readonly image?: string;
  readonly imagePullPolicy?: string;
  /** A Grove OperatorConfiguration. */
  readonly gangConfig?: string;
  /** Whether pods may request fractions of GPUs. */
  readonly gpuSharing: boolean;
  /** Whether PodGroups have claims. */
  readonly groupClaims?: boolean;
  /** `Gate=true|false`, by Kubernetes' names. */
  readonly featureGates: readonly string[];
  /** Whether the quota of a queue is compared with that of its parent. */
  readonly enableQuotaValidation?: boolean;
}

interface PlainPods {
  readonly placesPlainPods: boolean;
  readonly formsPlainGangs: boolean;
  /** Whether this process runs simulated nodes. */
  readonly hasSimulatedNodes: boolean;
}

/** The options for these flags. The scheduler has all its features, and can query a Prometheus for past usage. */
export async function controlPlaneOptions(
  flags: ControlPlaneFlags,
  { hasSimulatedNodes, ...plainPods }: PlainPods,
): Promise<ControlPlaneOptions> {
  const { image, gangConfig, gpuSharing, groupClaims = false, featureGates, enableQuotaValidation = false } = flags;
  return {
    scheduler: {
      ...plainPods,
      allocatesDevices: true,
      readsShards: true,
      checksQuotas: enableQuotaValidation,
      outside: { usageDatabase: prometheusQueries, environment: (name) => process.env[name] },
    },
    devices: { groupClaims, ...(featureGates.length > 0 && { features: parseFeatureGates(featureGates) }) },
    binder: {
      gpuSharing,
      settings: binderSettingsOf(flags),
      ...ownReservation(flags),
      // Where another scheduler places plain pods, it also allocates their claims.
      ...(plainPods.placesPlainPods ? {} : { servedSchedulers: new Set(["kai-scheduler"]) }),
    },
    ...(gangConfig !== undefined || image !== undefined
      ? { gang: gangSettings(await gangConfigured(gangConfig), flags, hasSimulatedNodes) }
      : {}),
  };
}

/** The reservation's image and pull policy; `kai-config` and the flags of reservations override them. */
function ownReservation({ image, imagePullPolicy }: ControlPlaneFlags): Pick<BinderPartOptions, "reservation"> {
  if (image === undefined) return {};
  const pullPolicy = (imagePullPolicy ?? reservationDefaults.pullPolicy) as PullPolicy;
  return { reservation: { ...reservationDefaults, image, pullPolicy } };
}

async function gangConfigured(file: string | undefined): Promise<GangSettings> {
  return file === undefined ? defaultGangSettings : readGangConfig(file);
}

/** An image in the configuration takes precedence over the flag. */
function gangSettings(settings: GangSettings, flags: ControlPlaneFlags, hasSimulatedNodes: boolean): GangSettings {
  const { image, imagePullPolicy: pullPolicy } = flags;
  if (image === undefined || settings.startOrder.by === "container") return settings;
  const policy = pullPolicy === undefined ? {} : { pullPolicy };
  return { ...settings, startOrder: { by: "container", image, ...policy, simulatedNodes: hasSimulatedNodes } };
}
