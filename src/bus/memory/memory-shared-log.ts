import { groupOf, type LogReading, type SharedLog } from '../shared-log.ts';

const MAX_ENTRY_BYTES = 1024 * 1024 - 1024;
const MAX_ENTRIES = 1_024;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;
/** Overhead of an entry, so that empty ones count. */
const ENTRY_BYTES = 256;

interface KeptEntry {
  readonly name: string;
  readonly bytes: Buffer;
  readonly position: number;
}

/** All names with the same first word, or all names. */
interface NameGroup {
  readonly entries: Set<KeptEntry>;
  bytes: number;
}

/** In memory; entries do not expire. */
export class MemorySharedLog implements SharedLog {
  readonly maxEntryBytes = MAX_ENTRY_BYTES;
  readonly #lists = new Map<string, KeptEntry[]>();
  readonly #groups = new Map<string, NameGroup>();
  readonly #all: NameGroup = { entries: new Set(), bytes: 0 };
  #position = 0;

  append(name: string, entry: Buffer): boolean {
    if (entry.length > MAX_ENTRY_BYTES) return false;
    const list = this.#lists.get(name) ?? [];
    const group = this.#groups.get(groupOf(name)) ?? { entries: new Set(), bytes: 0 };
    this.#lists.set(name, list);
    this.#groups.set(groupOf(name), group);
    const added = { name, bytes: Buffer.from(entry), position: ++this.#position };
    list.push(added);
    for (const counted of [group, this.#all]) {
      counted.entries.add(added);
      counted.bytes += sizeOf(added);
    }
    if (list.length > MAX_ENTRIES) this.#drop(list[0]!);
    this.#reduce(group, MAX_GROUP_BYTES);
    this.#reduce(this.#all, MAX_BYTES);
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

  #reduce(group: NameGroup, bytes: number): void {
    for (const oldest of group.entries) {
      if (group.bytes <= bytes) return;
      this.#drop(oldest);
    }
  }

  /** Drops an entry, which must be the oldest of its name. */
  #drop(entry: KeptEntry): void {
    const list = this.#lists.get(entry.name)!;
    const group = this.#groups.get(groupOf(entry.name))!;
    list.shift();
    for (const counted of [group, this.#all]) {
      counted.entries.delete(entry);
      counted.bytes -= sizeOf(entry);
    }
    if (list.length === 0) this.#lists.delete(entry.name);
    if (group.entries.size === 0) this.#groups.delete(groupOf(entry.name));
  }
}

function sizeOf({ name, bytes }: KeptEntry): number {
  return ENTRY_BYTES + name.length + bytes.length;
}
