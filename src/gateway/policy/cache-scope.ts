import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { spliceMessage } from '../../protocol/splice.ts';

/** Whether everybody sees what this caller sees. Where callers differ, what one sees is not for the others (C9). */
export function seesLikeAll({ id, servers }: Principal): boolean {
  return id === ANONYMOUS.id && servers === null;
}

/** The answer said to be its caller's alone, where its server said it is for everybody. Others stay as they are. */
export function keptPrivate(outcome: Outcome): Outcome {
  if (outcome.kind !== 'answer' || outcome.message.kind !== 'result' || outcome.message.era !== 'stateless') {
    return outcome;
  }
  const { message } = outcome;
  const { cacheScope, scope } = cacheHints(message.bytes, message.bodyStart, message.bodyEnd);
  if (scope === null || cacheScope === 'private') return outcome;
  return answer(spliceMessage(message, [{ ...scope, insert: '"private"' }]));
}
