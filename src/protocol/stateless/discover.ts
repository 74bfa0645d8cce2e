import type { ClientProfile } from '../../model/client-profile.ts';
import { LATEST_STATELESS, type Message, STATELESS_REVISIONS } from '../../model/message.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import { bodyField } from '../body.ts';
import { request } from '../compose.ts';
import { type Change, editObject, metaChange } from '../edit-object.ts';
import { elements, fieldAt, stringValue } from '../fields.ts';
import { type HandshakeOverrides, handshakeOf, overridden } from '../handshake-parts.ts';
import { SERVER_INFO_KEY } from '../meta-keys.ts';
import { tasksToStateless } from '../tasks/extension.ts';
import { clientMeta } from './client-meta.ts';

export interface DiscoverOverrides extends HandshakeOverrides {
  readonly supportedVersions?: readonly string[];
  readonly ttlMs?: number;
  readonly cacheScope?: 'public' | 'private';
}

/** `server/discover` towards a server, in the client's own words. `id` is a lexeme. */
export function discoverRequest(id: string, client: Pick<ClientProfile, 'capabilities' | 'info'>): Message {
  const params = `{"_meta":{${clientMeta(client)
    .flatMap(([key, json]) => (json === null ? [] : [`${JSON.stringify(key)}:${json}`]))
    .join(',')}}}`;
  return request('server/discover', id, params, 'stateless');
}

/** `revision` is the newest one that the server and we both speak; our newest where the server names none of ours. */
export function handshakeFromDiscover(result: Message): HandshakeResult {
  const { bytes, bodyStart, bodyEnd } = result;
  const versions = bodyField(result, 'supportedVersions');
  const offered =
    versions === null ? [] : Array.from(elements(bytes, versions.start, versions.end), (v) => stringValue(bytes, v));
  const revision = STATELESS_REVISIONS.findLast((known) => offered.includes(known)) ?? LATEST_STATELESS;
  return handshakeOf(result, 'stateless', revision, fieldAt(bytes, bodyStart, bodyEnd, ['_meta', SERVER_INFO_KEY]));
}

/**
 * The `server/discover` result that presents the server to a stateless client. A stateless server's own result passes
 * but for the overrides; of a stateful server's `initialize` result, everything that is not of its era passes too.
 */
export function discoverResult(handshake: HandshakeResult, overrides: DiscoverOverrides = {}): Buffer {
  const { result } = handshake;
  const whole = { start: 0, end: result.length };
  const changes: Change[] = [];
  let serverInfo = overrides.serverInfo ?? null;
  if (handshake.era === 'stateful') {
    serverInfo ??= handshake.serverInfo;
    changes.push(['resultType', '"complete"'], ['supportedVersions', JSON.stringify(STATELESS_REVISIONS)]);
    changes.push(['ttlMs', '0'], ['cacheScope', '"private"'], ['protocolVersion', null], ['serverInfo', null]);
    changes.push(['capabilities', tasksToStateless(handshake.capabilities)]);
  }
  const meta = serverInfo === null ? null : metaChange(result, whole, [[SERVER_INFO_KEY, serverInfo]]);
  if (meta !== null) changes.push(meta);
  changes.push(...overridden(overrides));
  const { supportedVersions, ttlMs, cacheScope } = overrides;
  if (supportedVersions !== undefined) changes.push(['supportedVersions', JSON.stringify(supportedVersions)]);
  if (ttlMs !== undefined) changes.push(['ttlMs', String(ttlMs)]);
  if (cacheScope !== undefined) changes.push(['cacheScope', `"${cacheScope}"`]);
  return editObject(result, whole, lastOfEach(changes));
}

/** Later changes of a member replace earlier ones. */
function lastOfEach(changes: readonly Change[]): Change[] {
  return [...new Map(changes.map((change) => [change[0], change])).values()];
}
