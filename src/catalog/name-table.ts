import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import type { Capability } from '../model/server-catalog.ts';
import type { ExposedItem } from './exposed-items.ts';
import { exposeNames, type NameNotice, prefixTool, withoutBridgePrefix } from './exposed-names.ts';

export interface TableEntry {
  readonly server: string;
  readonly item: Capability;
}

/**
 * Tools or prompts by all names that clients may use: the exposed name, the full `server__name`, either with the prefix
 * `mcp__` (S4.13; unless a server is named `mcp`), and the own name if only one server has it and it contains no separator.
 * Names are looked up and never parsed.
 */
export class NameTable {
  readonly targets: readonly ExposedItem[];
  readonly notices: readonly NameNotice[];
  readonly #exposed = new Map<string, ExposedItem>();
  readonly #byName = new Map<string, ExposedItem>();
  readonly #bare: ReadonlyMap<string, readonly ExposedItem[]>;
  readonly #bridged: boolean;

  /** `bridged`: no server is named `mcp`, so that `mcp__` can only be a bridging client's prefix. */
  constructor(entries: readonly TableEntry[], bridged: boolean) {
    this.#bridged = bridged;
    const { names, notices } = exposeNames(entries.map(({ server, item }) => ({ server, name: item.key })));
    this.notices = notices;
    this.targets = entries.flatMap(({ server, item }, i) => {
      const exposed = names[i] ?? null;
      return exposed === null ? [] : [{ server, exposed, item }];
    });
    for (const target of this.targets) {
      this.#exposed.set(target.exposed, target);
      this.#byName.set(prefixTool(target.server, target.item.key), target);
    }
    const bare = this.targets.filter(({ item }) => !item.key.includes(TOOL_NAME_DELIMITER));
    this.#bare = Map.groupBy(bare, ({ item }) => item.key);
  }

  find(name: string): ExposedItem | null {
    const inner = this.#bridged ? withoutBridgePrefix(name) : null;
    for (const known of inner === null ? [name] : [name, inner]) {
      const target = this.#exposed.get(known) ?? this.#byName.get(known);
      if (target !== undefined) return target;
    }
    const namesakes = this.#bare.get(name);
    return namesakes?.length === 1 ? namesakes[0]! : null;
  }

  /** The targets that an own name could mean; if there are several, `find` returns null. */
  namesakes(name: string): readonly ExposedItem[] {
    return this.#bare.get(name) ?? [];
  }
}
