import type { ClientProfile } from '../../model/client-profile.ts';
import { LATEST_STATELESS } from '../../model/message.ts';
import { CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY } from '../meta-keys.ts';
import { removeMember, splice } from '../splice.ts';

/**
 * The `_meta` members with which a request towards a stateless server says who asks (2026-07-28 basic §_meta). What
 * the client did not say is null: it is taken away where somebody put it.
 */
export function clientMeta(
  client: Pick<ClientProfile, 'capabilities' | 'info'>,
  logLevel: string | null = null,
): (readonly [string, string | null])[] {
  return [
    [PROTOCOL_VERSION_KEY, `"${LATEST_STATELESS}"`],
    [CLIENT_CAPABILITIES_KEY, declarable(client.capabilities)],
    [CLIENT_INFO_KEY, client.info],
    [LOG_LEVEL_KEY, logLevel === null ? null : JSON.stringify(logLevel)],
  ];
}

/** Tasks that a client runs for servers have no counterpart in 2026-07-28; everything else is declared as it is. */
function declarable(capabilities: string): string {
  if (!capabilities.includes('tasks')) return capabilities;
  const bytes = Buffer.from(capabilities);
  const edit = removeMember(bytes, { start: 0, end: bytes.length }, 'tasks');
  return edit === null ? capabilities : splice(bytes, [edit]).toString();
}
