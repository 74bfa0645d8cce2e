import type { Era } from '../model/message.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { result } from '../protocol/compose.ts';

/** A result of the gateway itself, in the format of the era. `members`: JSON text without the braces. */
export function ownAnswer(era: Era, members: string): Outcome {
  if (era === 'stateful') return answer(result('0', `{${members}}`, era));
  return answer(result('0', `{"resultType":"complete"${members === '' ? '' : `,${members}`}}`, era));
}

type ResultOutcome = Extract<Outcome, { kind: 'answer' }> & { readonly message: { readonly kind: 'result' } };

/** Whether the outcome is a result, and neither a failure nor an error of the server. */
export function isResult(outcome: Outcome): outcome is ResultOutcome {
  return outcome.kind === 'answer' && outcome.message.kind === 'result';
}

/** The empty completion of a server without completions, because the aggregate declares them for all. */
export function noCompletion(era: Era): Outcome {
  return ownAnswer(era, '"completion":{"values":[],"total":0,"hasMore":false}');
}
