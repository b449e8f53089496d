import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { UsageError } from "../../model/userError.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { applyInstallation } from "./installApply.ts";
import { yamlOf } from "./installChart.ts";
import { manifestsOf } from "./installManifests.ts";
import { readValues } from "./installValues.ts";

export interface InstallFlags extends ClusterFlags {
  readonly print?: boolean;
  readonly namespace: string;
  readonly image?: string;
  readonly values?: string;
  readonly output: "text" | "json";
}

/** `muster install`: the objects of the chart without Helm, as YAML or in the cluster. */
export async function runInstall(flags: InstallFlags): Promise<void> {
  const values = await readValues(flags.values, flags.image === undefined ? {} : { image: imageOf(flags.image) });
  const objects = manifestsOf(values, namespaceOf(flags.namespace));
  if (flags.print === true) {
    const list = { apiVersion: "v1", kind: "List", items: objects };
    const text = flags.output === "json" ? `${JSON.stringify(list)}\n` : objects.map(yamlOf).join("---\n");
    process.stdout.write(text);
    return;
  }
  const log = pinoLog({ level: "error" });
  const connection = await findCluster(flags);
  const kube = kubeHttp(connection, { clock: systemClock(), log }, { fieldManager: "muster-install" });
  try {
    const installed = await applyInstallation(kube, objects);
    if (flags.output === "json") {
      process.stdout.write(`${JSON.stringify({ api: connection.server, namespace: flags.namespace, ...installed })}\n`);
      return;
    }
    const { created, changed, unchanged, left, removed } = installed;
    for (const name of created) process.stdout.write(`created  ${name}\n`);
    for (const name of changed) process.stdout.write(`changed  ${name}\n`);
    for (const name of removed) process.stdout.write(`removed  ${name}\n`);
    for (const name of left) process.stdout.write(`kept     ${name}: it was not created by muster install\n`);
    const counts = `${created.length} created, ${changed.length} changed, ${unchanged.length} unchanged`;
    process.stdout.write(`installed on ${connection.server}: ${counts}\n`);
    process.stdout.write(`next: kubectl -n ${flags.namespace} rollout status deployment/muster\n`);
  } finally {
    kube.close();
  }
}

function imageOf(image: string): { repository: string; tag: string } {
  const [, repository, tag] = /^(.+?)(?::([\w][\w.-]{0,127}))?$/.exec(image) ?? [];
  if (repository === undefined || tag === undefined) {
    const problem = `${JSON.stringify(image)} is not an image with a tag`;
    throw new UsageError("image-malformed", problem, "write it as registry/name:version");
  }
  return { repository, tag };
}

export function namespaceOf(namespace: string): string {
  if (/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(namespace)) return namespace;
  const problem = `${JSON.stringify(namespace)} is not a valid namespace name`;
  throw new UsageError(
    "namespace-malformed",
    problem,
    "use lower-case letters, digits and dashes, such as muster-system",
  );
}
