import { GatewayError } from '../../model/gateway-error.ts';
import type { Operator } from '../operator.ts';
import type { Answer } from './agent-client.ts';
import { ask, type CallOptions, type Question } from './operator-calls.ts';

/** More pages than any honest list has. */
const MAX_PAGES = 1_000;

/** The body of a result, parsed, with its text. */
export function parsed<T>(body: Buffer): Answer<T> {
  const raw = body.toString();
  return { ...(JSON.parse(raw) as T), raw };
}

/** All pages of a list. Rejects with GatewayError UPSTREAM_PROTOCOL when they do not come to an end. */
export async function listAll<T>(
  operator: Operator,
  question: Omit<Question, 'params'>,
  key: string,
  options?: CallOptions,
): Promise<readonly T[]> {
  const items: T[] = [];
  const seen = new Set<string>();
  let params = '{}';
  for (;;) {
    const body = await ask(operator, { ...question, params }, options);
    const page = JSON.parse(body.toString()) as { readonly nextCursor?: string } & Record<string, readonly T[]>;
    items.push(...(page[key] ?? []));
    const cursor = page.nextCursor;
    if (cursor === undefined || cursor === null) return items;
    if (seen.has(cursor) || seen.size === MAX_PAGES) {
      throw new GatewayError('UPSTREAM_PROTOCOL', `the pages of ${question.method} do not come to an end`);
    }
    seen.add(cursor);
    params = JSON.stringify({ cursor });
  }
}
