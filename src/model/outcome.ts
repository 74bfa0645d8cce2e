import type { GatewayError } from './gateway-error.ts';
import type { Message } from './message.ts';
import { letGo } from './pooled-buffers.ts';

/** How a call ended: `answer` is RESULT, `failure` one of the other three (`GatewayError.outcome`). */
export type Outcome =
  | { readonly kind: 'answer'; readonly message: Message }
  | { readonly kind: 'failure'; readonly error: GatewayError };

export function answer(message: Message): Outcome {
  return { kind: 'answer', message };
}

export function failure(error: GatewayError): Outcome {
  return { kind: 'failure', error };
}

/** What a tool answers goes to the one client that called it; lists and resources may be kept, or shared by several who asked. */
const CALL = 'tools/call';

/** Whether the answer to such a request is one caller's alone: the memory that it came in is free once it is translated. */
export function isForOneCaller(method: string): boolean {
  return method === CALL;
}

/** Whether the answer to this request is not needed any more once it is sent. */
export function isPassedOn({ method }: Message, outcome: Outcome): boolean {
  return outcome.kind === 'answer' && isForOneCaller(method);
}

/** The answer in its new words. Where it is passed on, the bytes that it came in are let go of if these are others. */
export function inPlaceOf(came: Message, translated: Message, method: string): Message {
  if (isForOneCaller(method) && translated.bytes.buffer !== came.bytes.buffer) letGo(came.bytes);
  return translated;
}
