/**
 * GPU groups belong to the binder. A pod that carries the label of a group counts as a user of its GPU, so the label is
 * not a tenant's to set: a share enters the group that its BindRequest names, and stays there.
 *
 * The rule needs no identity of the binder, which differs from cluster to cluster: the binder never creates a pod
 * outside its own namespace, and changes marks only while the pod has no node.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import { describeFieldError, type FieldError, forbidden } from "../../model/objects/fieldError.ts";
import { annotationKeys, labelKeys, reservationNamespace } from "../../model/scheduling/keys.ts";
import { releasedAnnotation } from "./judgeGroup.ts";
import { enforcedAnnotation } from "./mpsLimits.ts";
import { releasesAnnotation } from "./releasePod.ts";
import { devicesAnnotation, podsRef } from "./reservation.ts";

/** Annotations that the binder writes on a pod with a share. */
export const binderAnnotations = [
  devicesAnnotation,
  releasedAnnotation,
  releasesAnnotation,
  enforcedAnnotation,
  annotationKeys.receivedResourceType,
] as const;

/** What decides how much of a GPU a bound pod holds. */
const sizeAnnotations = [
  annotationKeys.gpuFraction,
  annotationKeys.gpuMemory,
  annotationKeys.gpuFractionDevices,
] as const;

const isGroupLabel = (key: string): boolean => key === labelKeys.gpuGroup || key.startsWith(labelKeys.gpuGroupPrefix);

const isGroupKey = `(k == "${labelKeys.gpuGroup}" || k.startsWith("${labelKeys.gpuGroupPrefix}"))`;
const marks = JSON.stringify([...binderAnnotations, ...sizeAnnotations]);
const labelsOf = (which: string): string => `${which}.metadata.?labels.orValue({})`;
const annotationsOf = (which: string): string => `${which}.metadata.?annotations.orValue({})`;
/** Whether a key of one map is missing in another, or has another value there. */
const differs = (map: string, other: string): string => `(k in ${map}) && !(k in ${other} && ${map}[k] == ${other}[k])`;
const either = (condition: (map: string, other: string) => string, of: (which: string) => string): string =>
  `(${condition(of("object"), of("oldObject"))} || ${condition(of("oldObject"), of("object"))})`;

const createsMarks = `(${labelsOf("object")}.exists(k, ${isGroupKey}) || ${marks}.exists(k, k in ${annotationsOf("object")}))`;
const changesMarks = [
  either((map, other) => `${map}.exists(k, ${isGroupKey} && ${differs(map, other)})`, labelsOf),
  either((map, other) => `${marks}.exists(k, ${differs(map, other)})`, annotationsOf),
].join(" || ");

export const groupHook: AdmissionHook<Pod> = {
  name: "groups.validate.bind.muster.dev",
  type: "validating",
  resource: podsRef,
  operations: ["CREATE", "UPDATE"],
  // An update that leaves the marks alone is not sent: while Muster is away labels can be written and pods deleted.
  prefilter: {
    expression: `oldObject == null ? ${createsMarks} : oldObject.spec.?nodeName.orValue("") != "" && (${changesMarks})`,
  },
  review({ object, oldObject, namespace }) {
    if (object === undefined || namespace === reservationNamespace) return { allowed: true };
    const errors = oldObject === undefined ? createErrors(object) : updateErrors(object, oldObject);
    if (errors.length === 0) return { allowed: true };
    return { allowed: false, message: errors.map(describeFieldError).join(", "), errors };
  },
};

function createErrors({ metadata, spec }: Pod): FieldError[] {
  const { labels = {}, annotations = {} } = metadata;
  const byBinder = "is set by the binder; leave it out";
  const errors = [
    ...Object.keys(labels)
      .filter(isGroupLabel)
      .map((key) => forbidden(`metadata.labels[${key}]`, byBinder)),
    ...binderAnnotations
      .filter((key) => annotations[key] !== undefined)
      .map((key) => forbidden(`metadata.annotations[${key}]`, byBinder)),
  ];
  const share = sizeAnnotations.find((key) => annotations[key] !== undefined);
  if (share !== undefined && (spec?.nodeName ?? "") !== "") {
    const how = "leave it to the scheduler, and name the node by a nodeSelector or by affinity";
    errors.push(forbidden("spec.nodeName", `may not be set beside ${share}: ${how}`));
  }
  return errors;
}

/** What a pod on a node holds of GPUs does not change. */
function updateErrors(pod: Pod, old: Pod): FieldError[] {
  if ((old.spec?.nodeName ?? "") === "") return [];
  const [labels, before] = [pod.metadata.labels ?? {}, old.metadata.labels ?? {}];
  const [annotations, previous] = [pod.metadata.annotations ?? {}, old.metadata.annotations ?? {}];
  const onNode = "may not change while the pod has a node; create another pod";
  const labelled = new Set([...Object.keys(labels), ...Object.keys(before)].filter(isGroupLabel));
  return [
    ...[...labelled]
      .filter((key) => labels[key] !== before[key])
      .map((key) => forbidden(`metadata.labels[${key}]`, onNode)),
    ...[...binderAnnotations, ...sizeAnnotations]
      .filter((key) => annotations[key] !== previous[key])
      .map((key) => forbidden(`metadata.annotations[${key}]`, onNode)),
  ];
}
