import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { copyJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { WriteContext } from "../strategy.ts";
import { crdStatus } from "./crdNames.ts";
import { crdErrors, crdStrategy, setCrdDefaults } from "./validateCrd.ts";

const nowMs = Date.UTC(2026, 0, 1);

function crd(change: (crd: CustomResourceDefinition) => void = () => {}): CustomResourceDefinition {
  const base = partly<CustomResourceDefinition>({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "widgets", kind: "Widget" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec: {
                  type: "object",
                  properties: { color: { type: "string" }, list: { type: "array", items: { type: "string" } } },
                },
              },
            },
          },
        },
      ],
    },
  });
  setCrdDefaults(base);
  change(base);
  return base;
}

function context(others: CustomResourceDefinition[] = []): WriteContext {
  return {
    nowMs,
    user: { username: "u", groups: [] },
    subresource: "",
    dryRun: false,
    get: () => undefined,
    list: () => others,
    warn: () => {},
    randomBelow: () => 0,
  };
}

const v1 = (object: CustomResourceDefinition) => object.spec.versions[0]!;

test("defaults name the singular, the list and the conversion", () => {
  const { spec } = crd();
  expect(spec.names).toEqual({ plural: "widgets", kind: "Widget", singular: "widget", listKind: "WidgetList" });
  expect(spec.conversion).toEqual({ strategy: "None" });
  expect(crdErrors(crd(), undefined)).toEqual([]);
});

describe("a definition is refused", () => {
  test.each<[string, (object: CustomResourceDefinition) => void, RegExp]>([
    [
      "whose name is not plural and group",
      (c) => {
        c.metadata.name = "x";
      },
      /^metadata.name: Invalid value: "x": must be spec.names.plural\+"."\+spec.group$/,
    ],
    [
      "without a group",
      (c) => {
        c.spec.group = "";
        c.metadata.name = "widgets.";
      },
      /^spec.group: Required value$/,
    ],
    [
      "whose group has no dot",
      (c) => {
        c.spec.group = "x";
        c.metadata.name = "widgets.x";
      },
      /^spec.group: Invalid value: "x": should be a domain with at least one dot$/,
    ],
    [
      "with an unknown scope",
      (c) => {
        c.spec.scope = "World";
      },
      /^spec.scope: Unsupported value: "World"/,
    ],
    [
      "without a storage version",
      (c) => {
        v1(c).storage = false;
      },
      /^spec.versions: Invalid value: .*must have exactly one version marked as storage version$/,
    ],
    [
      "with two storage versions",
      (c) => {
        c.spec.versions.push({ ...v1(c), name: "v2" });
      },
      /must have exactly one version marked as storage version$/,
    ],
    [
      "with a version twice",
      (c) => {
        c.spec.versions.push({ ...v1(c), storage: false });
      },
      /must contain unique version names$/,
    ],
    [
      "with a bad version name",
      (c) => {
        v1(c).name = "1";
      },
      /^spec.versions\[0\].name: Invalid value: "1"/,
    ],
    [
      "without a schema",
      (c) => {
        delete v1(c).schema;
      },
      /^spec.versions\[0\].schema.openAPIV3Schema: Required value: schemas are required$/,
    ],
    [
      "with a schema that is not structural",
      (c) => {
        v1(c).schema = { openAPIV3Schema: {} };
      },
      /^spec.versions\[0\].schema.openAPIV3Schema.type: Required value/,
    ],
    [
      "with preserveUnknownFields",
      (c) => {
        c.spec.preserveUnknownFields = true;
      },
      /^spec.preserveUnknownFields: Invalid value: true: cannot set to true/,
    ],
    [
      "with a plural in capitals",
      (c) => {
        c.spec.names.plural = "Widgets";
        c.metadata.name = "Widgets.example.com";
      },
      /^spec.names.plural: Invalid value: "Widgets"/,
    ],
    [
      "with a bad kind",
      (c) => {
        c.spec.names.kind = "Wid get";
      },
      /^spec.names.kind: Invalid value: "Wid get": may have mixed case/,
    ],
    [
      "with kind and list of one name",
      (c) => {
        c.spec.names.listKind = "Widget";
      },
      /kind and listKind may not be the same$/,
    ],
    [
      "with a bad short name",
      (c) => {
        c.spec.names.shortNames = ["W"];
      },
      /^spec.names.shortNames\[0\]: Invalid value: "W"/,
    ],
    [
      "with a scale path outside spec",
      (c) => {
        v1(c).subresources = { scale: { specReplicasPath: ".status.n", statusReplicasPath: ".status.n" } };
      },
      /specReplicasPath: Invalid value: ".status.n": should be a json path under .spec$/,
    ],
    [
      "with a column without a path",
      (c) => {
        v1(c).additionalPrinterColumns = [{ name: "A", type: "string", jsonPath: "" }];
      },
      /additionalPrinterColumns\[0\].jsonPath: Required value$/,
    ],
    [
      "with a column of an unknown type",
      (c) => {
        v1(c).additionalPrinterColumns = [{ name: "A", type: "text", jsonPath: ".spec" }];
      },
      /type: Invalid value: "text": must be one of boolean,date,integer,number,string$/,
    ],
    [
      "with a column whose path is broken",
      (c) => {
        v1(c).additionalPrinterColumns = [{ name: "A", type: "string", jsonPath: ".spec[" }];
      },
      /jsonPath: Invalid value: ".spec\[": is an invalid path/,
    ],
    [
      "with a selector on metadata",
      (c) => {
        v1(c).selectableFields = [{ jsonPath: ".metadata.name" }];
      },
      /must not point to fields in metadata$/,
    ],
    [
      "with a selector on nothing",
      (c) => {
        v1(c).selectableFields = [{ jsonPath: ".spec.none" }];
      },
      /does not refer to a valid field$/,
    ],
    [
      "with a selector on a list",
      (c) => {
        v1(c).selectableFields = [{ jsonPath: ".spec.list" }];
      },
      /must point to a field of type string, boolean or integer/,
    ],
    [
      "with a selector twice",
      (c) => {
        v1(c).selectableFields = [{ jsonPath: ".spec.color" }, { jsonPath: ".spec.color" }];
      },
      /selectableFields\[1\].jsonPath: Duplicate value/,
    ],
    [
      "with nine selectors",
      (c) => {
        v1(c).selectableFields = Array.from({ length: 9 }, () => ({ jsonPath: ".spec.color" }));
      },
      /^spec.versions\[0\].selectableFields: Too many: 9/,
    ],
    [
      "with an unknown conversion",
      (c) => {
        c.spec.conversion = { strategy: "Magic" };
      },
      /^spec.conversion.strategy: Unsupported value: "Magic"/,
    ],
    [
      "with a webhook that is not used",
      (c) => {
        c.spec.conversion = { strategy: "None", webhook: { conversionReviewVersions: ["v1"] } };
      },
      /^spec.conversion.webhook: Forbidden/,
    ],
    [
      "with a webhook without a client",
      (c) => {
        c.spec.conversion = { strategy: "Webhook", webhook: { conversionReviewVersions: ["v1"] } };
      },
      /^spec.conversion.webhook.clientConfig: Required value/,
    ],
    [
      "with a warning for a version that is not deprecated",
      (c) => {
        v1(c).deprecationWarning = "old";
      },
      /can only be set for deprecated versions$/,
    ],
    [
      "in a protected group without approval",
      (c) => {
        c.spec.group = "x.k8s.io";
        c.metadata.name = "widgets.x.k8s.io";
      },
      /^metadata.annotations\[api-approved.kubernetes.io\]: Required value/,
    ],
  ])("%s", (_, change, expected) => {
    expect(crdErrors(crd(change), undefined).map(describeFieldError)).toEqual(
      expect.arrayContaining([expect.stringMatching(expected)]),
    );
  });

  test("with nothing in it, without falling over", () => {
    const empty = { metadata: { name: "x" } } as KubeObject;
    crdStrategy.setDefaults?.(empty);
    crdStrategy.prepareForCreate?.(empty, context());
    expect(crdStrategy.validate?.(empty, context())).toEqual([
      { type: "Required", field: "spec", body: "Required value" },
    ]);
    const hollow = partly<CustomResourceDefinition>({ metadata: { name: "x" }, spec: {} });
    crdStrategy.setDefaults?.(hollow);
    crdStrategy.prepareForCreate?.(hollow, context());
    expect(crdStrategy.validate?.(hollow, context())?.length).toBeGreaterThan(3);
  });
});

describe("status", () => {
  const conditions = (object: CustomResourceDefinition) =>
    Object.fromEntries((object.status?.conditions ?? []).map((c) => [c.type, `${c.status}/${c.reason}`]));
  const created = (object: CustomResourceDefinition, others: CustomResourceDefinition[] = []) => {
    crdStrategy.prepareForCreate?.(object, context(others));
    return object;
  };

  test("a new definition is established in the same write", () => {
    const object = created(crd());
    expect(conditions(object)).toEqual({ NamesAccepted: "True/NoConflicts", Established: "True/InitialNamesAccepted" });
    expect(object.status?.storedVersions).toEqual(["v1"]);
    expect(object.status?.acceptedNames).toEqual(object.spec.names);
    expect(object.status?.conditions?.[0]?.lastTransitionTime).toBe("2026-01-01T00:00:00Z");
  });

  test.each<[string, (object: CustomResourceDefinition) => void, string, string]>([
    [
      "plural",
      (c) => {
        c.spec.names.plural = "gadget";
        c.metadata.name = "gadget.example.com";
      },
      "PluralConflict",
      "gadget",
    ],
    [
      "singular",
      (c) => {
        c.spec.names.singular = "gd";
      },
      "SingularConflict",
      "gd",
    ],
    [
      "short name",
      (c) => {
        c.spec.names.shortNames = ["gadgets"];
      },
      "ShortNamesConflict",
      "gadgets",
    ],
    [
      "kind",
      (c) => {
        c.spec.names.kind = "Gadget";
      },
      "KindConflict",
      "Gadget",
    ],
    [
      "list kind",
      (c) => {
        c.spec.names.listKind = "GadgetList";
      },
      "ListKindConflict",
      "GadgetList",
    ],
  ])("a %s that a neighbour holds is not accepted", (_, change, reason, name) => {
    const other = created(
      crd((c) => {
        c.metadata.name = "gadgets.example.com";
        c.spec.names = {
          plural: "gadgets",
          kind: "Gadget",
          singular: "gadget",
          listKind: "GadgetList",
          shortNames: ["gd"],
        };
      }),
    );
    const object = created(crd(change), [other]);
    expect(conditions(object)).toEqual({ NamesAccepted: `False/${reason}`, Established: "False/NotAccepted" });
    expect(object.status?.conditions?.[0]?.message).toBe(`"${name}" is already in use`);
    // Once the neighbour is gone the names are free.
    expect(conditions({ ...object, status: crdStatus(object, [], nowMs) })).toEqual({
      NamesAccepted: "True/NoConflicts",
      Established: "True/InitialNamesAccepted",
    });
  });

  test("groups do not share names", () => {
    const other = created(
      crd((c) => {
        c.spec.group = "other.com";
        c.metadata.name = "widgets.other.com";
      }),
    );
    expect(conditions(created(crd(), [other]))["NamesAccepted"]).toBe("True/NoConflicts");
  });

  test("names of built-in kinds are reserved in their groups", () => {
    const object = crd((c) => {
      c.spec.group = "scheduling.k8s.io";
      c.spec.names = {
        plural: "priorityclasses",
        kind: "PriorityClass",
        singular: "priorityclass",
        listKind: "PriorityClassList",
      };
    });
    expect(conditions(created(object))["NamesAccepted"]).toBe("False/ListKindConflict");
  });

  test("an established definition stays established when new names clash", () => {
    const object = created(crd());
    const other = created(
      crd((c) => {
        c.metadata.name = "g.example.com";
        c.spec.names = { plural: "g", kind: "G", singular: "g", shortNames: ["gg"] };
      }),
    );
    const next = copyJson(object);
    next.spec.names.shortNames = ["gg"];
    crdStrategy.prepareForUpdate?.(next, object, context([other]));
    expect(conditions(next)).toEqual({
      NamesAccepted: "False/ShortNamesConflict",
      Established: "True/InitialNamesAccepted",
    });
    expect(next.status?.acceptedNames?.shortNames).toBeUndefined();
  });

  test.each([
    ["https://github.com/kubernetes/enhancements/pull/1", "True/ApprovedAnnotation"],
    ["unapproved, an experiment", "False/UnapprovedAnnotation"],
  ])("approval %s of a protected group is %s", (annotation, expected) => {
    const object = created(
      crd((c) => {
        c.spec.group = "x.k8s.io";
        c.metadata.name = "widgets.x.k8s.io";
        c.metadata.annotations = { "api-approved.kubernetes.io": annotation };
      }),
    );
    expect(conditions(object)["KubernetesAPIApprovalPolicyConformant"]).toBe(expected);
    expect(crdErrors(object, undefined)).toEqual([]);
  });
});

describe("on update", () => {
  const stored = () => {
    const object = crd();
    object.status = crdStatus(object, [], nowMs);
    return object;
  };
  const update = (change: (object: CustomResourceDefinition) => void) => {
    const old = stored();
    const next = copyJson(old);
    change(next);
    crdStrategy.prepareForUpdate?.(next, old, context());
    const errors = crdStrategy.validateUpdate?.(next, old, context()) ?? [];
    return { next, errors: errors.map(describeFieldError) };
  };

  test("the scope and the kind cannot change once established", () => {
    expect(
      update((c) => {
        c.spec.scope = "Cluster";
      }).errors,
    ).toEqual(['spec.scope: Invalid value: "Cluster": field is immutable']);
    expect(
      update((c) => {
        c.spec.names.kind = "Gizmo";
      }).errors,
    ).toContain('spec.names.kind: Invalid value: "Gizmo": field is immutable');
  });

  test("a version in which objects are stored cannot go", () => {
    const { errors } = update((c) => {
      v1(c).name = "v2";
    });
    expect(errors).toEqual([
      expect.stringMatching(
        /^status.storedVersions\[0\]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version/,
      ),
    ]);
  });

  test("a new storage version joins the stored ones", () => {
    const { next, errors } = update((c) => {
      c.spec.versions.push({ ...v1(c), name: "v2" });
      v1(c).storage = false;
    });
    expect(errors).toEqual([]);
    expect(next.status?.storedVersions).toEqual(["v1", "v2"]);
  });

  test("a schema that has not changed is not judged again", () => {
    const old = stored();
    v1(old).schema = { openAPIV3Schema: { type: "strange" } };
    const next = copyJson(old);
    next.spec.names.shortNames = ["w"];
    expect(crdErrors(next, old)).toEqual([]);
    expect(crdErrors(next, undefined)).not.toEqual([]);
  });

  test("status keeps the storage version", () => {
    const next = stored();
    next.status!.storedVersions = ["v0"];
    const errors = crdStrategy.validateStatusUpdate?.(next, stored(), context());
    expect(errors?.map((error) => error.field)).toEqual(["status.storedVersions[0]", "status.storedVersions"]);
  });
});

test("a definition with a conversion webhook gets a warning that it is never called", () => {
  const warnings: string[] = [];
  const definition = crd((c) => {
    c.spec.conversion = {
      strategy: "Webhook",
      webhook: { conversionReviewVersions: ["v1"], clientConfig: { url: "https://127.0.0.1:1/convert" } },
    };
  });
  const object = definition;
  crdStrategy.prepareForCreate?.(object, { ...context(), warn: (text) => warnings.push(text) });
  expect(warnings).toEqual([expect.stringContaining("not called")]);
});
