import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { bodyField } from '../../protocol/body.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { inputOf, mayRequireInput, takesInput } from '../../protocol/stateless/input-required.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';

/**
 * The `requestState` of a server of 2026-07-28 may hold what only the process understands that gave it out, a key it made at
 * its start for one. Every node that has the server in its file runs a process of it; so the states carry the name of
 * their node, and requests with one go back there.
 */
const MARK = 'trunkline-at.';
const MARK_BYTES = Buffer.from(MARK);
const NAME_CHARS = 16;
const QUOTE = 0x22;

/** The node whose process gave out the state that the request holds; null for none. */
export function nodeOfState(request: Message): string | null {
  const at = placeOf(request);
  return at < 0 ? null : request.bytes.toString('latin1', at + MARK.length, at + MARK.length + NAME_CHARS);
}

/** The request with the state as the process knows it. */
export function withoutNode(request: Message): Message {
  const start = placeOf(request);
  if (start < 0) return request;
  return spliceMessage(request, [{ start, end: start + MARK.length + NAME_CHARS + 1, insert: '' }]);
}

/** Whether the outcome of the request may hold a state that is to be marked. */
export function mayGiveState({ era, method }: Message): boolean {
  return era === 'stateless' && takesInput(method);
}

/** The outcome with its state, if it has one, marked with the node. */
export function withNode(outcome: Outcome, node: string): Outcome {
  if (outcome.kind === 'failure' || !mayRequireInput(outcome.message)) return outcome;
  const { message } = outcome;
  const state = bodyField(message, 'requestState');
  if (state === null || message.bytes[state.start] !== QUOTE || resultType(message) !== 'input_required')
    return outcome;
  const start = state.start + 1;
  return answer(spliceMessage(message, [{ start, end: start, insert: `${MARK}${node}.` }]));
}

/** Where in the request the mark begins; -1 where there is none. */
function placeOf(request: Message): number {
  if (!takesInput(request.method) || !request.bytes.includes(MARK_BYTES)) return -1;
  const { state } = inputOf(request);
  const start = (state?.start ?? -2) + 1;
  const length = MARK.length + NAME_CHARS + 1;
  if (state === null || start + length > state.end) return -1;
  const found = request.bytes.toString('latin1', start, start + length);
  return found.startsWith(MARK) && found.endsWith('.') ? start : -1;
}
