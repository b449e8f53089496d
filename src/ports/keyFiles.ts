/** Where keys and certificates are kept between two starts. Names are plain file names: `ca.key`, `ca.crt`. */
export interface KeyFiles {
  /** The text of a file, or undefined when there is none. */
  read(name: string): Promise<string | undefined>;
  /**
   * Replaces a file as a whole; only the owner may read it. After a crash the file has the old or the new text, never a
   * part of it.
   */
  write(name: string, text: string): Promise<void>;
}
