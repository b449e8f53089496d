import { notAcceptable } from "../../model/objects/status.ts";

/** The representation of a response. */
export interface Representation {
  readonly format: "json" | "yaml" | "protobuf";
  /** The kind that the client requests with `as=`: `Table`, `PartialObjectMetadata`, `APIGroupDiscoveryList`... */
  readonly as: string;
  readonly group: string;
  readonly version: string;
}

const plainJson: Representation = { format: "json", as: "", group: "", version: "" };
export const protobufType = "application/vnd.kubernetes.protobuf";
const accepted = ["application/json", "application/yaml"];

/** The kinds that an endpoint can return with `as=`. */
export type Offer = (as: string, group: string, version: string) => boolean;

/** Whether an endpoint can return its object, or the kind of `as=`, as protobuf. */
export type ProtobufOffer = (as: string) => boolean;

/** Selects the first media type that can be served, by quality and then in the client's order. */
export function negotiate(
  accept: string | undefined,
  offers: Offer = () => false,
  offersProtobuf: ProtobufOffer = () => false,
): Representation {
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
    if (format === "protobuf" && !offersProtobuf(as)) continue;
    const group = clause.params.get("g") ?? "";
    const version = clause.params.get("v") ?? "";
    if (as === "") return { format, as, group: "", version: "" };
    if (offers(as, group, version)) return { format, as, group, version };
  }
  throw notAcceptable(offersProtobuf("") ? [...accepted, protobufType] : accepted);
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

function formatOf(type: string): Representation["format"] | undefined {
  if (type === protobufType) return "protobuf";
  if (type === "application/json" || type === "*/*" || type === "application/*") return "json";
  if (type === "application/yaml" || type === "text/yaml" || type === "application/x-yaml") return "yaml";
  return undefined;
}
