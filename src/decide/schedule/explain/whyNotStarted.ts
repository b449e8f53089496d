/**
 * Why a pod that has its node does not run there, for causes that the scheduler does not know: the node reports them in
 * the status of containers and in Events.
 */
import type { ContainerStatus, CoreEvent, Pod } from "../../../model/kubernetes.generated.ts";

export interface NotStarted {
  readonly reason: string;
  readonly message: string;
  readonly cure: string;
}

/** What a container waits for in the course of every start. */
const usualWaits: ReadonlySet<string> = new Set(["", "ContainerCreating", "PodInitializing"]);

export function whyNotStarted(pod: Pod, events: readonly CoreEvent[]): NotStarted | undefined {
  const { metadata, spec, status } = pod;
  const node = spec?.nodeName ?? "";
  if (node === "" || metadata.deletionTimestamp !== undefined || status?.phase === "Succeeded") return undefined;
  const { namespace = "", name, uid } = metadata;
  const cure = `look at what ${node} reports: kubectl describe pod -n ${namespace} ${name}`;
  if (status?.phase === "Failed") {
    const { reason = "Failed", message = "its containers have ended" } = status;
    return { reason, message: `it ended on ${node}: ${message}`, cure };
  }
  const container = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].find(isStuck);
  if (container !== undefined) {
    const { reason = "", message = "" } = container.state?.waiting ?? {};
    const said = message === "" ? "" : `: ${message}`;
    return { reason, message: `container ${container.name} does not start on ${node}${said}`, cure };
  }
  if (status?.phase === "Running") return undefined;
  const warning = events
    .filter(({ type, involvedObject }) => type === "Warning" && involvedObject.uid === uid)
    .filter(({ source, reportingComponent }) => (source?.component || reportingComponent) === "kubelet")
    .sort((one, other) => timeOf(one) - timeOf(other))
    .at(-1);
  if (warning === undefined) return undefined;
  return { reason: warning.reason ?? "", message: `${node} cannot start it: ${warning.message ?? ""}`, cure };
}

function isStuck({ state }: ContainerStatus): boolean {
  return !usualWaits.has(state?.waiting?.reason ?? "");
}

function timeOf({ lastTimestamp, eventTime }: CoreEvent): number {
  return Date.parse(lastTimestamp ?? eventTime ?? "") || 0;
}
