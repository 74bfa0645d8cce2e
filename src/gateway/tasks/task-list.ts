import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Sealing } from '../../model/sealing.ts';
import { result } from '../../protocol/compose.ts';
import { cursorParam } from '../params.ts';
import { statefulView } from './task-answers.ts';
import type { TaskNames } from './task-names.ts';

const PAGE = 50;

/**
 * `tasks/list`, from what is known here and of the caller only (2025-11-25 utilities/tasks §Task Isolation): no server
 * could tell one caller's tasks from another's. Cursors are sealed for the caller and the endpoint.
 */
export function listTasks(exchange: Exchange, endpoint: Endpoint, names: TaskNames, sealing: Sealing): Outcome {
  const { request, client } = exchange;
  const { principal } = client;
  const context = `tasks ${principal.id} ${endpoint.path}`;
  const cursor = cursorParam(request);
  if (cursor instanceof GatewayError) return failure(cursor);
  const after = cursor === null ? null : sealing.open(context, cursor);
  if (cursor !== null && after === null) {
    return failure(new GatewayError('INVALID_PARAMS', 'params.cursor is not a cursor of this list'));
  }
  const left = [...names.of(principal, endpoint)].filter((record) => after === null || placeOf(record) > after);
  left.sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  const shown = left.slice(0, PAGE);
  const tasks = shown.map((record) => statefulView(record, names.exposed(record, principal, endpoint)).toString());
  const more = left.length > PAGE;
  const next = more ? `,"nextCursor":${JSON.stringify(sealing.seal(context, placeOf(shown.at(-1)!)))}` : '';
  return answer(result('0', `{"tasks":[${tasks.join(',')}]${next}}`, 'stateful'));
}

/** Where the task is in the list, whether or not it is still there. */
function placeOf({ startedAt, key }: TaskRecord): string {
  return `${String(Math.floor(startedAt)).padStart(16, '0')} ${key}`;
}
