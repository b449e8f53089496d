/**
 * The file system operations of the file store, each documented by what it guarantees after a crash. Tests use a disk
 * that stops at any operation and loses what was not synced.
 */
export interface Disk {
  /** Creates the directory (and its parents) durably. */
  makeDirectory(directory: string): Promise<void>;
  list(directory: string): Promise<string[]>;
  /** Opens for reading and writing; `create` truncates or creates. */
  open(path: string, mode: "existing" | "create"): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** After it, the names in the directory survive a power failure. */
  syncDirectory(directory: string): Promise<void>;
  /** Throws when this process can no longer create and remove files in the directory. */
  checkWritable(directory: string): Promise<void>;
  /** Throws when another live process holds the directory. The returned function releases it. */
  lock(directory: string): () => void;
}

export interface DiskFile {
  size(): Promise<number>;
  /** Fills the buffer from the position; returns the bytes read, fewer only at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes all bytes or throws; after a throw some may have been written. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(size: number): Promise<void>;
  /** After it, the content and the size survive a power failure. */
  sync(): Promise<void>;
  /** Whether the path still leads to this file: it may have been removed, moved or replaced meanwhile. */
  isAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}
