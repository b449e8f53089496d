/** KWOK's Stage as a CustomResourceDefinition, so that stage sets written for KWOK can be applied as they are. */

const text = { type: "string" } as const;
const expression = (more: object = {}) => ({
  type: "object",
  properties: {
    cel: { type: "object", properties: { expression: text } },
    jq: { type: "object", properties: { expression: text } },
    expressionFrom: text,
    ...more,
  },
});
const millis = { type: "integer", format: "int64", minimum: 0 } as const;
const texts = { type: "object", additionalProperties: text } as const;
const operator = { type: "string", enum: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const values = { type: "array", items: text } as const;
const impersonation = { type: "object", properties: { username: text }, required: ["username"] } as const;
const event = {
  type: "object",
  properties: { type: text, reason: text, message: text },
} as const;
const finalizerItems = {
  type: "array",
  items: { type: "object", properties: { value: text } },
} as const;
const finalizers = {
  type: "object",
  properties: { add: finalizerItems, remove: finalizerItems, empty: { type: "boolean" } },
} as const;
const patch = {
  type: "object",
  properties: {
    subresource: text,
    root: text,
    template: text,
    type: { type: "string", enum: ["json", "merge", "strategic"] },
    impersonation,
  },
} as const;
const apply = {
  type: "object",
  properties: {
    subresource: text,
    template: text,
    type: { type: "string", enum: ["apply", "merge", "strategic"] },
    impersonation,
  },
} as const;

const selector = {
  type: "object",
  properties: {
    matchLabels: texts,
    matchAnnotations: texts,
    matchExpressions: {
      type: "array",
      items: {
        type: "object",
        properties: {
          cel: { type: "object", properties: { expression: text } },
          jq: { type: "object", properties: { key: text, operator, values } },
          key: text,
          operator,
          values,
        },
      },
    },
  },
} as const;

const spec = {
  type: "object",
  required: ["resourceRef"],
  properties: {
    resourceRef: {
      type: "object",
      required: ["kind"],
      properties: { apiGroup: { ...text, default: "v1" }, kind: text },
    },
    selector,
    weight: { type: "integer", minimum: 0, default: 0 },
    weightFrom: expression(),
    delay: {
      type: "object",
      properties: {
        durationMilliseconds: millis,
        durationFrom: expression(),
        jitterDurationMilliseconds: millis,
        jitterDurationFrom: expression(),
      },
    },
    steps: {
      type: "array",
      items: { type: "object", properties: { event, finalizers, delete: { type: "boolean" }, patch, apply } },
    },
    next: {
      type: "object",
      properties: {
        event,
        finalizers,
        delete: { type: "boolean" },
        patches: { type: "array", items: patch },
        statusTemplate: text,
        statusSubresource: { ...text, default: "status" },
        statusPatchAs: impersonation,
      },
    },
    immediateNextStage: { type: "boolean" },
  },
} as const;

export const stageDefinition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "stages.kwok.x-k8s.io" },
  spec: {
    group: "kwok.x-k8s.io",
    names: { kind: "Stage", listKind: "StageList", plural: "stages", singular: "stage" },
    scope: "Cluster",
    versions: [
      {
        name: "v1alpha1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: "object",
            required: ["spec"],
            properties: {
              apiVersion: text,
              kind: text,
              metadata: { type: "object" },
              spec,
              status: {
                type: "object",
                properties: {
                  conditions: {
                    type: "array",
                    items: {
                      type: "object",
                      required: ["lastTransitionTime", "reason", "status", "type"],
                      properties: {
                        type: text,
                        status: { type: "string", enum: ["True", "False", "Unknown"] },
                        reason: text,
                        message: text,
                        lastTransitionTime: { type: "string", format: "date-time" },
                      },
                    },
                  },
                },
              },
            },
          },
        },
        subresources: { status: {} },
      },
    ],
  },
} as const;
