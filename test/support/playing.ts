import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json } from './raw-http.ts';
import type { RunningGateway } from './running-gateway.ts';

/** One call of the playground over the control API; questions are answered as `answers` says, by method. */
export async function play(
  gateway: RunningGateway,
  body: object,
  answers: Readonly<Record<string, object>> = {},
  seen: (step: Json, run: string) => void = () => {},
  node: string | null = null,
): Promise<Json[]> {
  const token = readFileSync(join(gateway.folder, 'data', 'control.token'), 'utf8').trim();
  const at = node === null ? '' : `?node=${node}`;
  const response = await fetch(new URL(`/api/v1/playground${at}`, gateway.controlUrl), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  const steps: Json[] = [];
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body!) {
    rest += decoder.decode(chunk as Uint8Array, { stream: true });
    const events = rest.split('\n\n');
    rest = events.pop()!;
    for (const event of events) {
      const [, data] = /^data: ?(.+)$/m.exec(event) ?? [];
      if (data === undefined) continue;
      const step = JSON.parse(data) as Json;
      steps.push(step);
      const { run } = steps[0];
      seen(step, run);
      const answer = answers[step.question?.method];
      if (answer !== undefined)
        await gateway.control(
          `/api/v1/playground/${run}${at}`,
          'POST',
          JSON.stringify({ question: step.question.key, ...answer }),
        );
    }
  }
  return steps;
}

/** The message that answered the call. */
export function answerIn(steps: readonly Json[]): Json {
  return steps.findLast(({ received }) => received?.result !== undefined || received?.error !== undefined)!.received;
}

export function endOf(steps: readonly Json[]): Json {
  return steps.at(-1).done;
}
