import { GatewayError } from '../model/gateway-error.ts';
import { TASK_VIEW, TASKS } from '../model/task-view.ts';
import { type ApiOperation, ok, operation, problem } from './operation.ts';

/** Tasks of all callers. */
export const TASK_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listTasks',
    method: 'GET',
    path: '/api/v1/tasks',
    summary: 'The tasks that calls of clients have begun, of all nodes, until they expire.',
    schema: TASKS,
    run: (_request, { tasks }) => ok({ tasks: tasks.list() }),
  }),
  operation({
    id: 'cancelTask',
    method: 'POST',
    path: '/api/v1/tasks/{name}/cancel',
    summary: 'Cancels a task at its server.',
    schema: TASK_VIEW,
    errors: {
      404: 'There is no such task, or it has expired.',
      409: 'It has ended.',
      503: 'Its server does not answer, or does not cancel it.',
    },
    async run({ name }, { tasks }) {
      try {
        const task = await tasks.cancel(name);
        if (task !== null) return ok(task);
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        const ended = error.code === 'INVALID_PARAMS';
        return problem(ended ? 409 : 503, ended ? 'task_ended' : 'task_not_cancelled', error.message);
      }
      return problem(404, 'task_unknown', 'there is no task with this key, or it has expired');
    },
  }),
];
