import type { Capability } from '../model/server-catalog.ts';
import { matchableTemplates, type UriTemplate } from '../protocol/uri-template.ts';
import { isAlwaysWrapped, isWrapped, unwrapUri, wrapUri } from './exposed-uris.ts';
import type { TableEntry } from './name-table.ts';

/** Where a URI leads. */
export interface ResourceTarget {
  readonly server: string;
  /** The server's own URI. */
  readonly uri: string;
  readonly exposed: string;
}

interface Offered extends ResourceTarget {
  readonly item: Capability;
}

/**
 * Resources and templates by URI. A URI that one server offers stays as it is; one that several offer is exposed
 * wrapped for each of them and leads nowhere bare, so that a server added later never takes another's place. One that
 * means something only to its own server, and one of the gateway's own form, is exposed wrapped in any case; the former leads to
 * its server bare, too, while only one offers it.
 */
export class ResourceTable {
  readonly resources: readonly Offered[];
  readonly templates: readonly Offered[];
  readonly #servers: ReadonlySet<string>;
  readonly #resources = new Map<string, Offered>();
  readonly #templates = new Map<string, Offered>();
  /** What is exposed wrapped though one server has it, by its own URI. */
  readonly #bare = new Map<string, ResourceTarget>();
  /** Own URIs that are wrapped because several servers have them, by server. */
  readonly #wrapped = new Map<string, Set<string>>();
  readonly #contested = new Map<string, string[]>();
  readonly #index: TemplateIndex;

  constructor(servers: readonly string[], resources: readonly TableEntry[], templates: readonly TableEntry[]) {
    this.#servers = new Set(servers);
    this.resources = this.#offer(resources, this.#resources);
    this.templates = this.#offer(templates, this.#templates);
    const texts = Map.groupBy(this.templates, ({ server }) => server);
    this.#index = new TemplateIndex(
      [...texts].flatMap(([server, offered]) =>
        matchableTemplates(offered.map(({ uri }) => uri)).map((template) => ({ template, server })),
      ),
    );
  }

  /** By table, by a wrapped URI's own word, then by the templates, the most specific first. */
  find(uri: string): ResourceTarget | null {
    const listed = this.#resources.get(uri) ?? this.#bare.get(uri);
    if (listed !== undefined) return listed;
    if (isWrapped(uri)) {
      const unwrapped = unwrapUri(uri);
      return unwrapped !== null && this.#servers.has(unwrapped.server) ? { ...unwrapped, exposed: uri } : null;
    }
    if (this.#contested.has(uri)) return null;
    const server = this.#index.find(uri);
    return server === null ? null : { server, uri, exposed: uri };
  }

  /** For `ref/resource` of completion, which names a template or a URI. */
  findReference(uri: string): ResourceTarget | null {
    return this.#templates.get(uri) ?? this.find(uri);
  }

  /** The wrapped URIs that a contested one could mean. */
  choices(uri: string): readonly string[] {
    return this.#contested.get(uri) ?? [];
  }

  /** What a server's own URI is called here. */
  exposed(server: string, uri: string): string {
    return isAlwaysWrapped(uri) || this.#wrapped.get(server)?.has(uri) === true ? wrapUri(server, uri) : uri;
  }

  #offer(entries: readonly TableEntry[], table: Map<string, Offered>): readonly Offered[] {
    const owners = new Map<string, Set<string>>();
    for (const { server, item } of entries) {
      const known = owners.get(item.key);
      if (known === undefined) owners.set(item.key, new Set([server]));
      else known.add(server);
    }
    for (const [uri, shared] of owners) {
      if (shared.size > 1)
        this.#contested.set(
          uri,
          [...shared].map((owner) => wrapUri(owner, uri)),
        );
    }
    const offered: Offered[] = [];
    for (const { server, item } of entries) {
      const uri = item.key;
      const shared = owners.get(uri)!;
      const exposed = shared.size > 1 || isAlwaysWrapped(uri) ? wrapUri(server, uri) : uri;
      if (table.has(exposed)) continue;
      if (shared.size === 1 && exposed !== uri && !isWrapped(uri)) this.#bare.set(uri, { server, uri, exposed: uri });
      if (shared.size > 1) {
        const wrapped = this.#wrapped.get(server);
        if (wrapped === undefined) this.#wrapped.set(server, new Set([uri]));
        else wrapped.add(uri);
      }
      const entry = { server, uri, exposed, item };
      table.set(exposed, entry);
      offered.push(entry);
    }
    return offered;
  }
}

interface TemplateEntry {
  readonly template: UriTemplate;
  readonly server: string;
}

/** So much of the literal beginning of a template is looked up; the rest is compared. */
const INDEXED = 64;

/** Templates of all servers by their literal beginning, so that a URI is compared only with those that it can match. */
class TemplateIndex {
  /** Lower ranks are more specific; of equally specific ones the first has the lower rank. */
  readonly #byPrefix: ReadonlyMap<string, readonly (TemplateEntry & { readonly rank: number })[]>;
  readonly #lengths: readonly number[];

  constructor(entries: readonly TemplateEntry[]) {
    const ranked = entries
      .toSorted((a, b) => b.template.literalLength - a.template.literalLength)
      .map((entry, rank) => ({ ...entry, rank }));
    this.#byPrefix = Map.groupBy(ranked, ({ template }) => template.prefix.slice(0, INDEXED));
    this.#lengths = [...new Set([...this.#byPrefix.keys()].map((prefix) => prefix.length))];
  }

  /** The server of the most specific template that matches. */
  find(uri: string): string | null {
    let rank = Number.POSITIVE_INFINITY;
    let server: string | null = null;
    for (const length of this.#lengths) {
      for (const entry of this.#byPrefix.get(uri.slice(0, length)) ?? []) {
        if (entry.rank > rank) break;
        if (!entry.template.matches(uri)) continue;
        ({ rank, server } = entry);
        break;
      }
    }
    return server;
  }
}
