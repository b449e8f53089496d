/** Objects with a name and what is required: what defaults and admission fill in. */
import type { Loose } from "../apiUnderTest.ts";
import { type Probe, patchTypes } from "../probe.ts";
import { subjects } from "./objects.ts";

/** Given out by chance. */
const ignore = /managedFields|clusterIP|kube-api-access/;

export async function minimal(probe: Probe): Promise<void> {
  await probe.namespace();
  for (const { plural, path, object } of subjects()) {
    const { metadata, ...rest }: Loose = object("min");
    const { name } = metadata;
    const at = `${path}?dryRun=All`;
    await probe.compare(`${plural}: minimal`, "POST", at, { ...rest, metadata: { name } }, { ignore });
    await probe.compare(
      `${plural}: by apply`,
      "PATCH",
      `${path}/${name}?dryRun=All&fieldManager=x`,
      { ...rest, metadata: { name } },
      { ignore, headers: patchTypes.apply },
    );
    await probe.compare(`${plural}: only a name`, "POST", at, { metadata: { name } }, { ignore });
    await probe.compare(`${plural}: spec empty`, "POST", at, { metadata: { name }, spec: {} }, { ignore });
    const empty = { name, labels: {}, annotations: {}, finalizers: [], ownerReferences: [] };
    await probe.compare(`${plural}: empty metadata`, "POST", at, { ...rest, metadata: empty }, { ignore });
  }
}
