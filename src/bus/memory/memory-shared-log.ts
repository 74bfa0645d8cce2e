import type { LogReading, SharedLog } from '../shared-log.ts';

const MAX_ENTRY_BYTES = 1024 * 1024 - 1024;
const MAX_ENTRIES = 1_024;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

interface KeptEntry {
  readonly name: string;
  readonly bytes: Buffer;
  readonly position: number;
}

/** All names with the same first word. */
interface NameGroup {
  readonly entries: Set<KeptEntry>;
  bytes: number;
}

/** In memory; entries do not expire. */
export class MemorySharedLog implements SharedLog {
  readonly maxEntryBytes = MAX_ENTRY_BYTES;
  readonly #lists = new Map<string, KeptEntry[]>();
  readonly #groups = new Map<string, NameGroup>();
  #position = 0;

  append(name: string, entry: Buffer): boolean {
    if (entry.length > MAX_ENTRY_BYTES) return false;
    const list = this.#lists.get(name) ?? [];
    const [word = ''] = name.split('.', 1);
    const group = this.#groups.get(word) ?? { entries: new Set(), bytes: 0 };
    this.#lists.set(name, list);
    this.#groups.set(word, group);
    const added = { name, bytes: Buffer.from(entry), position: ++this.#position };
    list.push(added);
    group.entries.add(added);
    group.bytes += entry.length;
    if (list.length > MAX_ENTRIES) this.#drop(list[0]!, group);
    for (const oldest of group.entries) {
      if (group.bytes <= MAX_GROUP_BYTES) break;
      this.#drop(oldest, group);
    }
    return true;
  }

  async appendAfter(name: string, entry: Buffer, position: number): Promise<boolean> {
    if ((this.#lists.get(name)?.at(-1)?.position ?? 0) !== position) return false;
    return this.append(name, entry);
  }

  async read(name: string): Promise<LogReading> {
    const list = this.#lists.get(name) ?? [];
    return { entries: list.map(({ bytes }) => bytes), position: list.at(-1)?.position ?? 0 };
  }

  close(): void {}

  /** Drops an entry, which must be the oldest of its name. */
  #drop(entry: KeptEntry, group: NameGroup): void {
    this.#lists.get(entry.name)!.shift();
    group.entries.delete(entry);
    group.bytes -= entry.bytes.length;
  }
}
