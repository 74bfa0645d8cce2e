export interface ServerNames {
  readonly server: string;
  readonly tools: readonly string[];
}

interface Mention {
  readonly what: string;
  readonly at: number;
  readonly grave: boolean;
}

/** Names that mean a server only beside one of these words: `git` and `time` are words of every description. */
const ABOUT_SERVERS: ReadonlySet<string> = new Set(['server', 'mcp', 'servers']);
/** Names of tools that do not occur by chance are that long, or are made of several words. */
const MIN_TELLING = 5;
const MAX_NAMES = 20_000;

/** Names of all other servers and their tools: a description that mentions them may be shadowing. */
export class OtherNames {
  readonly #servers = new Set<string>();
  /** By name in lower case, the server that has the tool. */
  readonly #tools = new Map<string, string>();
  readonly #own: ReadonlySet<string>;

  constructor(own: ServerNames, others: Iterable<ServerNames>) {
    this.#own = new Set([own.server, ...own.tools].map((name) => name.toLowerCase()));
    for (const { server, tools } of others) {
      if (server === own.server || this.#tools.size > MAX_NAMES) continue;
      this.#servers.add(server.toLowerCase());
      for (const tool of tools) {
        const name = tool.toLowerCase();
        this.#tools.set(name, server);
        this.#tools.set(`${server.toLowerCase()}__${name}`, server);
      }
    }
  }

  /** The other server that has a tool of exactly this name; null without one. */
  ownerOf(tool: string): string | null {
    return this.#tools.get(tool.toLowerCase()) ?? null;
  }

  /** The first name of another server in a text, by its words in lower case. */
  mentionedIn(words: readonly { readonly word: string; readonly at: number }[]): Mention | null {
    for (let i = 0; i < words.length; i++) {
      const { word, at } = words[i]!;
      if (this.#own.has(word)) continue;
      const owner = this.#tools.get(word);
      if (owner !== undefined && isTelling(word)) {
        return { what: `${word} of ${owner}`, at, grave: word.includes('__') };
      }
      if (!this.#servers.has(word)) continue;
      const beside = words[i + 1]?.word ?? '';
      const before = words[i - 1]?.word ?? '';
      if (ABOUT_SERVERS.has(beside) || ABOUT_SERVERS.has(before))
        return { what: `the server ${word}`, at, grave: false };
    }
    return null;
  }
}

function isTelling(name: string): boolean {
  return name.length >= MIN_TELLING && (name.includes('_') || name.includes('-'));
}
