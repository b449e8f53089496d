/** The memory of this process. */
export interface Memory {
  /** Whether so little is left that nothing new may be kept in it. */
  isScarce(): boolean;
}
