import type { Era, Message } from '../model/message.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { result } from '../protocol/compose.ts';

/** An answer of the gateway's own: members as JSON text without the braces, in the vocabulary of the era. */
export function ownAnswer(era: Era, members: string): Outcome {
  return answer(ownResult(era, members));
}

function ownResult(era: Era, members: string): Message {
  if (era === 'stateful') return result('0', `{${members}}`, era);
  return result('0', `{"resultType":"complete"${members === '' ? '' : `,${members}`}}`, era);
}

/** What a server without completions has to offer, said by us, because the aggregate declares completions. */
export function noCompletion(era: Era): Outcome {
  return ownAnswer(era, '"completion":{"values":[],"total":0,"hasMore":false}');
}
