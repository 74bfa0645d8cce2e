import { createHash } from 'node:crypto';
import type { ClientProfile } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { toolNameFault } from '../../model/names.ts';
import {
  type CachedList,
  type Capability,
  type HandshakeResult,
  type InvalidItem,
  LIST_KINDS,
  type ListKind,
  NO_LIST,
  type ServerCatalog,
} from '../../model/server-catalog.ts';
import { errorCode } from '../../protocol/body.ts';
import { request } from '../../protocol/compose.ts';
import { elements, field, fields, type Range, stringValue } from '../../protocol/fields.ts';
import { discoverRequest, handshakeFromDiscover } from '../../protocol/handshake-results.ts';
import { scanHeaderParams } from '../../protocol/headers.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { MAX_PAGE_ITEMS, portabilityFault, sanitizePage } from '../../protocol/list-page.ts';
import { type ListMethod, listOf } from '../../protocol/methods.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { matchableTemplates } from '../../protocol/uri-template.ts';
import type { Connection } from '../connection/connection.ts';

/** Maximum of pages per list; a server with more is assumed to repeat its cursors. */
const MAX_PAGES = 100;
/** Maximum of items and bytes per list: all later work grows with them. */
const MAX_ITEMS = MAX_PAGE_ITEMS;
const MAX_BYTES = 64 * 1024 * 1024;
/** Maximum of complaints per listing; the log shows fewer. */
const MAX_COMPLAINTS = 100;
/** A handshake result this recent is not requested again. */
const JUST_NOW_MS = 1_000;
/** How long a server that declares no list may take to list tools all the same. */
const UNDECLARED_MS = 5_000;

const UNDECLARED = 'tools/list: the server lists tools that it does not declare ("capabilities": {}); they are offered';

interface Listed {
  readonly catalog: ServerCatalog;
  /** Problems of the lists, as text for the log. */
  readonly complaints: readonly string[];
  /** Items that are left out because clients could not use a list with them. */
  readonly invalid: readonly InvalidItem[];
  /** The server refused a list that it declares; the known list was kept. */
  readonly refused: boolean;
}

/**
 * Lists everything that a server offers to one kind of client, every page of every declared list. Bytes are kept as they came,
 * without items that would make the list unusable. A refused list keeps its content of `before`; a lost connection fails the
 * listing. A stateful server that declares none of the lists is asked for its tools, too: some forget to declare them.
 */
export async function listServer(
  connection: Connection,
  server: string,
  client: ClientProfile,
  timeoutMs: number,
  before: ServerCatalog | null,
  listedAt: number,
): Promise<Listed> {
  const { handshake, saidAt } = await presentHandshake(connection, client, timeoutMs, listedAt);
  const mirrored = handshake.era === 'stateless' && connection.transport.streamPerRequest;
  const undeclared =
    handshake.era === 'stateful' && !LIST_KINDS.some((kind) => declares(handshake, listOf(kind).capability));
  const limitMs = undeclared ? Math.min(timeoutMs, UNDECLARED_MS) : timeoutMs;
  const listing = new Listing(mirrored, (list, cursor) =>
    connection.ask(pageRequest(list, cursor, client, handshake), limitMs),
  );
  const lists = { tools: NO_LIST, prompts: NO_LIST, resources: NO_LIST, resourceTemplates: NO_LIST };
  let refused = false;
  for (const kind of LIST_KINDS) {
    const list = listOf(kind);
    if (!declares(handshake, list.capability)) continue;
    const pages = await listing.allPages(list);
    refused ||= pages === null;
    lists[kind] = pages ?? before?.lists[kind] ?? NO_LIST;
  }
  if (undeclared) {
    const tools = await listing.allPages(listOf('tools')).catch((error: unknown) => {
      if (!connection.ready) throw error;
      return null;
    });
    lists.tools = tools ?? before?.lists.tools ?? NO_LIST;
    // It may refuse what it does not declare.
    if (tools === null) listing.complaints.length = 0;
    else if (tools.items.length > 0) listing.complaints.unshift(UNDECLARED);
  }
  const { complaints, invalid } = listing;
  const digest = digestOf(handshake, lists);
  const catalog = { server, fingerprint: client.fingerprint, digest, handshake, lists, listedAt: saidAt };
  return { catalog, complaints, invalid, refused };
}

/** The handshake result and its time; a new one if the server gave it a time to live and it is not recent. */
async function presentHandshake(
  connection: Connection,
  client: ClientProfile,
  timeoutMs: number,
  wall: number,
): Promise<{ readonly handshake: HandshakeResult; readonly saidAt: number }> {
  const handshake = connection.handshake!;
  const timed = handshake.era === 'stateless' && cacheHints(handshake.result, 0, handshake.result.length).ttlMs > 0;
  if (!timed) return { handshake, saidAt: wall };
  if (wall - connection.createdAt < JUST_NOW_MS) return { handshake, saidAt: Math.min(wall, connection.createdAt) };
  const said = await connection.ask(discoverRequest('0', client), timeoutMs);
  return { handshake: said.kind === 'result' ? handshakeFromDiscover(said) : handshake, saidAt: wall };
}

/** The lists that differ between two catalogs. */
export function differingLists(before: ServerCatalog | null, after: ServerCatalog): ListKind[] {
  if (before === null) return LIST_KINDS.filter((kind) => after.lists[kind].items.length > 0);
  return LIST_KINDS.filter((kind) => !sameItems(before.lists[kind], after.lists[kind]));
}

function sameItems(a: CachedList, b: CachedList): boolean {
  return a.items.length === b.items.length && a.items.every((item, i) => item.bytes.equals(b.items[i]!.bytes));
}

function declares(handshake: HandshakeResult, capability: string): boolean {
  const bytes = Buffer.from(handshake.capabilities);
  return field(bytes, 0, bytes.length, capability) !== null;
}

function pageRequest(
  list: ListMethod,
  cursor: Buffer | null,
  client: ClientProfile,
  handshake: HandshakeResult,
): Message {
  const params = cursor === null ? null : Buffer.concat([Buffer.from('{"cursor":'), cursor, Buffer.from('}')]);
  const message = request(list.method, '0', params, 'stateful');
  return handshake.era === 'stateless' ? toStateless(message, client) : message;
}

class Listing {
  readonly complaints: string[] = [];
  readonly invalid: InvalidItem[] = [];
  /** Calls over this wire mirror parameters in headers: a tool with an invalid declaration of them is left out (H6). */
  readonly #mirrored: boolean;
  readonly #ask: (list: ListMethod, cursor: Buffer | null) => Promise<Message>;

  constructor(mirrored: boolean, ask: (list: ListMethod, cursor: Buffer | null) => Promise<Message>) {
    this.#mirrored = mirrored;
    this.#ask = ask;
  }

  /** Returns null if the server refuses the list. */
  async allPages(list: ListMethod): Promise<CachedList | null> {
    const { complaints } = this;
    const items: Capability[] = [];
    const pages: Buffer[] = [];
    const cursors = new Set<string>();
    let cursor: Buffer | null = null;
    let ttlMs = Number.POSITIVE_INFINITY;
    let shared = true;
    let bytes = 0;
    for (;;) {
      const answer = await this.#ask(list, cursor);
      if (answer.kind === 'error') {
        if (errorCode(answer) === CATALOGUE.METHOD_NOT_FOUND.rpc) return NO_LIST;
        complaints.push(`${list.method} was refused: ${answer.body.toString('utf8', 0, 300)}`);
        return null;
      }
      const { page, cut, invalid } = sanitizePage(list, answer.body, answer.era);
      if (cut)
        complaints.unshift(`${list.method}: a page has more than ${MAX_PAGE_ITEMS} items, the rest is not offered`);
      for (const one of invalid) this.#leaveOut({ list: list.method, page: pages.length, ...one });
      const [array, next] = fields(page, 0, page.length, [list.resultKey, 'nextCursor']);
      // In the stateful revisions, members with these names are not cache hints.
      const hints = answer.era === 'stateless' ? cacheHints(page, 0, page.length) : NO_LIST;
      if (array) this.#collect(list, page, array, items, pages.length);
      pages.push(page);
      bytes += page.length;
      ttlMs = Math.min(ttlMs, hints.ttlMs);
      shared &&= hints.cacheScope === 'public';
      if (!next || page[next.start] !== 0x22) break;
      if (items.length === MAX_ITEMS || bytes >= MAX_BYTES) {
        const taken = `${items.length} items in ${bytes} bytes`;
        complaints.unshift(`${list.method}: stopped after ${taken}, the rest is not offered`);
        break;
      }
      cursor = page.subarray(next.start, next.end);
      const lexeme = cursor.toString('latin1');
      if (cursors.has(lexeme) || pages.length === MAX_PAGES) {
        complaints.push(`${list.method}: stopped after ${pages.length} pages, the cursors go in circles`);
        break;
      }
      cursors.add(lexeme);
    }
    if (list.kind === 'resourceTemplates') {
      const left = items.length - matchableTemplates(items.map(({ key }) => key)).length;
      if (left > 0)
        complaints.unshift(`${list.method}: ${left} templates are too many or too long to match URIs against`);
    }
    return { items, pages, ttlMs, cacheScope: shared ? 'public' : 'private' };
  }

  #collect(list: ListMethod, page: Buffer, array: Range, items: Capability[], pageNumber: number): void {
    const { method, kind, itemKey } = list;
    let index = -1;
    for (const item of elements(page, array.start, array.end)) {
      if (items.length === MAX_ITEMS) {
        this.complaints.unshift(`${method}: a page has more than ${MAX_ITEMS} items, the rest is not offered`);
        return;
      }
      index++;
      const key = stringValue(page, field(page, item.start, item.end, itemKey))!;
      // Such a tool stays in the list of the server's own endpoint; the aggregate leaves it out.
      const fault = kind === 'tools' ? toolNameFault(key) : null;
      if (fault !== null)
        this.#complain(`${method}: the tool ${JSON.stringify(key.slice(0, 200))} is not offered: ${fault}`);
      const bytes = page.subarray(item.start, item.end);
      // The server's own endpoint still lists it: it is JSON and makes no other list unusable there.
      const reason = portabilityFault(bytes);
      if (reason !== '') {
        const name = key.slice(0, 200).toWellFormed();
        this.#leaveOut({ list: method, page: pageNumber, index, item: name, reason });
        continue;
      }
      const params = kind === 'tools' && this.#mirrored ? scanHeaderParams(bytes) : null;
      if (params?.ok === false) this.#complain(`the tool ${key.slice(0, 200)} is not offered: ${params.reason}`);
      else items.push({ key, bytes });
    }
  }

  #complain(complaint: string): void {
    if (this.complaints.length < MAX_COMPLAINTS) this.complaints.push(complaint);
  }

  #leaveOut(item: InvalidItem): void {
    if (this.invalid.length < MAX_COMPLAINTS) this.invalid.push(item);
  }
}

function digestOf(handshake: HandshakeResult, lists: Readonly<Record<ListKind, CachedList>>): string {
  const hash = createHash('sha256').update(handshake.revision).update('\n').update(handshake.result);
  for (const kind of LIST_KINDS) {
    hash.update(`\n${kind}`);
    for (const item of lists[kind].items) hash.update('\n').update(item.bytes);
  }
  return hash.digest('hex').slice(0, 32);
}
