import type { Capability } from '../model/server-catalog.ts';
import { matchableTemplates, type UriTemplate } from '../protocol/uri-template.ts';
import { isAlwaysWrapped, isWrapped, unwrapUri, wrapUri } from './exposed-uris.ts';
import type { TableEntry } from './name-table.ts';

export interface ResourceTarget {
  readonly server: string;
  readonly uri: string;
  readonly exposed: string;
}

interface Offered extends ResourceTarget {
  readonly item: Capability;
}

/**
 * Resources and templates by URI. A URI of one server is exposed unchanged. A URI of several servers is exposed wrapped for
 * each of them and leads nowhere in its original form, so that a server added later never takes over a URI. `ui` and `skill`
 * URIs, and URIs that look wrapped, are exposed wrapped in any case; the former also lead to their server in the original
 * form while only one server offers them.
 */
export class ResourceTable {
  readonly resources: readonly Offered[];
  readonly templates: readonly Offered[];
  readonly #servers: ReadonlySet<string>;
  readonly #resources = new Map<string, Offered>();
  readonly #templates = new Map<string, Offered>();
  /** Items that are exposed wrapped although only one server has them, by own URI. */
  readonly #bare = new Map<string, ResourceTarget>();
  /** The exposed URIs of own URIs that several servers have. */
  readonly #contested = new Map<string, readonly string[]>();
  readonly #wrapped = new Set<string>();
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

  /** Looks in the table, then for the server that a wrapped URI names, then for the most specific template that matches. */
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

  /** The wrapped URIs that an ambiguous URI could mean. */
  choices(uri: string): readonly string[] {
    return this.#contested.get(uri) ?? [];
  }

  /** The exposed URI of a server's own URI. */
  exposed(server: string, uri: string): string {
    const wrapped = wrapUri(server, uri);
    return isAlwaysWrapped(uri) || this.#wrapped.has(wrapped) ? wrapped : uri;
  }

  #offer(entries: readonly TableEntry[], table: Map<string, Offered>): readonly Offered[] {
    const contested = new Map<string, readonly string[]>();
    for (const [uri, owners] of Map.groupBy(entries, ({ item }) => item.key)) {
      const shared = new Set(owners.map(({ server }) => wrapUri(server, uri)));
      if (shared.size > 1) contested.set(uri, [...shared]);
    }
    for (const [uri, shared] of contested) {
      this.#contested.set(uri, shared);
      for (const wrapped of shared) this.#wrapped.add(wrapped);
    }
    const offered: Offered[] = [];
    for (const { server, item } of entries) {
      const uri = item.key;
      const exposed = contested.has(uri) || isAlwaysWrapped(uri) ? wrapUri(server, uri) : uri;
      if (table.has(exposed)) continue;
      if (!contested.has(uri) && exposed !== uri && !isWrapped(uri)) this.#bare.set(uri, { server, uri, exposed: uri });
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

/** Characters of a template's literal prefix that are indexed. */
const INDEXED = 64;

/** Templates of all servers by literal prefix, so that a URI is compared only with those that it can match. */
class TemplateIndex {
  /** Lower ranks are more specific; of equally specific ones, the first has the lower rank. */
  readonly #byPrefix: ReadonlyMap<string, readonly (TemplateEntry & { readonly rank: number })[]>;
  readonly #lengths: readonly number[];

  constructor(entries: readonly TemplateEntry[]) {
    const ranked = entries
      .toSorted((a, b) => b.template.literalLength - a.template.literalLength)
      .map((entry, rank) => ({ ...entry, rank }));
    this.#byPrefix = Map.groupBy(ranked, ({ template }) => template.prefix.slice(0, INDEXED));
    this.#lengths = [...new Set([...this.#byPrefix.keys()].map((prefix) => prefix.length))];
  }

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
