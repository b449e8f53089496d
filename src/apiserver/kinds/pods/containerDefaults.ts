import type { Container, EphemeralContainer, HTTPGetAction, Probe } from "../../../model/kubernetes.generated.ts";
import { imagePullPolicyOf } from "./imagePullPolicy.ts";

export function setContainerDefaults(container: Container | EphemeralContainer): void {
  container.imagePullPolicy ||= imagePullPolicyOf(container.image ?? "");
  container.terminationMessagePath ||= "/dev/termination-log";
  container.terminationMessagePolicy ||= "File";
  container.resources ??= {};
  if (container.ports !== undefined) for (const port of container.ports) port.protocol ||= "TCP";
  if (container.env !== undefined) {
    for (const variable of container.env) {
      const fieldRef = variable.valueFrom?.fieldRef;
      if (fieldRef !== undefined) fieldRef.apiVersion ||= "v1";
      const resourceRef = variable.valueFrom?.resourceFieldRef;
      if (resourceRef !== undefined) resourceRef.divisor ??= "0";
    }
  }
  if (container.livenessProbe !== undefined) setProbeDefaults(container.livenessProbe);
  if (container.readinessProbe !== undefined) setProbeDefaults(container.readinessProbe);
  if (container.startupProbe !== undefined) setProbeDefaults(container.startupProbe);
  if (container.lifecycle !== undefined) {
    setHttpDefaults(container.lifecycle.postStart?.httpGet);
    setHttpDefaults(container.lifecycle.preStop?.httpGet);
  }
}

function setProbeDefaults(probe: Probe): void {
  probe.timeoutSeconds ||= 1;
  probe.periodSeconds ||= 10;
  probe.successThreshold ||= 1;
  probe.failureThreshold ||= 3;
  setHttpDefaults(probe.httpGet);
  if (probe.grpc !== undefined) probe.grpc.service ??= "";
}

function setHttpDefaults(action: HTTPGetAction | undefined): void {
  if (action === undefined) return;
  action.path ||= "/";
  action.scheme ||= "HTTP";
}
