import type { Message } from '../../model/message.ts';
import { bodyField, bodyString } from '../../protocol/body.ts';
import { classify, type Inbound } from '../../protocol/classify.ts';
import { field, stringValue } from '../../protocol/fields.ts';
import { encodeHeaderValue, type WireHeaders } from '../../protocol/headers.ts';
import { PROTOCOL_VERSION_KEY } from '../../protocol/meta-keys.ts';
import { nameMember } from '../../protocol/methods.ts';

/**
 * Classifies a message on a wire without headers (2026-07-28 stdio §Request Metadata). The rules are those of HTTP; values
 * that headers would have to repeat are taken from the body, so that only the body decides. `session` is the revision of the
 * wire's session; null before it is open.
 */
export function classifyHeaderless(message: Message, session: string | null): Inbound {
  const { bytes, bodyStart } = message;
  if (bodyStart < 0 || (message.kind !== 'request' && message.kind !== 'notification')) return classify({}, message);
  const meta = bodyField(message, '_meta');
  const claim = meta === null ? null : stringValue(bytes, field(bytes, meta.start, meta.end, PROTOCOL_VERSION_KEY));
  if (claim === null) return classify({}, message);
  const headers: Record<string, string> = { 'mcp-protocol-version': claim, 'mcp-method': message.method };
  // A wire has one session: what names its revision belongs to it.
  if (claim === session) headers['mcp-session-id'] = 'wire';
  const member = nameMember(message.method);
  const name = member === null ? null : bodyString(message, member);
  if (name !== null) headers['mcp-name'] = encodeHeaderValue(name);
  return classify(headers satisfies WireHeaders, message);
}
