/** Runs all tasks in order, with bounded parallelism. */
export async function inParallel<T>(all: readonly T[], atOnce: number, run: (each: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < all.length; at = next++) await run(all[at] as T);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, worker));
}
