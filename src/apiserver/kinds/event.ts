import type { CoreEvent } from "../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required, tooLong } from "../../model/objects/fieldError.ts";
import type { Conversion } from "../builtinResource.ts";
import { coreFromEvents, eventsFromCore } from "../events/convertEvent.ts";
import { utf8Bytes } from "./checks/contentSize.ts";
import { checkImmutable } from "./checks/fieldChecks.ts";
import { checkDnsLabel, checkQualifiedName } from "./checks/nameChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";
import { inStoredShape } from "./storedShape.ts";

const coreStrategy = strategyOfKind<CoreEvent>({
  name: "pathSegment",
  generation: "none",
  createOnUpdate: true,
  validate: (event) => eventErrors(event),
  validateUpdate(next, old) {
    const errors = eventErrors(next);
    // In an events.k8s.io/v1 event, eventTime is set, and only the series may change.
    if (old.eventTime) {
      for (const field of ["involvedObject", "reason", "eventTime", "action", "type"] as const) {
        checkImmutable(next[field], old[field], field, errors);
      }
    }
    return errors;
  },
  selectFields(event) {
    const object = event.involvedObject ?? {};
    return [
      object.kind ?? "",
      object.namespace ?? "",
      object.name ?? "",
      object.uid ?? "",
      object.apiVersion ?? "",
      object.resourceVersion ?? "",
      object.fieldPath ?? "",
      event.reason ?? "",
      event.reportingComponent ?? "",
      event.source?.component || event.reportingComponent || "",
      event.type ?? "",
    ];
  },
});

export const eventConversion: Conversion = { toStorage: coreFromEvents, fromStorage: eventsFromCore };

/** Both event groups are stored in the core shape. */
export const eventStrategy = inStoredShape(coreStrategy, { "events.k8s.io/v1": eventConversion });

function eventErrors(event: CoreEvent): FieldError[] {
  const errors: FieldError[] = [];
  const objectNamespace = event.involvedObject?.namespace ?? "";
  const { namespace } = event.metadata;
  if (objectNamespace === "") {
    // Events about cluster-scoped objects live in the default namespace; kubelets also use kube-system.
    if (namespace !== "default" && namespace !== "kube-system") {
      errors.push(invalid("involvedObject.namespace", objectNamespace, "does not match event.namespace"));
    }
  } else if (objectNamespace !== namespace) {
    errors.push(invalid("involvedObject.namespace", objectNamespace, "does not match event.namespace"));
  }
  if (namespace !== undefined) checkDnsLabel(namespace, "namespace", errors);
  if (!event.eventTime) return errors;

  if (!event.reportingComponent) errors.push(required("reportingController"));
  else checkQualifiedName(event.reportingComponent, "reportingController", errors);
  if (!event.reportingInstance) errors.push(required("reportingInstance"));
  else if (utf8Bytes(event.reportingInstance) > 128) errors.push(tooLong("reportingInstance", 128));
  if (!event.action) errors.push(required("action"));
  else if (utf8Bytes(event.action) > 128) errors.push(tooLong("action", 128));
  if (!event.reason) errors.push(required("reason"));
  else if (utf8Bytes(event.reason) > 128) errors.push(tooLong("reason", 128));
  checkSeries(event, errors);
  if (utf8Bytes(event.message ?? "") > 1024) errors.push(tooLong("message", 1024));
  if (event.type !== "Normal" && event.type !== "Warning") {
    errors.push(invalid("type", event.type ?? "", "has invalid value: "));
  }
  return errors;
}

/** With eventTime set the deprecated fields must be empty, and a series has a count of at least two. */
function checkSeries(event: CoreEvent, errors: FieldError[]): void {
  const { series } = event;
  if (series !== undefined) {
    if ((series.count ?? 0) < 2) errors.push(invalid("series.count", "", "should be at least 2"));
    if (!series.lastObservedTime) errors.push(required("series.lastObservedTime"));
  }
  for (const field of ["firstTimestamp", "lastTimestamp"] as const) {
    if (event[field]) errors.push(invalid(field, "", "needs to be unset"));
  }
  if (event.count) errors.push(invalid("count", "", "needs to be unset"));
  const { component, host } = event.source ?? {};
  if (component || host) errors.push(invalid("source", "", "needs to be unset"));
}
