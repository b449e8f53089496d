import type { ControlPlaneOptions } from "../../control/assembly/controlPlane.ts";
import {
  type BinderFlags,
  type BinderSettings,
  type ReadSettings,
  settingsOfConfig,
  settingsOfFlags,
} from "../../decide/bind/binderSettings.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { kaiConfigName, kaiConfigRef } from "../../model/scheduling/schedulingShard.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

export function binderSettingsOf(flags: BinderFlags): BinderSettings {
  return mustBeValid(settingsOfFlags(flags), "", "correct the flag; docs/binder.md lists the allowed values");
}

/**
 * The same options with the binder settings of the cluster's `kai-config`; flags take precedence. The Config is read
 * once at the start, as KAI's binder does.
 */
export async function withKaiConfig(
  options: ControlPlaneOptions,
  kube: Pick<KubeApi, "get">,
): Promise<ControlPlaneOptions> {
  const settings = { ...(await settingsInCluster(kube)), ...options.binder?.settings };
  return { ...options, binder: { ...options.binder, settings } };
}

async function settingsInCluster(kube: Pick<KubeApi, "get">): Promise<BinderSettings> {
  const found = await kube.get({ ...kaiConfigRef, namespace: "", name: kaiConfigName });
  if (found.ok) {
    const { spec } = found.value;
    const cure = `correct it with kubectl edit configs.kai.scheduler ${kaiConfigName}, on \`muster apiserver\` with the same --data-dir if it is that of \`muster up\``;
    return mustBeValid(settingsOfConfig(spec?.binder), `${kaiConfigName}: `, cure);
  }
  // Both the kind and the object are optional.
  if (found.reason === "NotFound") return {};
  throw new UserError(
    "kai-config-unreadable",
    `Config ${kaiConfigName} could not be read: ${found.message}`,
    "check that the API server is reachable and that the account may get configs.kai.scheduler (deploy/binder-clusterrole.yaml)",
    { cause: found },
  );
}

function mustBeValid({ settings, problems }: ReadSettings, where: string, cure: string): BinderSettings {
  if (problems.length === 0) return settings;
  throw new UserError("binder-setting-invalid", `${where}${problems.map(describeFieldError).join("; ")}`, cure);
}
