import { stringify } from "yaml";
import { installedDefinitions, installObjects } from "./installObjects.ts";
import { templateOf } from "./installTree.ts";
import { installVersion, valuesSchema, valuesText } from "./installValues.ts";

const generated = "Written by tools/genDeploy.ts from src/cli/install.";

/** Every file of the Helm chart, by its path. */
export function chartFiles(): ReadonlyMap<string, string> {
  const files = new Map<string, string>([
    ["Chart.yaml", chart],
    ["values.yaml", valuesText()],
    ["values.schema.json", `${JSON.stringify(valuesSchema(), null, 2)}\n`],
    ["templates/NOTES.txt", notes],
    ["templates/crds.yaml", definitionsTemplate],
  ]);
  const templates = new Map<string, string[]>();
  for (const { file, condition, tree } of installObjects()) {
    templates.set(file, [...(templates.get(file) ?? []), templateOf(tree, condition)]);
  }
  for (const [file, objects] of templates) {
    files.set(
      `templates/${file}.yaml`,
      `{{- /* ${generated} */ -}}\n${objects.map((each) => `---\n${each}`).join("")}`,
    );
  }
  for (const definition of installedDefinitions()) {
    files.set(`files/crds/${definition.metadata.name}.yaml`, yamlOf(definition));
  }
  return files;
}

export function yamlOf(object: object): string {
  // Kubernetes' tools read YAML 1.1, in which `yes` is a boolean.
  return stringify(object, { lineWidth: 0, aliasDuplicateObjects: false, schema: "yaml-1.1" });
}

const chart = `# ${generated}
apiVersion: v2
name: muster
description: GPU control plane for Kubernetes - scheduler, binder and gang operator
type: application
version: ${installVersion}
appVersion: "${installVersion}"
kubeVersion: ">=1.32.0-0"
`;

/**
 * As templates and not in Helm's folder \`crds\`: Helm would never upgrade those, and would overwrite those of another
 * owner.
 */
const definitionsTemplate = `{{- /* ${generated} */ -}}
{{- if .Values.crds.install }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
{{- $definition := $.Files.Get $path | fromYaml }}
{{- if $.Values.crds.keep }}
{{- $_ := set $definition.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- end }}
---
{{ toYaml $definition }}
{{- end }}
{{- end }}
`;

const notes = `Muster {{ .Chart.AppVersion }}: {{ join ", " .Values.controllers }} in namespace {{ .Release.Namespace }}.

See that it is ready:
  kubectl -n {{ .Release.Namespace }} rollout status deployment/muster
  kubectl get queues
{{- if and .Values.webhooks.enabled (eq .Values.webhooks.failurePolicy "Fail") }}

Until one process is ready, pods of kai-scheduler, queues and PodCliqueSets are refused.
{{- end }}

Before \`helm uninstall\`: delete PodCliqueSets, or run \`muster uninstall\`, which takes their finalizers off
(docs/own-cluster.md).
{{- if .Values.crds.keep }} The definitions stay, and with them queues and gangs.{{- end }}
`;
