/** Replaces values that differ from run to run by placeholders, so that the rest can be compared exactly. */
export function normalise(text: string, serverUrl: string): string {
  return (
    text
      .replaceAll(serverUrl, "<server>")
      .replaceAll(serverUrl.replace("https://", ""), "<server>")
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<uid>")
      .replace(/X509SHA256=[0-9a-f]+/g, "<certificate>")
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>")
      .replace(/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}/g, "<time>")
      .replace(/(resourceVersion"?: )"\d+"/g, "$1<revision>")
      .replace(/kube-api-access-[a-z0-9]{5}/g, "kube-api-access-<suffix>")
      .replace(/\b10\.\d+\.\d+\.\d+\b/g, "<ip>")
      .replace(/(?<=\s|\()\d{1,2}s(?= ago|\s|\)|$)/gm, "<age>")
      // kubectl since 1.34 prints the namespace of a deletion.
      .replace(/ deleted from \S+ namespace$/gm, " deleted")
      .split("\n")
      .map((line) => line.replace(/(\S) {2,}/g, "$1   ").trimEnd())
      .join("\n")
  );
}
