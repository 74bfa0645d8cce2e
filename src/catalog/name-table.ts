import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import type { Capability } from '../model/server-catalog.ts';
import { exposeNames, type NameNotice, withoutBridgePrefix } from './exposed-names.ts';

/** Where an exposed name leads. */
export interface NamedItem {
  readonly server: string;
  /** The server's own name for it. */
  readonly name: string;
  readonly exposed: string;
  readonly item: Capability;
}

export interface TableEntry {
  readonly server: string;
  readonly item: Capability;
}

/**
 * The tools (or prompts) of a catalogue by every name a client may use: the exposed one; the whole `server__name`
 * where that had to be changed; either behind a bridging client's `mcp__` (S4.13), unless a server is called `mcp`;
 * and the server's own name where only one server has it. An own name that contains the separator is not in the table:
 * it could spell another server's tool, and would get the calls that are meant for that one while that one is not
 * listed. All of it is a table: no name is ever taken apart to be routed.
 */
export class NameTable {
  /** Offered entries in the order given. */
  readonly targets: readonly NamedItem[];
  readonly notices: readonly NameNotice[];
  readonly #exposed = new Map<string, NamedItem>();
  readonly #whole = new Map<string, NamedItem>();
  readonly #bare = new Map<string, NamedItem[]>();
  readonly #bridged: boolean;

  /** `bridged`: no server is called `mcp`, so that `mcp__` can only be a bridging client's prefix. */
  constructor(entries: readonly TableEntry[], bridged: boolean) {
    this.#bridged = bridged;
    const { names, notices } = exposeNames(entries.map(({ server, item }) => ({ server, name: item.key })));
    this.notices = notices;
    const targets: NamedItem[] = [];
    entries.forEach(({ server, item }, i) => {
      const exposed = names[i];
      if (exposed === null || exposed === undefined) return;
      const target = { server, name: item.key, exposed, item };
      targets.push(target);
      this.#exposed.set(exposed, target);
      this.#whole.set(server + TOOL_NAME_DELIMITER + item.key, target);
      if (item.key.includes(TOOL_NAME_DELIMITER)) return;
      const namesakes = this.#bare.get(item.key);
      if (namesakes === undefined) this.#bare.set(item.key, [target]);
      else namesakes.push(target);
    });
    this.targets = targets;
  }

  find(name: string): NamedItem | null {
    const direct = this.#exposed.get(name) ?? this.#whole.get(name);
    if (direct !== undefined) return direct;
    const inner = this.#bridged ? withoutBridgePrefix(name) : null;
    if (inner !== null) {
      const bridged = this.#exposed.get(inner) ?? this.#whole.get(inner);
      if (bridged !== undefined) return bridged;
    }
    const namesakes = this.#bare.get(name);
    return namesakes?.length === 1 ? namesakes[0]! : null;
  }

  /** The targets a bare name could mean; more than one says why `find` gave none. */
  namesakes(name: string): readonly NamedItem[] {
    return this.#bare.get(name) ?? [];
  }
}
