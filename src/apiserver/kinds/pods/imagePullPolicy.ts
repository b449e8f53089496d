/** An image without a tag, or with the tag `latest`, is mutable and always pulled. */
export function imagePullPolicyOf(image: string): "Always" | "IfNotPresent" {
  const at = image.indexOf("@");
  const named = at < 0 ? image : image.slice(0, at);
  // A colon before the last slash belongs to the port of a registry.
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  if (colon < 0) return at < 0 ? "Always" : "IfNotPresent";
  return named.slice(colon + 1) === "latest" ? "Always" : "IfNotPresent";
}
