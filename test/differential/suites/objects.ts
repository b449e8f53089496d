/** One object of every kind that both servers serve by default, in the namespace of the probe. */
import { type Sample, samples } from "../../validObjects.ts";
import { namespace } from "../probe.ts";

export interface Subject {
  readonly plural: string;
  /** Path of the collection. */
  readonly path: string;
  object(name: string): Record<string, unknown>;
}

const label = { probe: "yes" };
/** Served here by default, behind gates that are off in a real server. */
const gated = /^(podgroups|workloads|devicetaintrules)$/;

export function subjects(): Subject[] {
  return samples()
    .filter(({ type }) => !gated.test(type.plural) && !/alpha|beta/.test(type.version))
    .filter(({ type }) => type.kind !== "CustomResourceDefinition" && type.plural !== "bindings")
    .filter(({ type }) => !(type.group === "autoscaling" && type.version === "v1"))
    .map(subject);
}

function subject({ type, path, object }: Sample): Subject {
  const plural = type.plural === "events" && type.group !== "" ? "events.k8s.io" : type.plural;
  return {
    plural,
    path: path.replace("/namespaces/default/", `/namespaces/${namespace}/`),
    object: (name) => {
      const made = object(type.plural === "csidrivers" ? `${name}.example.com` : name);
      const metadata = { ...(made["metadata"] as object), labels: label, annotations: { "probe/x": "y" } };
      const rest = type.plural === "events" ? moved(made) : made;
      return { ...rest, metadata: type.plural === "events" ? { ...metadata, namespace } : metadata, ...idle(made) };
    },
  };
}

/** Events have to be in the namespace of what they are about. */
function moved(event: Record<string, unknown>): Record<string, unknown> {
  const about = (field: string) => (field in event ? { [field]: { ...(event[field] as object), namespace } } : {});
  return { ...event, ...about("involvedObject"), ...about("regarding") };
}

/** Without pods of their own: what controllers do in the meantime would differ. */
function idle(object: Record<string, unknown>): Record<string, unknown> {
  const spec = object["spec"] as object | undefined;
  switch (object["kind"]) {
    case "Deployment":
      return { spec: { ...spec, replicas: 0, paused: true } };
    case "ReplicaSet":
    case "ReplicationController":
    case "StatefulSet":
      return { spec: { ...spec, replicas: 0 } };
    case "Job":
    case "CronJob":
      return { spec: { ...spec, suspend: true } };
    default:
      return {};
  }
}
