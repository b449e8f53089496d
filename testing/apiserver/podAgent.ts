import type { PodAgent } from "../../src/ports/podAgent.ts";

/** An agent that simulates all nodes, and answers only what it is given. */
export function podAgent(given: Partial<PodAgent>): PodAgent {
  const missing = (): never => {
    throw new Error("this agent does not answer that");
  };
  return {
    plays: () => true,
    log: missing,
    exec: missing,
    attach: missing,
    podUsage: () => undefined,
    nodeUsage: () => undefined,
    ...given,
  };
}
