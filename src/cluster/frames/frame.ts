import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Message, type MessageKind } from '../../model/message.ts';

/**
 * Version of the protocol between nodes, named in heartbeats; a node understands its own and the one before. Raise it for changes
 * that older nodes would misunderstand; they ignore unknown fields. 2: nodes delete claims up to a floor, unless a node speaks 1.
 */
export const PROTOCOL = 2;
export const OLDEST_PROTOCOL = 1;
/** Nodes of this protocol or a later one respect the floor of deleted claims. */
export const CLAIM_FLOOR_PROTOCOL = 2;
/** The newest form of calls (`forms` in heartbeats), and the first byte of a call in short form. Form 1 is the JSON frame. */
export const SHORT_FORM = 2;

export interface Frame<Header> {
  readonly header: Header;
  readonly pieces: readonly Buffer[];
}

const LENGTH_BYTES = 4;
const MAX_HEADER_BYTES = 8 * 1024 * 1024;

/** `protocol`: the oldest protocol that can read the frame. */
export function packFrame(header: object, pieces: readonly Buffer[] = [], protocol = OLDEST_PROTOCOL): Buffer[] {
  const sizes = pieces.map(({ length }) => length);
  const text = Buffer.from(JSON.stringify({ ...header, protocol, sizes }));
  const length = Buffer.allocUnsafe(LENGTH_BYTES);
  length.writeUInt32BE(text.length);
  return [length, text, ...pieces];
}

/** Throws GatewayError if the frame is malformed or of a protocol that this node does not understand. */
export function unpackFrame<Header>(bytes: Buffer): Frame<Header> {
  const frame = unpackAnyFrame<Header & { protocol: unknown }>(bytes);
  const { protocol } = frame.header;
  if (typeof protocol === 'number' && protocol >= OLDEST_PROTOCOL && protocol <= PROTOCOL) return frame;
  throw malformed(`of protocol ${String(protocol)}, and this node speaks ${OLDEST_PROTOCOL} to ${PROTOCOL}`);
}

/** Reads a frame of any protocol: all have the same layout. Throws GatewayError for malformed frames. */
export function unpackAnyFrame<Header>(bytes: Buffer): Frame<Header> {
  const length = bytes.length < LENGTH_BYTES ? -1 : bytes.readUInt32BE(0);
  if (length < 0 || length > MAX_HEADER_BYTES || LENGTH_BYTES + length > bytes.length) throw malformed('cut short');
  let header: { sizes?: unknown };
  try {
    header = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, LENGTH_BYTES + length));
  } catch (cause) {
    throw malformed('no JSON', cause);
  }
  const { sizes } = header;
  if (!Array.isArray(sizes)) throw malformed('without its sizes');
  const pieces: Buffer[] = [];
  let at = LENGTH_BYTES + length;
  for (const size of sizes as unknown[]) {
    if (typeof size !== 'number' || size < 0 || at + size > bytes.length) throw malformed('cut short');
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return { header: header as Header, pieces };
}

/** Envelope of a message, with offsets into its bytes, which are a piece of the frame. */
export interface MessageHead {
  readonly kind: MessageKind;
  readonly era: Message['era'];
  readonly method: string;
  /** Start and end of id and body. */
  readonly at: readonly [number, number, number, number];
}

export function headOf({ kind, era, method, idStart, idEnd, bodyStart, bodyEnd }: Message): MessageHead {
  return { kind, era, method, at: [idStart, idEnd, bodyStart, bodyEnd] };
}

export function messageOf({ kind, era, method, at }: MessageHead, bytes: Buffer): Message {
  for (const place of at) if (!(place >= -1 && place <= bytes.length)) throw malformed('with ranges beyond its bytes');
  return new Message(bytes, kind, era, method, ...at);
}

export function malformed(what: string, cause?: unknown): GatewayError {
  return new GatewayError('INTERNAL', `a message of another node is ${what}`, { outcome: 'REFUSED', cause });
}

export interface ClientText extends Omit<ClientProfile, 'principal'> {
  readonly principal: { readonly id: string; readonly name: string; readonly servers: readonly string[] | null };
}

export function clientText(client: ClientProfile): ClientText {
  const { id, name, servers } = client.principal;
  return { ...client, principal: { id, name, servers: servers === null ? null : [...servers] } };
}

export function clientOf(text: ClientText): ClientProfile {
  const { id, name, servers } = text.principal;
  return { ...text, principal: { id, name, servers: servers === null ? null : new Set(servers) } };
}
