import { createHash, type Hash } from 'node:crypto';
import { kindAt } from '../../model/caller-partition.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import type { Server } from '../../model/server.ts';
import { bodyField, bodyString } from '../../protocol/body.ts';
import { canonical } from '../../protocol/canonical.ts';
import { decodeString, entries, type Range } from '../../protocol/fields.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
} from '../../protocol/meta-keys.ts';
import { LIST_METHODS } from '../../protocol/methods.ts';
import { isUpdate, isWithin } from '../resource-updates.ts';

/** What a request asks for, as far as notifications can make its answer outdated. */
export interface Subject {
  readonly server: string;
  readonly method: string;
  /** The URI of `resources/read`; null for lists. */
  readonly uri: string | null;
  /** Whether it asks for a page after the first. */
  readonly continued: boolean;
}

export interface CacheKey {
  /** The key of an answer that all callers of the server may get. */
  readonly shared: string;
  /** The key of an answer for this caller alone; requests in flight with the same key are coalesced. */
  readonly own: string;
  readonly subject: Subject;
  /** The caller wants progress or log messages of the request, so it cannot share another caller's request. */
  readonly alone: boolean;
}

const OF_ENVELOPE: ReadonlySet<string> = new Set(['_meta']);
/** Members of `_meta` that describe the caller and its reporting, and do not affect the answer. */
const UNAFFECTING: ReadonlySet<string> = new Set([
  PROTOCOL_VERSION_KEY,
  CLIENT_INFO_KEY,
  CLIENT_CAPABILITIES_KEY,
  LOG_LEVEL_KEY,
  'progressToken',
  'traceparent',
  'tracestate',
  'baggage',
]);

/**
 * The cache key of a request (C1, C2, C4): the server as it is configured (its name and connection, never what it says of
 * itself), the method, all params that may affect the result, the client's declared capabilities, and for private answers the
 * caller. Returns null if the answer must not be cached, such as in an input round, whose answer depends on data in no key
 * (C5).
 */
export function cacheKey(server: Server, request: Message, client: ClientProfile): CacheKey | null {
  const { bytes, bodyStart, bodyEnd, method } = request;
  const params = bodyStart < 0 ? EMPTY : membersOf(bytes, { start: bodyStart, end: bodyEnd });
  if (params === null || params.has('inputResponses') || params.has('requestState')) return null;
  const uri = bodyString(request, 'uri');
  if (method === 'resources/read' && uri === null) return null;
  const meta = bodyField(request, '_meta');
  const said = meta === null ? EMPTY : bytes[meta.start] === 0x7b ? membersOf(bytes, meta) : null;
  if (said === null) return null;
  const logs = client.logLevel !== null;
  const hash = createHash('sha256').update(`${server.connectionDigest}\n${kindAt(server, client)}\n`);
  write(hash, params, OF_ENVELOPE);
  write(hash, said, UNAFFECTING);
  const shared = `${server.name} ${method} ${hash.digest('base64url')}`;
  return {
    shared,
    own: `${shared} ${callerGroup(server, client)}`,
    subject: { server: server.name, method, uri, continued: params.has('cursor') },
    alone: said.has('progressToken') || said.has(LOG_LEVEL_KEY) || (request.era === 'stateful' && logs),
  };
}

const EMPTY: ReadonlyMap<string, string> = new Map();

/** The members by decoded key; null for a duplicate member, as parsers disagree about which one counts. */
function membersOf(bytes: Buffer, object: Range): ReadonlyMap<string, string> | null {
  const members = new Map<string, string>();
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, object.start, object.end)) {
    const key = decodeString(bytes, keyStart, keyEnd);
    if (key === null || members.has(key)) return null;
    // Objects are compared as written: two spellings of one value are two keys, which only costs a miss.
    const value = bytes.subarray(valueStart, valueEnd);
    members.set(key, value[0] === 0x22 ? canonical(value) : value.toString('latin1'));
  }
  return members;
}

function write(hash: Hash, members: ReadonlyMap<string, string>, but: ReadonlySet<string>): void {
  for (const key of [...members.keys()].sort()) {
    if (!but.has(key)) hash.update(`${JSON.stringify(key)}:${members.get(key)}\n`);
  }
  hash.update('\n');
}

/** The owner of a private answer: the caller, and what isolates the caller's requests from each other. */
function callerGroup({ isolation }: Server, { principal, handle, sessionId }: ClientProfile): string {
  return JSON.stringify([principal.id, handle, isolation === 'session' ? sessionId : null]);
}

const READ = 'resources/read';

/**
 * Returns which answers a notification makes outdated (C6): the lists that it names; reads of the resource, or of one that
 * contains it. A changed list of resources concerns all reads, because a resource may be gone. null (a lost notification): all.
 */
export function concernedBy(notification: Message | null): (subject: Subject) => boolean {
  if (notification === null) return () => true;
  if (isUpdate(notification)) {
    const updated = bodyString(notification, 'uri');
    return ({ method, uri }) => method === READ && (updated === null || (uri !== null && isWithin(updated, uri)));
  }
  const lists = LIST_METHODS.filter(({ changed }) => changed === notification.method);
  const methods = new Set<string>(lists.map(({ method }) => method));
  if (lists.some(({ capability }) => capability === 'resources')) methods.add(READ);
  return ({ method }) => methods.has(method);
}
