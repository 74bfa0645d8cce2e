import { letGo } from '../model/lent-memory.ts';
import type { Message } from '../model/message.ts';

/**
 * Whether nobody needs the answer to such a request once it is sent: what a tool answers goes to the one client that called
 * it, where lists and resources may be kept, or shared by several who asked at the same time.
 */
export function isPassedOn(method: string): boolean {
  return method === 'tools/call';
}

/** The answer in its new words. Where it is passed on, the bytes that it came in are let go of if these are others. */
export function inPlaceOf(came: Message, translated: Message, method: string): Message {
  if (isPassedOn(method) && translated.bytes.buffer !== came.bytes.buffer) letGo(came.bytes);
  return translated;
}
