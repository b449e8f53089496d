/** Resolves with the name of the first SIGINT or SIGTERM. */
export function untilSignal(): Promise<"SIGINT" | "SIGTERM"> {
  return new Promise((done) => {
    const stop = (signal: "SIGINT" | "SIGTERM"): void => {
      process.off("SIGINT", stop);
      process.off("SIGTERM", stop);
      done(signal);
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
}
