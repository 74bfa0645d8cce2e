import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { bodyField } from '../../protocol/body.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { inputOf, mayRequireInput, takesInput } from '../../protocol/stateless/input-required.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';

/**
 * Only the process that issued a `requestState` may understand it, and each node runs its own process. Each node therefore
 * prefixes states with its peer id, and requests with such a state go back to it.
 */
const MARK = 'trunkline-at.';
const MARK_BYTES = Buffer.from(MARK);
const NAME_CHARS = 16;
const QUOTE = 0x22;

/** Returns null if the state names no node. */
export function nodeOfState(request: Message): string | null {
  const at = placeOf(request);
  return at < 0 ? null : request.bytes.toString('latin1', at + MARK.length, at + MARK.length + NAME_CHARS);
}

export function withoutNode(request: Message): Message {
  const start = placeOf(request);
  if (start < 0) return request;
  return spliceMessage(request, [{ start, end: start + MARK.length + NAME_CHARS + 1, insert: '' }]);
}

export function mayGiveState({ era, method }: Message): boolean {
  return era === 'stateless' && takesInput(method);
}

export function withNode(outcome: Outcome, node: string): Outcome {
  if (outcome.kind === 'failure' || !mayRequireInput(outcome.message)) return outcome;
  const { message } = outcome;
  const state = bodyField(message, 'requestState');
  if (state === null || message.bytes[state.start] !== QUOTE || resultType(message) !== 'input_required')
    return outcome;
  const start = state.start + 1;
  return answer(spliceMessage(message, [{ start, end: start, insert: `${MARK}${node}.` }]));
}

/** Returns the offset of the mark; -1 without one. */
function placeOf(request: Message): number {
  if (!takesInput(request.method) || !request.bytes.includes(MARK_BYTES)) return -1;
  const { state } = inputOf(request);
  const start = (state?.start ?? -2) + 1;
  const length = MARK.length + NAME_CHARS + 1;
  if (state === null || start + length > state.end) return -1;
  const found = request.bytes.toString('latin1', start, start + length);
  return found.startsWith(MARK) && found.endsWith('.') ? start : -1;
}
