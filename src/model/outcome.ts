import type { GatewayError } from './gateway-error.ts';
import type { Message } from './message.ts';
import { claimAndReturn } from './pooled-buffers.ts';

/** How a call ended: `answer` is RESULT; `failure` is one of the other three outcomes (`GatewayError.outcome`). */
export type Outcome =
  | { readonly kind: 'answer'; readonly message: Message }
  | { readonly kind: 'failure'; readonly error: GatewayError };

export function answer(message: Message): Outcome {
  return { kind: 'answer', message };
}

export function failure(error: GatewayError): Outcome {
  return { kind: 'failure', error };
}

/** A tool result goes to the one client that called the tool; lists and resources may be cached or shared by several requests. */
const CALL = 'tools/call';

/** Whether the answer to this method goes to one caller only: its memory can be freed once it is translated. */
export function isForOneCaller(method: string): boolean {
  return method === CALL;
}

/** Whether the answer to this request is no longer needed once it is sent. */
export function isPassedOn({ method }: Message, outcome: Outcome): boolean {
  return outcome.kind === 'answer' && isForOneCaller(method);
}

/** The translated answer. Releases the memory of the original if the translation has its own and only one caller gets it. */
export function replaceAnswer(original: Message, translated: Message, method: string): Message {
  if (isForOneCaller(method) && translated.bytes.buffer !== original.bytes.buffer) claimAndReturn(original.bytes);
  return translated;
}
