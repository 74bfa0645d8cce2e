import { allPinned, digestOf } from '../../catalog/drift/definition-digest.ts';
import { NamesOfServers, OtherNames } from '../../catalog/drift/other-names.ts';
import { type Definition, type Finding, onlyKindOf, type Pin, pinKey } from '../../model/drift.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';

/** Kinds of client that are remembered per server, and definitions seen outside of any catalog. */
const MAX_KINDS = 16;
const MAX_UNLISTED = 256;
const MAX_UNLISTED_BYTES = 4 * 1024 * 1024;

/** The kind of a client: its era and declared capabilities. A server may offer each kind other definitions. */
export function kindOf({ handshake, fingerprint }: ServerCatalog): string {
  return `${handshake.era} ${fingerprint}`;
}

interface ServerDefinitions {
  /** The catalog listed last for each kind of client. */
  readonly kinds: Map<string, ServerCatalog>;
  /** The catalogs of single clients' own processes, by digest, as long as they are in use. */
  readonly own: Map<string, WeakRef<ServerCatalog>>;
  /** Definitions in answers to clients since the last listing, by pin key and digest. */
  readonly unlisted: Map<string, Definition>;
}

/** The definitions that servers offer to all kinds of client, as the servers wrote them. */
export class OfferedDefinitions {
  readonly #servers = new Map<string, ServerDefinitions>();
  readonly #names = new NamesOfServers();
  readonly #findings = new WeakMap<ServerCatalog, readonly Finding[]>();

  listed(catalog: ServerCatalog, findings: readonly Finding[]): void {
    this.found(catalog, findings);
    this.#keep(this.#of(catalog.server), catalog);
    this.#names.set(catalog.server, this.#tools(catalog.server));
  }

  #keep(server: ServerDefinitions, catalog: ServerCatalog): void {
    if (catalog.own === true) {
      for (const [digest, kept] of server.own) if (kept.deref() === undefined) server.own.delete(digest);
      server.own.set(catalog.digest, new WeakRef(catalog));
      if (server.own.size > MAX_KINDS) server.own.delete(server.own.keys().next().value!);
      return;
    }
    const kind = kindOf(catalog);
    // A stored catalog may be inspected after a newer listing.
    if ((server.kinds.get(kind)?.listedAt ?? 0) > catalog.listedAt) return;
    server.kinds.delete(kind);
    server.kinds.set(kind, catalog);
    if (server.kinds.size > MAX_KINDS) server.kinds.delete(server.kinds.keys().next().value!);
    server.unlisted.clear();
  }

  foundUnlisted(server: string, definition: Definition): void {
    const { unlisted } = this.#of(server);
    const bytes = unlisted.values().reduce((sum, one) => sum + one.bytes.length, definition.bytes.length);
    if (unlisted.size < MAX_UNLISTED && bytes <= MAX_UNLISTED_BYTES)
      unlisted.set(`${pinKey(definition)} ${definition.digest}`, definition);
  }

  forget(known: ReadonlySet<string>): void {
    for (const name of this.#servers.keys()) {
      if (known.has(name)) continue;
      this.#servers.delete(name);
      this.#names.delete(name);
    }
  }

  isListed(server: string): boolean {
    return (this.#servers.get(server)?.kinds.size ?? 0) > 0;
  }

  /** Whether a pinned name that no client is offered is gone: for a single kind of client, only if that kind was listed. */
  isGone(server: string, pin: Pin): boolean {
    const kinds = this.#servers.get(server)?.kinds;
    const only = onlyKindOf(pin);
    return kinds !== undefined && kinds.size > 0 && (only === null || kinds.has(only));
  }

  *catalogs(server: string): Generator<ServerCatalog, void, undefined> {
    const known = this.#servers.get(server);
    if (known === undefined) return;
    yield* known.kinds.values();
    for (const kept of known.own.values()) {
      const catalog = kept.deref();
      if (catalog !== undefined) yield catalog;
    }
  }

  /** The findings in what any kind of client is offered, each once. */
  findings(server: string): readonly Finding[] {
    const findings = [...this.catalogs(server)].flatMap((catalog) => this.#findings.get(catalog) ?? []);
    return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
  }

  found(catalog: ServerCatalog, findings: readonly Finding[]): void {
    this.#findings.set(catalog, findings);
  }

  /** Every definition that any kind of client is offered, once. */
  *definitions(server: string): Generator<Definition, void, undefined> {
    const seen = new Set<string>();
    const known = this.#servers.get(server);
    for (const catalog of this.catalogs(server)) {
      for (const { list, item } of allPinned(catalog)) {
        const definition = { list, key: item.key, digest: digestOf(item), bytes: item.bytes };
        const id = `${pinKey(definition)} ${definition.digest}`;
        if (seen.has(id)) continue;
        seen.add(id);
        yield definition;
      }
    }
    for (const [id, unlistedItem] of known?.unlisted ?? []) if (!seen.has(id)) yield unlistedItem;
  }

  /** The names of the other servers and of their tools. */
  others(server: string, present: ServerCatalog | null): OtherNames {
    return new OtherNames(this.#names, server, present === null ? this.#tools(server) : toolsOf(present));
  }

  #tools(server: string): string[] {
    return [...this.catalogs(server)].flatMap(toolsOf);
  }

  #of(name: string): ServerDefinitions {
    let server = this.#servers.get(name);
    if (server === undefined) {
      server = { kinds: new Map(), own: new Map(), unlisted: new Map() };
      this.#servers.set(name, server);
    }
    return server;
  }
}

function toolsOf(catalog: ServerCatalog): string[] {
  return catalog.lists.tools.items.map(({ key }) => key);
}
