import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { isResult } from '../own-results.ts';

/** Whether the caller sees what all callers see. If not, no other caller gets its answers (C9). */
export function seesLikeAll({ id, servers }: Principal): boolean {
  return id === ANONYMOUS.id && servers === null;
}

/** The answer with `private` in place of `public`; other answers are unchanged. */
export function keptPrivate(outcome: Outcome): Outcome {
  if (!isResult(outcome) || outcome.message.era !== 'stateless') return outcome;
  const { message } = outcome;
  const { cacheScope, scope } = cacheHints(message.bytes, message.bodyStart, message.bodyEnd);
  if (scope === null || cacheScope === 'private') return outcome;
  return answer(spliceMessage(message, [{ ...scope, insert: '"private"' }]));
}
