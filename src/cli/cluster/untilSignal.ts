/** Resolves when somebody asks the program to stop, with the name of the signal. */
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
