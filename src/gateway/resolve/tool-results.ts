import { toolFacts } from '../../catalog/exposed-items.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, inPlaceOf, type Outcome } from '../../model/outcome.ts';
import type { Capability } from '../../model/server-catalog.ts';
import { resultToStateful } from '../../protocol/stateful/to-stateful.ts';

/**
 * A tool's result in stateful words where its server is stateless. The edge could not do it alone: whether the
 * structured content is wrapped depends on the tool's schema. In one era nothing is done, and nothing is waited for.
 */
export function toolResult(
  outcome: Promise<Outcome>,
  request: Message,
  serverEra: Era | undefined,
  tool: Capability,
): Promise<Outcome> {
  if (request.era === 'stateless' || serverEra !== 'stateless') return outcome;
  const { wrapped } = toolFacts(tool);
  return outcome.then((ended) => {
    if (ended.kind !== 'answer' || ended.message.kind !== 'result') return ended;
    const translated = resultToStateful(ended.message, 'tools/call', wrapped, true);
    return answer(inPlaceOf(ended.message, translated, 'tools/call'));
  });
}
