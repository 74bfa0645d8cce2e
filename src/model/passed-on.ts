import { letGo } from './lent-memory.ts';
import type { Message } from './message.ts';
import type { Outcome } from './outcome.ts';

/** What a tool answers goes to the one client that called it; lists and resources may be kept, or shared by several who asked. */
const CALL = 'tools/call';

/** Whether the answer to such a request, in the words that it came in, is nobody's any more once it stands in others. */
export function isOwn(method: string): boolean {
  return method === CALL;
}

/** Whether nobody needs the answer to this request any more once it is sent. */
export function isPassedOn({ method }: Message, outcome: Outcome): boolean {
  return outcome.kind === 'answer' && isOwn(method);
}

/** The answer in its new words. Where it is passed on, the bytes that it came in are let go of if these are others. */
export function inPlaceOf(came: Message, translated: Message, method: string): Message {
  if (isOwn(method) && translated.bytes.buffer !== came.bytes.buffer) letGo(came.bytes);
  return translated;
}
