/**
 * The few things the file store asks of a file system, each named after what it promises about a crash. Tests put a
 * disk behind it that stops at any step and forgets whatever was not synced.
 */
export interface Disk {
  /** Makes the directory (and its parents) and sees to it that it survives a power cut. */
  makeDirectory(directory: string): Promise<void>;
  list(directory: string): Promise<string[]>;
  /** Opens for reading and writing; `create` truncates or creates. */
  open(path: string, mode: "existing" | "create"): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** After it, the names in the directory survive a power cut. */
  syncDirectory(directory: string): Promise<void>;
  /** Refuses when another live process holds the directory. The returned function gives it back. */
  lock(directory: string): () => void;
}

export interface DiskFile {
  size(): Promise<number>;
  /** Fills the buffer from the position; returns the bytes read, fewer only at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes all of it or throws; after a throw any part may have been written. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(size: number): Promise<void>;
  /** After it, the content and the size survive a power cut. */
  sync(): Promise<void>;
  close(): Promise<void>;
}
