import type { ClientProfile } from '../model/client-profile.ts';
import { LATEST_STATELESS, type Message, type Revision, STATELESS_REVISIONS } from '../model/message.ts';
import type { HandshakeResult } from '../model/server-catalog.ts';
import { bodyField, bodyString } from './body.ts';
import { request } from './compose.ts';
import {
  decodeString,
  type Entry,
  elements,
  entries,
  field,
  fieldAt,
  fields,
  fullRange,
  isObject,
  type Range,
  stringValue,
} from './fields.ts';
import { SERVER_INFO_KEY } from './meta-keys.ts';
import { type Change, editObject, metaChange, validMembers } from './splice.ts';
import { clientMeta } from './stateless/to-stateless.ts';
import { tasksToStateful, tasksToStateless, withoutTasks } from './tasks.ts';

/** For peers that must be named and did not name themselves. */
const UNNAMED = '{"name":"unknown","version":"0"}';
const COMMA = Buffer.from(',');

/** `server/discover` to a server, with the client's own declaration. `id` is a lexeme. */
export function discoverRequest(id: string, client: Pick<ClientProfile, 'capabilities' | 'info'>): Message {
  const said = clientMeta(client).filter(([, json]) => json !== null);
  const meta = said.map(([key, json]) => `${JSON.stringify(key)}:${json}`).join(',');
  return request('server/discover', id, `{"_meta":{${meta}}}`, 'stateless');
}

/** `initialize` with the client's own declaration, without tasks: neither kind has a meaning here. `id` is a lexeme. */
export function initializeRequest(
  id: string,
  { capabilities, info }: Pick<ClientProfile, 'capabilities' | 'info'>,
  revision: Revision,
): Message {
  const declared = `"capabilities":${withoutTasks(capabilities)},"clientInfo":${info ?? UNNAMED}`;
  return request('initialize', id, `{"protocolVersion":"${revision}",${declared}}`, 'stateful');
}

/** `revision` is the newest one that the server and the gateway share; the gateway's newest if they share none. */
export function handshakeFromDiscover(result: Message): HandshakeResult {
  const { bytes, bodyStart, bodyEnd } = result;
  const versions = bodyField(result, 'supportedVersions');
  const offered =
    versions === null ? [] : Array.from(elements(bytes, versions.start, versions.end), (v) => stringValue(bytes, v));
  const revision = STATELESS_REVISIONS.findLast((known) => offered.includes(known)) ?? LATEST_STATELESS;
  return handshakeOf(result, 'stateless', revision, fieldAt(bytes, bodyStart, bodyEnd, ['_meta', SERVER_INFO_KEY]));
}

/** `revision` is what the server answered, known to the gateway or not; empty if it named none. */
export function handshakeFromInitialize(result: Message): HandshakeResult {
  const revision = bodyString(result, 'protocolVersion') ?? '';
  return handshakeOf(result, 'stateful', revision, bodyField(result, 'serverInfo'));
}

function handshakeOf(
  result: Message,
  era: HandshakeResult['era'],
  revision: string,
  serverInfo: Range | null,
): HandshakeResult {
  const { bytes, bodyStart, bodyEnd } = result;
  // Lists join these texts with those of other servers.
  const sound = (range: Range | null): string | null =>
    isObject(bytes, range) ? validMembers(bytes.subarray(range.start, range.end)).toString() : null;
  const [capabilities = null, instructions = null] = fields(bytes, bodyStart, bodyEnd, [
    'capabilities',
    'instructions',
  ]);
  return {
    era,
    revision,
    // A copy: the handshake is held as long as the connection, and must not keep the chunk that it arrived in alive.
    result: Buffer.from(result.body),
    serverInfo: sound(serverInfo),
    capabilities: sound(capabilities) ?? '{}',
    instructions: stringValue(bytes, instructions),
  };
}

/** The `server/discover` result for a stateless client. Names the versions that the gateway serves, not those of the server. */
export function discoverResult(
  { result, era, capabilities, serverInfo }: HandshakeResult,
  { ttlMs, cacheScope }: { readonly ttlMs: number; readonly cacheScope: 'public' | 'private' },
): Buffer {
  const changes: Change[] = era === 'stateful' ? [['resultType', '"complete"']] : [];
  changes.push(['supportedVersions', JSON.stringify(STATELESS_REVISIONS)]);
  changes.push(['ttlMs', String(ttlMs)], ['cacheScope', `"${cacheScope}"`]);
  if (era === 'stateful') {
    changes.push(['protocolVersion', null], ['serverInfo', null], ['capabilities', tasksToStateless(capabilities)]);
    const meta = serverInfo === null ? null : metaChange(result, fullRange(result), [[SERVER_INFO_KEY, serverInfo]]);
    if (meta !== null) changes.push(meta);
  }
  return editObject(result, fullRange(result), changes);
}

/** The `initialize` result for a stateful client in its revision. Changes only members of the other era. */
export function initializeResult(
  { result, era, capabilities, serverInfo }: HandshakeResult,
  revision: Revision,
): Buffer {
  const changes: Change[] = [['protocolVersion', JSON.stringify(revision)]];
  if (era === 'stateless') {
    changes.push(['serverInfo', serverInfo ?? UNNAMED]);
    changes.push(['supportedVersions', null], ['resultType', null], ['ttlMs', null], ['cacheScope', null]);
    const meta = metaChange(result, fullRange(result), [[SERVER_INFO_KEY, null]]);
    if (meta !== null) changes.push(meta);
    changes.push(['capabilities', withExperimental(tasksToStateful(capabilities))]);
  }
  return editObject(result, fullRange(result), changes);
}

/** These revisions have extensions only under `experimental`. They also stay in their own place. */
function withExperimental(capabilities: string): Buffer {
  const bytes = Buffer.from(capabilities);
  const extensions = field(bytes, 0, bytes.length, 'extensions');
  if (!isObject(bytes, extensions)) return bytes;
  const known = field(bytes, 0, bytes.length, 'experimental');
  const experimental = isObject(bytes, known) ? bytes.subarray(known.start, known.end) : Buffer.from('{}');
  const keyOf = ({ keyStart, keyEnd }: Entry, of: Buffer): string | null => decodeString(of, keyStart, keyEnd);
  const has = new Set(Array.from(entries(experimental, 0, experimental.length), (entry) => keyOf(entry, experimental)));
  const added: Buffer[] = [];
  for (const entry of entries(bytes, extensions.start, extensions.end)) {
    const key = keyOf(entry, bytes);
    if (key !== null && !has.has(key)) added.push(bytes.subarray(entry.keyStart, entry.valueEnd), COMMA);
  }
  if (added.length === 0) return bytes;
  if (has.size === 0) added.pop();
  const all = Buffer.concat([experimental.subarray(0, 1), ...added, experimental.subarray(1)]);
  return editObject(bytes, fullRange(bytes), [['experimental', all]]);
}
