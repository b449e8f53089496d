import { prometheusQueries } from "../../adapters/prometheusQueries.ts";
import type { ControlPlaneOptions } from "../../control/assembly/controlPlane.ts";
import type { BinderPartOptions } from "../../control/bind/binderComponent.ts";
import type { BinderFlags } from "../../decide/bind/binderSettings.ts";
import { type PullPolicy, reservationDefaults } from "../../decide/bind/reservation.ts";
import { defaultGangSettings, type GangSettings } from "../../model/gang/settings.ts";
import { binderSettingsOf } from "./binderSettings.ts";
import { parseFeatureGates } from "./featureGates.ts";
import { readGangConfig } from "./gangConfig.ts";

/** The flags about the components themselves, which `up` and `run` have in common. */
export interface ControlPlaneFlags extends BinderFlags {
  /** Muster's own image, for the programs that run in pods. */
  readonly image?: string;
  readonly imagePullPolicy?: string;
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

interface PlainPods {
  readonly placesPlainPods: boolean;
  readonly formsPlainGangs: boolean;
  /** Whether this process plays nodes itself. */
  readonly hasSimulatedNodes: boolean;
}

/** What the flags say, with a scheduler that does all it can and can ask a Prometheus about the past. */
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
      // A cluster with a scheduler of its own for plain pods has one that allocates their claims, too.
      ...(plainPods.placesPlainPods ? {} : { servedSchedulers: new Set(["kai-scheduler"]) }),
    },
    ...(gangConfig !== undefined || image !== undefined
      ? { gang: gangSettings(await gangConfigured(gangConfig), flags, hasSimulatedNodes) }
      : {}),
  };
}

/** Under what `kai-config` and the flags about reservations say. */
function ownReservation({ image, imagePullPolicy }: ControlPlaneFlags): Pick<BinderPartOptions, "reservation"> {
  if (image === undefined) return {};
  const pullPolicy = (imagePullPolicy ?? reservationDefaults.pullPolicy) as PullPolicy;
  return { reservation: { ...reservationDefaults, image, pullPolicy } };
}

async function gangConfigured(file: string | undefined): Promise<GangSettings> {
  return file === undefined ? defaultGangSettings : readGangConfig(file);
}

/** An image that the configuration names wins. */
function gangSettings(settings: GangSettings, flags: ControlPlaneFlags, hasSimulatedNodes: boolean): GangSettings {
  const { image, imagePullPolicy: pullPolicy } = flags;
  if (image === undefined || settings.startOrder.by === "container") return settings;
  const policy = pullPolicy === undefined ? {} : { pullPolicy };
  return { ...settings, startOrder: { by: "container", image, ...policy, simulatedNodes: hasSimulatedNodes } };
}
