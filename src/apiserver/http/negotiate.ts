import { notAcceptable } from "../../model/objects/status.ts";

/** In what form an answer is wanted. */
export interface Representation {
  readonly format: "json" | "yaml";
  /** A transformation that the client asked for: `Table`, `PartialObjectMetadata`, `APIGroupDiscoveryList`... */
  readonly as: string;
  readonly group: string;
  readonly version: string;
}

const plainJson: Representation = { format: "json", as: "", group: "", version: "" };
const accepted = ["application/json", "application/yaml"];

/** What an endpoint can transform its answer into. */
export type Offer = (as: string, group: string, version: string) => boolean;

/**
 * Picks the first clause that can be served, best quality first, in the client's order otherwise. Protobuf answers are
 * never given: every client that asks for them lists JSON as well and goes by the Content-Type of the answer.
 */
export function negotiate(accept: string | undefined, offers: Offer = () => false): Representation {
  if (accept === undefined || accept === "" || accept === "*/*" || accept === "application/json") return plainJson;
  const clauses = accept
    .split(",")
    .map(parseClause)
    .filter((clause) => clause.quality > 0)
    .sort((a, b) => b.quality - a.quality);
  for (const clause of clauses) {
    const format = formatOf(clause.type);
    if (format === undefined) continue;
    const as = clause.params.get("as") ?? "";
    const group = clause.params.get("g") ?? "";
    const version = clause.params.get("v") ?? "";
    if (as === "") return { format, as, group: "", version: "" };
    if (offers(as, group, version)) return { format, as, group, version };
  }
  throw notAcceptable(accepted);
}

interface Clause {
  readonly type: string;
  readonly params: ReadonlyMap<string, string>;
  readonly quality: number;
}

function parseClause(text: string): Clause {
  const [type = "", ...rest] = text.split(";");
  const params = new Map<string, string>();
  for (const part of rest) {
    const at = part.indexOf("=");
    if (at > 0)
      params.set(
        part.slice(0, at).trim().toLowerCase(),
        part
          .slice(at + 1)
          .trim()
          .replace(/^"|"$/g, ""),
      );
  }
  const quality = params.has("q") ? Number(params.get("q")) : 1;
  return { type: type.trim().toLowerCase(), params, quality: Number.isFinite(quality) ? quality : 0 };
}

function formatOf(type: string): "json" | "yaml" | undefined {
  if (type === "application/json" || type === "*/*" || type === "application/*") return "json";
  if (type === "application/yaml" || type === "text/yaml" || type === "application/x-yaml") return "yaml";
  return undefined;
}
