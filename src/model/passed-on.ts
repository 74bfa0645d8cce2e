import { letGo } from './lent-memory.ts';
import type { Message } from './message.ts';
import type { Outcome } from './outcome.ts';

/** What a tool answers goes to the one client that called it; lists and resources may be kept, or shared by several who asked. */
const CALL = 'tools/call';

/** Whether nobody needs the answer to this request any more once it is sent. */
export function isPassedOn({ method }: Message, outcome: Outcome): boolean {
  return outcome.kind === 'answer' && method === CALL;
}

/** The answer in its new words. Where it is passed on, the bytes that it came in are let go of if these are others. */
export function inPlaceOf(came: Message, translated: Message, method: string): Message {
  if (method === CALL && translated.bytes.buffer !== came.bytes.buffer) letGo(came.bytes);
  return translated;
}
