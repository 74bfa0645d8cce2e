import type { Era } from '../model/message.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { result } from '../protocol/compose.ts';

/** An answer of the gateway's own: members as JSON text without the braces, in the vocabulary of the era. */
export function ownAnswer(era: Era, members: string): Outcome {
  if (era === 'stateful') return answer(result('0', `{${members}}`, era));
  return answer(result('0', `{"resultType":"complete"${members === '' ? '' : `,${members}`}}`, era));
}

type ResultOutcome = Extract<Outcome, { kind: 'answer' }> & { readonly message: { readonly kind: 'result' } };

/** Whether it is a result: no failure, and no error of the server. */
export function isResult(outcome: Outcome): outcome is ResultOutcome {
  return outcome.kind === 'answer' && outcome.message.kind === 'result';
}

/** What a server without completions has to offer, said by us, because the aggregate declares completions. */
export function noCompletion(era: Era): Outcome {
  return ownAnswer(era, '"completion":{"values":[],"total":0,"hasMore":false}');
}
