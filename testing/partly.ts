/** What a fixture says of an object: any of its fields, down to the last one, by their own names and types. */
export type Partly<V> = V extends readonly (infer E)[]
  ? readonly Partly<E>[]
  : V extends object
    ? { readonly [F in keyof V]?: Partly<V[F]> }
    : V;

/** For tests: an object that says only what the test is about. The compiler checks what it says. */
export function partly<T>(said: Partly<T>): T {
  // The rest is not there: a test that needs more of the object says more.
  return said as unknown as T;
}
