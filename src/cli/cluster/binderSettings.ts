import { binderComponent } from "../../control/bind/binderComponent.ts";
import type { Component } from "../../control/component.ts";
import {
  type BinderFlags,
  type BinderSettings,
  type ReadSettings,
  settingsOfConfig,
  settingsOfFlags,
} from "../../decide/bind/binderSettings.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { type KaiConfig, kaiConfigName, kaiConfigRef } from "../../model/scheduling/schedulingShard.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

export function binderSettingsOf(flags: BinderFlags): BinderSettings {
  return mustMakeSense(settingsOfFlags(flags), "", "correct the flag; docs/binder.md lists what each may be");
}

/**
 * The same components, with a binder as flags and the cluster's `kai-config` say; flags win. The Config is read once, as KAI's binder has it from its start on.
 */
export async function withBinderSettings(
  components: readonly Component[],
  kube: Pick<KubeApi, "get">,
  { flags, gpuSharing }: { readonly flags: BinderSettings; readonly gpuSharing: boolean },
): Promise<Component[]> {
  if (!components.some(({ name }) => name === "binder")) return [...components];
  const settings = { ...(await settingsInCluster(kube)), ...flags };
  return components.map((component) =>
    component.name === "binder" ? binderComponent({ gpuSharing, settings }) : component,
  );
}

async function settingsInCluster(kube: Pick<KubeApi, "get">): Promise<BinderSettings> {
  const found = await kube.get({ ...kaiConfigRef, namespace: "", name: kaiConfigName });
  if (found.ok) {
    const { spec } = found.value as unknown as KaiConfig;
    const cure = `correct it with kubectl edit configs.kai.scheduler ${kaiConfigName}, on \`muster apiserver\` with the same --data-dir if it is that of \`muster up\``;
    return mustMakeSense(settingsOfConfig(spec?.binder), `${kaiConfigName}: `, cure);
  }
  // Neither the kind nor the object has to be there.
  if (found.reason === "NotFound") return {};
  throw new UserError(
    "kai-config-unreadable",
    `the Config ${kaiConfigName} cannot be read: ${found.message}`,
    "see that the API server answers, and that the account may get configs.kai.scheduler (deploy/binder-clusterrole.yaml)",
    { cause: found },
  );
}

function mustMakeSense({ settings, problems }: ReadSettings, where: string, cure: string): BinderSettings {
  if (problems.length === 0) return settings;
  throw new UserError("binder-setting-invalid", `${where}${problems.map(describeFieldError).join("; ")}`, cure);
}
