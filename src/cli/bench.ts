/** Runs benchmarks by name. */
export async function runBench(_names: string[], _options: { output: "text" | "json" }): Promise<void> {}
