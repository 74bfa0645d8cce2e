import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message, Revision } from '../../model/message.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import { bodyField, bodyString } from '../body.ts';
import { request } from '../compose.ts';
import { type Change, editObject, metaChange } from '../edit-object.ts';
import { decodeString, entries, field } from '../fields.ts';
import { type HandshakeOverrides, handshakeOf, overridden, UNNAMED } from '../handshake-parts.ts';
import { SERVER_INFO_KEY } from '../meta-keys.ts';
import { tasksToStateful, withoutTasks } from '../tasks/extension.ts';

/**
 * `initialize` towards a server, in the client's own words, but for tasks: those that a client runs for servers are not
 * brought to it, and those of the extension mean nothing here. `id` is a lexeme.
 */
export function initializeRequest(
  id: string,
  client: Pick<ClientProfile, 'capabilities' | 'info'>,
  revision: Revision,
): Message {
  const info = client.info ?? UNNAMED;
  const params = `{"protocolVersion":"${revision}","capabilities":${withoutTasks(client.capabilities)},"clientInfo":${info}}`;
  return request('initialize', id, params, 'stateful');
}

/** `revision` is what the server answered, known to us or not; empty where it said nothing. */
export function handshakeFromInitialize(result: Message): HandshakeResult {
  const revision = bodyString(result, 'protocolVersion') ?? '';
  return handshakeOf(result, 'stateful', revision, bodyField(result, 'serverInfo'));
}

/**
 * Extensions have no place in these revisions but under `experimental`. They stand there too: what a
 * client that knows of extensions looks for stays where it was.
 */
function withExperimental(capabilities: Buffer | string): Buffer {
  const bytes = Buffer.from(capabilities);
  const whole = { start: 0, end: bytes.length };
  const extensions = field(bytes, 0, bytes.length, 'extensions');
  if (extensions === null || bytes[extensions.start] !== 0x7b) return bytes;
  const known = field(bytes, 0, bytes.length, 'experimental');
  const experimental =
    known === null || bytes[known.start] !== 0x7b ? Buffer.from('{}') : bytes.subarray(known.start, known.end);
  const added: Change[] = [];
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, extensions.start, extensions.end)) {
    const key = decodeString(bytes, keyStart, keyEnd);
    if (key === null || field(experimental, 0, experimental.length, key) !== null) continue;
    added.push([key, bytes.subarray(valueStart, valueEnd)]);
  }
  if (added.length === 0) return bytes;
  return editObject(bytes, whole, [
    ['experimental', editObject(experimental, { start: 0, end: experimental.length }, added)],
  ]);
}

/**
 * The `initialize` result that presents the server to a stateful client under the revision agreed with that client.
 * A stateful server's own result passes but for that; of a stateless server's `server/discover` result, everything
 * that is not of its era passes too.
 */
export function initializeResult(
  handshake: HandshakeResult,
  revision: Revision,
  overrides: HandshakeOverrides = {},
): Buffer {
  const { result } = handshake;
  const whole = { start: 0, end: result.length };
  const changes: Change[] = [['protocolVersion', JSON.stringify(revision)]];
  if (handshake.era === 'stateful') {
    if (overrides.serverInfo !== undefined) changes.push(['serverInfo', overrides.serverInfo]);
  } else {
    changes.push(['serverInfo', overrides.serverInfo ?? handshake.serverInfo ?? UNNAMED]);
    changes.push(['supportedVersions', null], ['resultType', null], ['ttlMs', null], ['cacheScope', null]);
    const meta = metaChange(result, whole, [[SERVER_INFO_KEY, null]]);
    if (meta !== null) changes.push(meta);
    if (overrides.capabilities === undefined)
      changes.push(['capabilities', withExperimental(tasksToStateful(handshake.capabilities))]);
  }
  changes.push(...overridden(overrides));
  return editObject(result, whole, changes);
}
