import { UsageError } from "../../model/userError.ts";

/** The number of a port; `flag` is the name of the flag that it was passed with. */
export function parsePort(text: string, flag = "--port"): number {
  const port = Number(text);
  if (/^[0-9]+$/.test(text) && port <= 65_535) return port;
  throw new UsageError(
    "port-invalid",
    `${flag} ${text} is not a port`,
    "pass an integer from 0 to 65535; 0 picks a free port",
  );
}
