import type { Exchange } from '../model/exchange.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { resultToStateless } from '../protocol/stateless/result-to-stateless.ts';

/**
 * A stateful server's result for a stateless client says whose it is, as every result of 2026-07-28 should (basic
 * §_meta): where those revisions say it once, at the handshake. All other outcomes stay as they are. The edge could not
 * do it alone: it does not know the server's hello.
 */
export function namedResult({ request }: Exchange, outcome: Outcome, serverInfo: () => string | null): Outcome {
  if (request.era === 'stateful' || outcome.kind === 'failure') return outcome;
  const { message } = outcome;
  if (message.kind !== 'result' || message.era === 'stateless') return outcome;
  return answer(resultToStateless(message, request.method, serverInfo()));
}
