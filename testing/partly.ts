/** A deep partial type: any fields of an object with their types. */
export type Partly<V> = V extends readonly (infer E)[]
  ? readonly Partly<E>[]
  : V extends object
    ? { readonly [F in keyof V]?: Partly<V[F]> }
    : V;

/** A partial object for tests; the compiler checks the given fields. */
export function partly<T>(said: Partly<T>): T {
  // The other fields are missing at run time.
  return said as unknown as T;
}
