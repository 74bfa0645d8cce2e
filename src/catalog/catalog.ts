import { createHash } from 'node:crypto';
import type { Era, Message } from '../model/message.ts';
import { toolNameFault } from '../model/names.ts';
import { type Capability, LIST_KINDS, type ListKind, type ServerCatalog } from '../model/server-catalog.ts';
import { result } from '../protocol/compose.ts';
import { listOf } from '../protocol/methods.ts';
import { type CatalogMember, type Declared, declaredBy, serversWithMethod } from './catalog-member.ts';
import type { CursorWriter } from './cursor.ts';
import { type ExposedItem, writeItems } from './exposed-items.ts';
import type { NameNotice } from './exposed-names.ts';
import { isLoginCatalog } from './login-catalog.ts';
import { NameTable, type TableEntry } from './name-table.ts';
import { ResourceTable, type ResourceTarget } from './resource-table.ts';

interface MergeOptions {
  /** Callers of another group must not page through the catalog. */
  readonly callerGroup: string;
  /** Whether all callers see this catalog. */
  readonly unfiltered: boolean;
  /** No server, visible to this caller or not, is named `mcp`. */
  readonly bridged: boolean;
  readonly cursors: CursorWriter;
  /** `Implementation` object of the gateway, as JSON text. */
  readonly serverInfo: string;
}

/** Immutable snapshot of what the aggregate exposes to one caller group. Serialized lists are shared per era. */
export class Catalog {
  /** Catalogs with equal versions have equal content. Cursors contain the version. */
  readonly version: string;
  readonly callerGroup: string;
  readonly bridged: boolean;
  readonly members: readonly CatalogMember[];
  readonly declared: ReadonlyMap<string, Declared>;
  /** Names that were changed or are not offered, for operators. */
  readonly notices: readonly NameNotice[];
  /** Whether every member was listed; a login catalog does not count. */
  readonly complete: boolean;
  /** Members that declare resources, in order; the gateway asks them for a URI that no member lists. */
  readonly resourceServers: readonly string[];
  readonly #options: MergeOptions;
  readonly #tools: NameTable;
  readonly #prompts: NameTable;
  readonly #resources: ResourceTable;
  readonly #pages = new Map<string, ListPages>();
  readonly #digests = new Map<ListKind, string>();
  readonly #catalogs: ReadonlyMap<string, ServerCatalog | null>;

  /** Merges the members in order. Pure: the same members give the same names, bytes and version. */
  constructor(members: readonly CatalogMember[], options: MergeOptions) {
    const notices: NameNotice[] = [];
    const servers = members.map(({ server }) => server);
    const listed = members.flatMap(({ server, catalog }) =>
      catalog === null ? [] : [{ server, handshake: catalog.handshake }],
    );
    this.#options = options;
    this.version = versionOf(members, options);
    this.callerGroup = options.callerGroup;
    this.bridged = options.bridged;
    this.members = members;
    this.declared = new Map(listed.map(({ server, handshake }) => [server, declaredBy(handshake)]));
    this.#catalogs = new Map(members.map(({ server, catalog }) => [server, catalog]));
    this.#tools = new NameTable(offeredTools(members, notices), options.bridged);
    this.#prompts = new NameTable(entriesOf(members, 'prompts'), options.bridged);
    const [resources, templates] = [entriesOf(members, 'resources'), entriesOf(members, 'resourceTemplates')];
    this.#resources = new ResourceTable(servers, resources, templates);
    this.notices = [...notices, ...this.#tools.notices, ...this.#prompts.notices];
    this.complete = members.every(({ catalog }) => catalog !== null && !isLoginCatalog(catalog));
    this.resourceServers = servers.filter((server) => this.declared.get(server)?.resources === true);
  }

  /** The catalog of a member; null if it was never listed. */
  catalogOf(server: string): ServerCatalog | null {
    return this.#catalogs.get(server) ?? null;
  }

  /** Members that may implement this method of an extension, in order. */
  serversWith(method: string): readonly string[] {
    return serversWithMethod(this.members, this.declared, method);
  }

  tool(name: string): ExposedItem | null {
    return this.#tools.find(name);
  }

  /** The tools that are offered of one server. */
  toolsOf(server: string): readonly ExposedItem[] {
    return this.#tools.targets.filter((target) => target.server === server);
  }

  prompt(name: string): ExposedItem | null {
    return this.#prompts.find(name);
  }

  resource(uri: string): ResourceTarget | null {
    return this.#resources.find(uri);
  }

  /** The template or resource that `ref/resource` of a completion names. */
  resourceReference(uri: string): ResourceTarget | null {
    return this.#resources.findReference(uri);
  }

  /** The exposed names that an ambiguous own name or URI could mean, for the error message. */
  choices(kind: ListKind, name: string): readonly string[] {
    if (kind === 'tools') return this.#tools.namesakes(name).map((target) => target.exposed);
    if (kind === 'prompts') return this.#prompts.namesakes(name).map((target) => target.exposed);
    return this.#resources.choices(name);
  }

  /** The exposed URI of a server's own URI. */
  exposedUri(server: string, uri: string): string {
    return this.#resources.exposed(server, uri);
  }

  /** All offered items, in order, with the bytes of their servers. */
  items(kind: ListKind): readonly ExposedItem[] {
    if (kind === 'tools') return this.#tools.targets;
    if (kind === 'prompts') return this.#prompts.targets;
    return kind === 'resources' ? this.#resources.resources : this.#resources.templates;
  }

  /** One page of a list, with a placeholder id; null if there is no such page. `wall`: the current wall-clock time. */
  page(kind: ListKind, era: Era, index: number, wall: number): Message | null {
    return this.#pagesOf(kind, era).page(index, era === 'stateful' ? 0 : this.#ttlMs(kind, wall));
  }

  /** Digest of all offered items of a list. */
  digest(kind: ListKind): string {
    let digest = this.#digests.get(kind);
    if (digest === undefined) {
      const hash = createHash('sha256');
      for (const { exposed, server, item } of this.items(kind))
        hash.update(`${server}\0${exposed}\0`).update(item.bytes);
      digest = hash.digest('base64url');
      this.#digests.set(kind, digest);
    }
    return digest;
  }

  #pagesOf(kind: ListKind, era: Era): ListPages {
    const key = `${kind} ${era}`;
    let pages = this.#pages.get(key);
    if (pages === undefined) {
      const { resultKey } = listOf(kind);
      const { cursors, serverInfo } = this.#options;
      pages = new ListPages(writeItems(kind, this.items(kind), this.members, era), {
        era,
        resultKey,
        cacheScope: this.#cacheScope(kind),
        serverInfo,
        cursor: (page) => cursors.write({ version: this.version, kind, page }),
      });
      this.#pages.set(key, pages);
    }
    return pages;
  }

  /** The remaining time of the shortest `ttlMs` of the members that declare the list, in whole seconds (C3, C9). */
  #ttlMs(kind: ListKind, wall: number): number {
    if (!this.complete) return 0;
    let left = Number.POSITIVE_INFINITY;
    for (const member of this.#contributors(kind)) {
      const { listedAt, lists } = member.catalog!;
      left = Math.min(left, listedAt + lists[kind].ttlMs - wall, lists[kind].ttlMs);
    }
    return Number.isFinite(left) && left > 0 ? Math.floor(left / 1000) * 1000 : 0;
  }

  /** `public` only if all callers see this catalog, all members of the list say `public`, and no policy removed an item (C9). */
  #cacheScope(kind: ListKind): 'public' | 'private' {
    if (!this.#options.unfiltered || !this.complete) return 'private';
    const contributors = this.#contributors(kind);
    const open = contributors.every(
      (member) => member.catalog!.lists[kind].cacheScope === 'public' && leftOut(member, kind).length === 0,
    );
    return open && contributors.length > 0 ? 'public' : 'private';
  }

  #contributors(kind: ListKind): readonly CatalogMember[] {
    const { capability } = listOf(kind);
    return this.members.filter((member) => this.declared.get(member.server)?.[capability] === true);
  }
}

/** Whether the content of a list differs between two catalogs. */
export function listDiffers(before: Catalog, after: Catalog, kind: ListKind): boolean {
  return before.version !== after.version && before.digest(kind) !== after.digest(kind);
}

/** Digest of everything that the catalog is built from. */
export function versionOf(
  members: readonly CatalogMember[],
  { callerGroup, bridged }: Pick<MergeOptions, 'callerGroup' | 'bridged'>,
): string {
  const hash = createHash('sha256').update(bridged ? callerGroup : `${callerGroup}\0unbridged`);
  for (const member of members) {
    hash.update(`\0${member.server}\0${member.catalog === null ? '' : member.catalog.digest}`);
    for (const kind of member.lists === null ? [] : LIST_KINDS) {
      for (const { key } of leftOut(member, kind)) hash.update(`\0-${kind}\0${key}`);
    }
  }
  return hash.digest('base64url').slice(0, 16);
}

function offeredTools(members: readonly CatalogMember[], notices: NameNotice[]): TableEntry[] {
  return entriesOf(members, 'tools').filter(({ server, item }) => {
    const reason = toolNameFault(item.key);
    if (reason !== null) notices.push({ server, name: item.key, exposed: null, reason });
    return reason === null;
  });
}

function entriesOf(members: readonly CatalogMember[], kind: ListKind): TableEntry[] {
  return members.flatMap(({ server, catalog, lists }) => {
    const items = (catalog?.lists[kind].items ?? []).filter(({ key }) => lists?.(kind, key) !== false);
    return items.map((item) => ({ server, item }));
  });
}

function leftOut({ catalog, lists }: CatalogMember, kind: ListKind): readonly Capability[] {
  return lists === null ? [] : (catalog?.lists[kind].items ?? []).filter(({ key }) => !lists(kind, key));
}

/** Limits of one page; an item larger than `PAGE_BYTES` has a page of its own. */
const PAGE_ITEMS = 250;
const PAGE_BYTES = 1024 * 1024;

interface PageFrame {
  readonly era: Era;
  readonly resultKey: string;
  readonly cacheScope: 'public' | 'private';
  /** `Implementation` object of the gateway, for `_meta` of stateless results. */
  readonly serverInfo: string;
  /** The cursor of a page by its index. */
  readonly cursor: (page: number) => string;
}

/** One list in pages, each serialized with a placeholder id, and again only when the remaining `ttlMs` changes (C9). */
class ListPages {
  readonly #frame: PageFrame;
  readonly #pages: readonly (readonly Buffer[])[];
  readonly #written: { readonly ttlMs: number; readonly message: Message }[] = [];

  constructor(items: readonly Buffer[], frame: PageFrame) {
    this.#frame = frame;
    this.#pages = paginate(items);
  }

  /** Returns null if there is no such page. */
  page(index: number, ttlMs: number): Message | null {
    const items = this.#pages[index];
    if (items === undefined) return null;
    const known = this.#written[index];
    if (known?.ttlMs === ttlMs) return known.message;
    const message = result('0', this.#write(items, index, ttlMs), this.#frame.era);
    this.#written[index] = { ttlMs, message };
    return message;
  }

  #write(items: readonly Buffer[], index: number, ttlMs: number): Buffer {
    const { era, resultKey, cacheScope, serverInfo, cursor } = this.#frame;
    const stateless = era === 'stateless';
    const parts: Buffer[] = [Buffer.from(`{${stateless ? '"resultType":"complete",' : ''}"${resultKey}":[`)];
    items.forEach((item, i) => {
      if (i > 0) parts.push(COMMA);
      parts.push(item);
    });
    let tail = ']';
    if (index + 1 < this.#pages.length) tail += `,"nextCursor":${JSON.stringify(cursor(index + 1))}`;
    if (stateless) {
      tail += `,"ttlMs":${ttlMs},"cacheScope":"${cacheScope}"`;
      tail += `,"_meta":{"io.modelcontextprotocol/serverInfo":${serverInfo}}`;
    }
    parts.push(Buffer.from(`${tail}}`));
    return Buffer.concat(parts);
  }
}

const COMMA = Buffer.from(',');

function paginate(items: readonly Buffer[]): Buffer[][] {
  const pages: Buffer[][] = [[]];
  let size = 0;
  for (const item of items) {
    let page = pages[pages.length - 1]!;
    if (page.length > 0 && (page.length === PAGE_ITEMS || size + item.length > PAGE_BYTES)) {
      page = [];
      pages.push(page);
      size = 0;
    }
    page.push(item);
    size += item.length;
  }
  return pages;
}
