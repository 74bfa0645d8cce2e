import { described, type Infer, isoTime, list, milliseconds, named, nullable, object, oneOf, text } from './schema.ts';

const TASK = named(
  'Task',
  object({
    key: described(text, 'Names the task here; its id is known to the caller that started it.'),
    server: text,
    principal: text,
    client: described(nullable(text), 'Name and version of the client, as it said.'),
    session: described(nullable(text), 'Label of the session whose connection it runs over; null without one.'),
    era: described(nullable(oneOf(['stateful', 'stateless'])), 'Of the server; null where the gateway made the task.'),
    status: oneOf(['working', 'input_required', 'completed', 'failed', 'cancelled']),
    message: described(nullable(text), 'What the server said of it last.'),
    startedAt: isoTime,
    expiresAt: isoTime,
    ttlMs: nullable(milliseconds),
  }),
  'A task that a call of a client began, at whichever node.',
);
/** A task for operators. */
export type TaskView = Infer<typeof TASK>;
export const TASK_VIEW = TASK;
export const TASKS = object({ tasks: list(TASK) });
