/** As much of Argo CD's and Flux's definitions as a gate looks at: our own, open to everything else. */
export const gitopsDefinitions = [
  definition("argoproj.io", "v1alpha1", "applications", "Application"),
  definition("source.toolkit.fluxcd.io", "v1", "gitrepositories", "GitRepository"),
  definition("source.toolkit.fluxcd.io", "v1", "ocirepositories", "OCIRepository"),
  definition("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization"),
  definition("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease"),
  definition("source.extensions.fluxcd.io", "v1beta1", "artifactgenerators", "ArtifactGenerator"),
];

function definition(group: string, version: string, plural: string, kind: string) {
  const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  };
}
