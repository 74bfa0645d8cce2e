import type { Message } from '../model/message.ts';
import type { HandshakeResult } from '../model/server-catalog.ts';
import { fields, type Range, stringValue, text } from './fields.ts';

/** What replaces the server's own words in a handshake's result. JSON texts, but for `instructions`. */
export interface HandshakeOverrides {
  readonly serverInfo?: string;
  readonly capabilities?: string;
  /** Decoded text; null takes them away. */
  readonly instructions?: string | null;
}

/** For peers that must be named and did not say. */
export const UNNAMED = '{"name":"unknown","version":"0"}';

/** The changes of a handshake's result that the overrides ask for; `serverInfo` is placed by the era. */
export function overridden(overrides: HandshakeOverrides): (readonly [string, string | null])[] {
  const changes: (readonly [string, string | null])[] = [];
  if (overrides.capabilities !== undefined) changes.push(['capabilities', overrides.capabilities]);
  const { instructions } = overrides;
  if (instructions !== undefined)
    changes.push(['instructions', instructions === null ? null : JSON.stringify(instructions)]);
  return changes;
}

/** The result of a handshake; `serverInfo` is where the era puts it. */
export function handshakeOf(
  result: Message,
  era: HandshakeResult['era'],
  revision: string,
  serverInfo: Range | null,
): HandshakeResult {
  const { bytes, bodyStart, bodyEnd } = result;
  const [capabilities, instructions] = fields(bytes, bodyStart, bodyEnd, ['capabilities', 'instructions']) as [
    Range | null,
    Range | null,
  ];
  return {
    era,
    revision,
    // A copy: a hello is kept for as long as the connection, and must not keep the chunk it came in.
    result: Buffer.from(result.body),
    serverInfo: isObject(bytes, serverInfo) ? text(bytes, serverInfo!) : null,
    capabilities: isObject(bytes, capabilities) ? text(bytes, capabilities!) : '{}',
    instructions: stringValue(bytes, instructions),
  };
}

function isObject(bytes: Buffer, range: Range | null): boolean {
  return range !== null && bytes[range.start] === 0x7b;
}
