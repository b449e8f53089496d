import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { gunzipSync } from "node:zlib";
import { badRequest, tooLarge, unsupportedMediaType } from "../../model/objects/status.ts";

/** Larger bodies are rejected with 413. */
export const bodyBytesMax = 3 * 1024 * 1024;

const empty = Buffer.alloc(0);

/** Reads the body, decompresses it, and stops at the limit. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > bodyBytesMax) throw limitExceeded();
  const chunks: Buffer[] = [];
  let length = 0;
  await new Promise<void>((resolve, reject) => {
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bodyBytesMax) {
        request.removeAllListeners("data");
        request.resume();
        reject(limitExceeded());
        return;
      }
      chunks.push(chunk);
    });
    request.on("end", resolve);
    // A client that closes the connection early is no server error. Every request emits close; creating an error for
    // each complete one would cost more than reading it.
    const brokenOff = (): void => {
      if (!request.complete) reject(badRequest("the request body ended early"));
    };
    request.on("error", brokenOff);
    request.on("close", brokenOff);
  });
  const first = chunks[0];
  const body = first === undefined ? empty : chunks.length === 1 ? first : Buffer.concat(chunks, length);
  return decompress(body, request.headers["content-encoding"]);
}

function decompress(body: Buffer, encoding: string | undefined): Buffer {
  if (encoding === undefined || encoding === "" || encoding === "identity") return body;
  if (encoding !== "gzip") throw unsupportedMediaType(["content-encoding: gzip, identity"]);
  try {
    return gunzipSync(body, { maxOutputLength: bodyBytesMax });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw limitExceeded();
    throw badRequest(`the request body is not valid gzip: ${(error as Error).message}`);
  }
}

function limitExceeded(): Error {
  return tooLarge(`limit is ${bodyBytesMax}`);
}
