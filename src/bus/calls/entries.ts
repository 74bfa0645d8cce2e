import type { CallId } from './call-id.ts';
import { ENDS, ENTRY_HEAD, type End, type Framed } from './frames.ts';

/**
 * The entries of a bundle, one after the other: what it says is of the one that `next` has come to, so that nothing has to be
 * made for each. A frame is where it came, among the others.
 */
export class Entries implements CallId, Framed {
  readonly bytes: Buffer;
  end: End = 'new';
  family = 0;
  number = 0;
  from = 0;
  to = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** False behind the last one, and where the message is cut otherwise than it says. */
  next(): boolean {
    const { bytes, to: at } = this;
    if (at + ENTRY_HEAD >= bytes.length) return false;
    const next = at + 4 + bytes.readUInt32BE(at);
    const end = ENDS[bytes[at + 4]!];
    if (next > bytes.length || next <= at + ENTRY_HEAD || end === undefined) return false;
    this.end = end;
    this.family = bytes.readUInt32BE(at + 5);
    this.number = bytes.readUInt32BE(at + 9);
    this.from = at + ENTRY_HEAD;
    this.to = next;
    return true;
  }

  /** Behind the last one: whether the message was cut as it says. */
  get whole(): boolean {
    return this.to === this.bytes.length;
  }
}
