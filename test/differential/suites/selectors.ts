/** Which field selectors each kind knows. */
import type { Probe } from "../probe.ts";
import { subjects } from "./objects.ts";

const fields =
  `metadata.name metadata.namespace metadata.uid spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName
spec.hostNetwork status.phase status.podIP status.nominatedNodeName spec.unschedulable type reason source reportingComponent involvedObject.kind
involvedObject.name involvedObject.namespace involvedObject.uid regarding.name status.replicas status.successful spec.signerName spec.type
spec.clusterIP spec.driver spec.attacher name spec.parentRef.name`.split(/\s+/);
const queries = ["metadata.name%3Dzzz,metadata.name!%3Dyyy", "metadata.name", "%3D", "metadata.name%3D%3D%3Dx"];

export async function selectors(probe: Probe): Promise<void> {
  await probe.namespace();
  for (const { plural, path } of subjects()) {
    const all = [...fields.map((field) => `${field}%3Dzzz`), ...queries];
    await probe.all(all, (query) => probe.compare(`${plural}: ${query}`, "GET", `${path}?fieldSelector=${query}`));
  }
}
