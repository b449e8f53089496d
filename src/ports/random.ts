/** Randomness. The simulator seeds it. */
export interface Random {
  /** A whole number from 0 to 2^32 - 1. */
  uint32(): number;
}
