/**
 * Resources whose lists and watches by `spec.nodeName` have an index, and the position of that field among their
 * selectable fields: kubelets list their own pods, DRA drivers their own slices. Other resources with such a field are
 * filtered.
 */
export const indexedFields: Readonly<Record<string, number>> = { "/pods": 0, "resource.k8s.io/resourceslices": 0 };
