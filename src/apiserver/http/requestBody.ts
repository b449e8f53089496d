import { isObject } from "../../model/objects/json.ts";
import { badRequest, unsupportedMediaType } from "../../model/objects/status.ts";
import type { Sent } from "../resource.ts";
import { type PatchType, patchMediaTypes } from "../verbs/patch.ts";
import type { Exchange } from "./exchange.ts";

/** The body of a write, which must be an object. */
export async function requireBody(exchange: Exchange, findDuplicates: boolean): Promise<Sent> {
  const sent = await exchange.body({ findDuplicates });
  if (sent === undefined) throw badRequest("the request body is empty: an object is expected");
  if (!isObject(sent.value)) throw badRequest("the request body must be an object");
  return sent;
}

export function patchTypeOf(exchange: Exchange): PatchType {
  const type = patchMediaTypes[exchange.mediaType()];
  if (type === undefined) throw unsupportedMediaType(Object.keys(patchMediaTypes));
  return type;
}
