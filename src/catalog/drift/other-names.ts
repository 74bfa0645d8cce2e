interface Mention {
  readonly what: string;
  readonly at: number;
  readonly grave: boolean;
}

/** Words that must be next to a server's name to count as a mention: `git` and `time` are common in descriptions. */
const ABOUT_SERVERS: ReadonlySet<string> = new Set(['server', 'mcp', 'servers']);
/** Tool names that do not occur by chance have at least this length and several words. */
const MIN_DISTINCTIVE = 5;

/** The names of all servers and of their tools, in lower case, each with the servers that have it. */
export class NamesOfServers {
  readonly #servers = new Map<string, Set<string>>();
  readonly #tools = new Map<string, Set<string>>();
  /** Names in `#tools`, by server. */
  readonly #of = new Map<string, ReadonlySet<string>>();

  /** Replaces the known names of the server. */
  set(server: string, tools: Iterable<string>): void {
    const prefix = server.toLowerCase();
    const names = Array.from(tools, (tool) => tool.toLowerCase());
    const all = new Set(names.flatMap((name) => [name, `${prefix}__${name}`]));
    // Names that stay are not added again: a finding names the first owner, so their order must not change.
    for (const name of this.#of.get(server) ?? []) if (!all.has(name)) remove(this.#tools, name, server);
    this.#of.set(server, all);
    add(this.#servers, prefix, server);
    for (const name of all) add(this.#tools, name, server);
  }

  delete(server: string): void {
    remove(this.#servers, server.toLowerCase(), server);
    for (const name of this.#of.get(server) ?? []) remove(this.#tools, name, server);
    this.#of.delete(server);
  }

  /** Another server that has a tool of this name; null without one. */
  ownerBeside(server: string, tool: string): string | null {
    return otherThan(server, this.#tools.get(tool));
  }

  isNameBeside(server: string, name: string): boolean {
    return otherThan(server, this.#servers.get(name)) !== null;
  }
}

function add(owners: Map<string, Set<string>>, name: string, server: string): void {
  const known = owners.get(name);
  if (known === undefined) owners.set(name, new Set([server]));
  else known.add(server);
}

function remove(owners: Map<string, Set<string>>, name: string, server: string): void {
  const known = owners.get(name);
  if (known?.delete(server) === true && known.size === 0) owners.delete(name);
}

function otherThan(server: string, owners: ReadonlySet<string> = new Set()): string | null {
  for (const owner of owners) if (owner !== server) return owner;
  return null;
}

/** Names of all other servers and their tools: a description that mentions them may try to shadow them. */
export class OtherNames {
  readonly #all: NamesOfServers;
  readonly #server: string;
  readonly #own: ReadonlySet<string>;

  constructor(all: NamesOfServers, server: string, tools: readonly string[]) {
    this.#all = all;
    this.#server = server;
    this.#own = new Set([server, ...tools].map((name) => name.toLowerCase()));
  }

  /** The other server that has a tool of exactly this name; null without one. */
  ownerOf(tool: string): string | null {
    return this.#all.ownerBeside(this.#server, tool.toLowerCase());
  }

  /** The first mention of another server or its tools in a text, given as words in lower case. */
  mentionedIn(words: readonly { readonly word: string; readonly at: number }[]): Mention | null {
    for (let i = 0; i < words.length; i++) {
      const { word, at } = words[i]!;
      if (this.#own.has(word)) continue;
      const owner = this.#all.ownerBeside(this.#server, word);
      if (owner !== null && isDistinctive(word)) return { what: `${word} of ${owner}`, at, grave: word.includes('__') };
      if (!this.#all.isNameBeside(this.#server, word)) continue;
      const beside = words[i + 1]?.word ?? '';
      const before = words[i - 1]?.word ?? '';
      if (ABOUT_SERVERS.has(beside) || ABOUT_SERVERS.has(before))
        return { what: `the server ${word}`, at, grave: false };
    }
    return null;
  }
}

function isDistinctive(name: string): boolean {
  return name.length >= MIN_DISTINCTIVE && (name.includes('_') || name.includes('-'));
}
