import type { Message } from '../../model/message.ts';
import { bodyField } from '../body.ts';
import { stringValue } from '../fields.ts';

/** What a stateless result is: `complete` (also where it does not say), `input_required`, `task`, or something else. */
export function resultType(result: Message): string {
  const type = bodyField(result, 'resultType');
  return type === null ? 'complete' : (stringValue(result.bytes, type) ?? 'malformed');
}
