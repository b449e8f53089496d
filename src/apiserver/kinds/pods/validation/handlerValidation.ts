/** Validation of probes and lifecycle hooks. */

import type { HTTPGetAction, Lifecycle, LifecycleHandler, Probe } from "../../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, notSupported, required } from "../../../../model/objects/fieldError.ts";
import { checkNonNegative, checkPortNumber } from "../../checks/fieldChecks.ts";
import { checkPortName } from "../../checks/nameChecks.ts";

const headerName = /^[-A-Za-z0-9]+$/;

export function checkProbe(
  probe: Probe | undefined,
  kind: "liveness" | "readiness" | "startup",
  path: string,
  errors: FieldError[],
): void {
  if (probe === undefined) return;
  checkHandler(probe, path, errors, undefined);
  checkNonNegative(probe.initialDelaySeconds, `${path}.initialDelaySeconds`, errors);
  checkNonNegative(probe.timeoutSeconds, `${path}.timeoutSeconds`, errors);
  checkNonNegative(probe.periodSeconds, `${path}.periodSeconds`, errors);
  checkNonNegative(probe.successThreshold, `${path}.successThreshold`, errors);
  checkNonNegative(probe.failureThreshold, `${path}.failureThreshold`, errors);
  const grace = probe.terminationGracePeriodSeconds;
  if (grace !== undefined && grace <= 0) {
    errors.push(invalid(`${path}.terminationGracePeriodSeconds`, grace, "must be greater than 0"));
  }
  if (kind === "readiness") {
    if (grace !== undefined) {
      errors.push(invalid(`${path}.terminationGracePeriodSeconds`, grace, "must not be set for readinessProbes"));
    }
  } else if (probe.successThreshold !== 1) {
    errors.push(invalid(`${path}.successThreshold`, probe.successThreshold ?? 0, "must be 1"));
  }
}

export function checkLifecycle(
  lifecycle: Lifecycle | undefined,
  graceSeconds: number | undefined,
  path: string,
  errors: FieldError[],
): void {
  if (lifecycle === undefined) return;
  if (lifecycle.postStart !== undefined) checkHandler(lifecycle.postStart, `${path}.postStart`, errors, graceSeconds);
  if (lifecycle.preStop !== undefined) checkHandler(lifecycle.preStop, `${path}.preStop`, errors, graceSeconds);
}

type Handler = Pick<Probe, "exec" | "httpGet" | "tcpSocket" | "grpc"> & Pick<LifecycleHandler, "sleep">;

function checkHandler(handler: Handler, path: string, errors: FieldError[], graceSeconds: number | undefined): void {
  let count = 0;
  const refuseSecond = (field: string): boolean => {
    count++;
    if (count === 1) return false;
    errors.push(forbidden(`${path}.${field}`, "may not specify more than 1 handler type"));
    return true;
  };
  if (handler.exec !== undefined && !refuseSecond("exec")) {
    if ((handler.exec.command ?? []).length === 0) errors.push(required(`${path}.exec.command`));
  }
  if (handler.httpGet !== undefined && !refuseSecond("httpGet"))
    checkHttpGet(handler.httpGet, `${path}.httpGet`, errors);
  if (handler.tcpSocket !== undefined && !refuseSecond("tcpSocket")) {
    checkPort(handler.tcpSocket.port, `${path}.tcpSocket.port`, errors);
  }
  if (handler.grpc !== undefined && !refuseSecond("grpc")) checkPort(handler.grpc.port, `${path}.grpc.port`, errors);
  if (handler.sleep !== undefined && !refuseSecond("sleep")) {
    const max = graceSeconds ?? 0;
    const seconds = handler.sleep.seconds ?? 0;
    if (seconds < 0 || seconds > max) {
      errors.push(
        invalid(`${path}.sleep`, seconds, `must be non-negative and less than terminationGracePeriodSeconds (${max})`),
      );
    }
  }
  if (count === 0) errors.push(required(path, "must specify a handler type"));
}

function checkHttpGet(action: HTTPGetAction, path: string, errors: FieldError[]): void {
  if (!action.path) errors.push(required(`${path}.path`));
  checkPort(action.port, `${path}.port`, errors);
  if (action.scheme !== "HTTP" && action.scheme !== "HTTPS") {
    errors.push(notSupported(`${path}.scheme`, action.scheme ?? "", ["HTTP", "HTTPS"]));
  }
  for (const header of action.httpHeaders ?? []) {
    if (!headerName.test(header.name)) {
      errors.push(
        invalid(
          `${path}.httpHeaders`,
          header.name,
          "a valid HTTP header must consist of alphanumeric characters or '-'",
        ),
      );
    }
  }
}

export function checkPort(port: number | string | undefined, path: string, errors: FieldError[]): void {
  if (typeof port === "string") checkPortName(port, path, errors);
  else checkPortNumber(port ?? 0, path, errors);
}
