import type { LogReading, SharedLog } from '../shared-log.ts';

const MAX_ENTRY_BYTES = 1024 * 1024 - 1024;
const MAX_ENTRIES = 1_024;

/** Nothing expires. */
export class MemorySharedLog implements SharedLog {
  readonly maxEntryBytes = MAX_ENTRY_BYTES;
  readonly #lists = new Map<string, { readonly entries: Buffer[]; position: number }>();
  #position = 0;

  append(name: string, entry: Buffer): boolean {
    if (entry.length > MAX_ENTRY_BYTES) return false;
    let list = this.#lists.get(name);
    if (list === undefined) this.#lists.set(name, (list = { entries: [], position: 0 }));
    list.entries.push(Buffer.from(entry));
    list.position = ++this.#position;
    if (list.entries.length > MAX_ENTRIES) list.entries.shift();
    return true;
  }

  async appendAfter(name: string, entry: Buffer, position: number): Promise<boolean> {
    if ((this.#lists.get(name)?.position ?? 0) !== position) return false;
    return this.append(name, entry);
  }

  async read(name: string): Promise<LogReading> {
    const list = this.#lists.get(name);
    return { entries: [...(list?.entries ?? [])], position: list?.position ?? 0 };
  }

  close(): void {}
}
